// argsort: the places of each row's numbers, from the smallest to the largest.
//
//   rank[b, s, j]          = |{i : x[b, s, i] < x[b, s, j], or equal to it and i < j}|
//   y[b, s, rank[b, s, j]] = j
//
// Equal numbers keep their order. The opposite of x gives the other direction,
// stable too. Counted and not swapped, so that every place is computed by itself; that
// is n_embd^2 comparisons a row. Not for NaN.
//
// Source:  Knuth 1998, "The Art of Computer Programming" 3, section 5.2 (counting).
// Exports: @argsort.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 out
// Oracle:  oracles/reduction.py argsort
// Try:     iree-opt components/reduction/argsort.mlir
module @argsort {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xi32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
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
      %is_ahead = arith.cmpf olt, %other, %value : f32
      %is_equal = arith.cmpf oeq, %other, %value : f32
      %is_earlier = arith.cmpi ult, %i, %j : index
      %is_tie = arith.andi %is_equal, %is_earlier : i1
      %is_before = arith.ori %is_ahead, %is_tie : i1
      %increment = arith.select %is_before, %one_i32, %zero_i32 : i32
      %next = arith.addi %count, %increment : i32
      linalg.yield %next : i32
    } -> tensor<?x?x?xi32>

    // Step 2: which number has each rank, [batch, seq, n_embd].
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xi32>
    %y_zero = linalg.fill ins(%zero_i32 : i32) outs(%y_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, r, j) -> (b, s, j)>,
        affine_map<(b, s, r, j) -> (b, s, r)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%rank : tensor<?x?x?xi32>) outs(%y_zero : tensor<?x?x?xi32>) {
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
    util.return %y : tensor<?x?x?xi32>
  }
}
