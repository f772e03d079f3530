// topk: the k largest numbers of each row, and their places, largest first.
//
//   places[b, s, r] = the first place of the largest x[b, s, j] that comes after pass r-1
//   values[b, s, r] = x[b, s, places[b, s, r]]
//
// where j comes after i if x[b, s, j] < x[b, s, i], or they are equal and j > i. Of equal
// numbers the first comes first. Each of the k passes looks for the next number in the
// whole row, which is k * n_embd comparisons. k is at most n_embd. Not for NaN. Places
// alone are handed from pass to pass, since of two tensors that are made together
// IREE 3.13 gives a loop the first for both.
//
// Source:  Knuth 1998, "The Art of Computer Programming" 3, section 5.2.3 (selection).
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
    %zero_i32 = arith.constant 0 : i32
    %before_all = arith.constant -1 : i32
    %end = arith.constant 2147483647 : i32
    %lowest = arith.constant 0xFF800000 : f32
    %highest = arith.constant 0x7F800000 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %per_row_i32 = tensor.empty(%batch, %seq) : tensor<?x?xi32>
    %places_init = tensor.empty(%batch, %seq, %k) : tensor<?x?x?xi32>
    %places_zero = linalg.fill ins(%zero_i32 : i32)
        outs(%places_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>

    %places = scf.for %r = %c0 to %k step %c1
        iter_args(%found = %places_zero) -> (tensor<?x?x?xi32>) {
      // Step 1: the number that the last pass found, and its place, [batch, seq].
      %is_first = arith.cmpi eq, %r, %c0 : index
      %pass = arith.maxui %r, %c1 : index
      %column = arith.subi %pass, %c1 : index
      %before, %before_at = linalg.generic {
        indexing_maps = [affine_map<(b, s) -> (b, s)>, affine_map<(b, s) -> (b, s)>],
        iterator_types = ["parallel", "parallel"]
      } outs(%per_row, %per_row_i32 : tensor<?x?xf32>, tensor<?x?xi32>) {
      ^bb0(%unused: f32, %unused_i32: i32):
        %b = linalg.index 0 : index
        %s = linalg.index 1 : index
        %place = tensor.extract %found[%b, %s, %column] : tensor<?x?x?xi32>
        %j = arith.index_cast %place : i32 to index
        %value = tensor.extract %x[%b, %s, %j] : tensor<?x?x?xf32>
        %last = arith.select %is_first, %highest, %value : f32
        %last_at = arith.select %is_first, %before_all, %place : i32
        linalg.yield %last, %last_at : f32, i32
      } -> (tensor<?x?xf32>, tensor<?x?xi32>)

      // Step 2: the largest number after it, [batch, seq].
      %peak_init = linalg.fill ins(%lowest : f32) outs(%per_row : tensor<?x?xf32>)
          -> tensor<?x?xf32>
      %peak = linalg.generic {
        indexing_maps = [
          affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s)>,
          affine_map<(b, s, j) -> (b, s)>, affine_map<(b, s, j) -> (b, s)>
        ],
        iterator_types = ["parallel", "parallel", "reduction"]
      } ins(%x, %before, %before_at
            : tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?x?xi32>)
        outs(%peak_init : tensor<?x?xf32>) {
      ^bb0(%value: f32, %last: f32, %last_at: i32, %partial: f32):
        %j = linalg.index 2 : index
        %place = arith.index_cast %j : index to i32
        %is_less = arith.cmpf olt, %value, %last : f32
        %is_equal = arith.cmpf oeq, %value, %last : f32
        %is_later = arith.cmpi sgt, %place, %last_at : i32
        %is_tie = arith.andi %is_equal, %is_later : i1
        %is_after = arith.ori %is_less, %is_tie : i1
        %candidate = arith.select %is_after, %value, %lowest : f32
        %next = arith.maximumf %partial, %candidate : f32
        linalg.yield %next : f32
      } -> tensor<?x?xf32>

      // Step 3: its first place; behind the last one, if they are equal, [batch, seq].
      %place_init = linalg.fill ins(%end : i32) outs(%per_row_i32 : tensor<?x?xi32>)
          -> tensor<?x?xi32>
      %peak_at = linalg.generic {
        indexing_maps = [
          affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s)>,
          affine_map<(b, s, j) -> (b, s)>, affine_map<(b, s, j) -> (b, s)>,
          affine_map<(b, s, j) -> (b, s)>
        ],
        iterator_types = ["parallel", "parallel", "reduction"]
      } ins(%x, %before, %before_at, %peak
            : tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?x?xi32>, tensor<?x?xf32>)
        outs(%place_init : tensor<?x?xi32>) {
      ^bb0(%value: f32, %last: f32, %last_at: i32, %largest: f32, %partial: i32):
        %j = linalg.index 2 : index
        %place = arith.index_cast %j : index to i32
        %is_less = arith.cmpf olt, %value, %last : f32
        %is_later = arith.cmpi sgt, %place, %last_at : i32
        %is_after = arith.ori %is_less, %is_later : i1
        %is_largest = arith.cmpf oeq, %value, %largest : f32
        %is_found = arith.andi %is_largest, %is_after : i1
        %candidate = arith.select %is_found, %place, %end : i32
        %next = arith.minsi %partial, %candidate : i32
        linalg.yield %next : i32
      } -> tensor<?x?xi32>
      %with_place = tensor.insert_slice %peak_at
          into %found[0, 0, %r] [%batch, %seq, 1] [1, 1, 1]
          : tensor<?x?xi32> into tensor<?x?x?xi32>
      scf.yield %with_place : tensor<?x?x?xi32>
    }

    // Step 4: the numbers of these places, [batch, seq, k].
    %values_init = tensor.empty(%batch, %seq, %k) : tensor<?x?x?xf32>
    %values = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, r) -> (b, s, r)>,
        affine_map<(b, s, r) -> (b, s, r)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%places : tensor<?x?x?xi32>) outs(%values_init : tensor<?x?x?xf32>) {
    ^bb0(%place: i32, %unused: f32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %j = arith.index_cast %place : i32 to index
      %value = tensor.extract %x[%b, %s, %j] : tensor<?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x?xf32>
    util.return %values, %places : tensor<?x?x?xf32>, tensor<?x?x?xi32>
  }
}
