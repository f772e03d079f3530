// topk: the k largest numbers of each row, and their places, largest first.
//
//   rank[b, s, j]               = |{i : x[b, s, i] > x[b, s, j], or equal and i < j}|
//   values[b, s, rank[b, s, j]] = x[b, s, j]    where rank[b, s, j] < k
//   places[b, s, rank[b, s, j]] = j
//
// Of equal numbers the first comes first. n_embd^2 comparisons a row: for the experts
// of a router, not for a vocabulary. k is at most n_embd. Not for NaN.
//
// Source:  Knuth 1998, "The Art of Computer Programming" 3, section 5.2 (counting).
// Exports: @topk.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd, k (fixed by specialize)
// Types:   f32 in, f32 and i32 out
// Oracle:  oracles/reduction.py topk
// Try:     iree-opt components/reduction/topk.mlir
module @topk {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %k: index               // k
  ) -> (
      tensor<?x?x?xf32>,      // [batch, seq, k] values
      tensor<?x?x?xi32>       // [batch, seq, k] places
  ) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>

    // Step 1: how many numbers of its row come before each, [batch, seq, n_embd].
    %rank_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xi32>
    %rank_zero = linalg.fill ins(%zero_i32 : i32) outs(%rank_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>
    %rank = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j, i) -> (b, s, j)>,
        affine_map<(b, s, j, i) -> (b, s, i)>,
        affine_map<(b, s, j, i) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%x, %x : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%rank_zero : tensor<?x?x?xi32>) {
    ^bb0(%value: f32, %other: f32, %count: i32):
      %j = linalg.index 2 : index
      %i = linalg.index 3 : index
      %is_ahead = arith.cmpf ogt, %other, %value : f32
      %is_equal = arith.cmpf oeq, %other, %value : f32
      %is_earlier = arith.cmpi ult, %i, %j : index
      %is_tie = arith.andi %is_equal, %is_earlier : i1
      %is_before = arith.ori %is_ahead, %is_tie : i1
      %increment = arith.select %is_before, %one_i32, %zero_i32 : i32
      %next = arith.addi %count, %increment : i32
      linalg.yield %next : i32
    } -> tensor<?x?x?xi32>

    // Step 2: which number has each rank, [batch, seq, k].
    %values_init = tensor.empty(%batch, %seq, %k) : tensor<?x?x?xf32>
    %values_zero = linalg.fill ins(%zero : f32) outs(%values_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %values = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, r, j) -> (b, s, j)>,
        affine_map<(b, s, r, j) -> (b, s, j)>,
        affine_map<(b, s, r, j) -> (b, s, r)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%rank, %x : tensor<?x?x?xi32>, tensor<?x?x?xf32>)
      outs(%values_zero : tensor<?x?x?xf32>) {
    ^bb0(%own: i32, %value: f32, %sum: f32):
      %r = linalg.index 2 : index
      %wanted = arith.index_cast %r : index to i32
      %is_wanted = arith.cmpi eq, %own, %wanted : i32
      %term = arith.select %is_wanted, %value, %zero : f32
      %next = arith.addf %sum, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    %places_init = tensor.empty(%batch, %seq, %k) : tensor<?x?x?xi32>
    %places_zero = linalg.fill ins(%zero_i32 : i32)
        outs(%places_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>
    %places = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, r, j) -> (b, s, j)>,
        affine_map<(b, s, r, j) -> (b, s, r)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%rank : tensor<?x?x?xi32>) outs(%places_zero : tensor<?x?x?xi32>) {
    ^bb0(%own: i32, %sum: i32):
      %r = linalg.index 2 : index
      %j = linalg.index 3 : index
      %place = arith.index_cast %j : index to i32
      %wanted = arith.index_cast %r : index to i32
      %is_wanted = arith.cmpi eq, %own, %wanted : i32
      %term = arith.select %is_wanted, %place, %zero_i32 : i32
      %next = arith.addi %sum, %term : i32
      linalg.yield %next : i32
    } -> tensor<?x?x?xi32>
    util.return %values, %places : tensor<?x?x?xf32>, tensor<?x?x?xi32>
  }
}
