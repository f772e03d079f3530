// argsort: the places of each row's numbers, from the smallest to the largest.
//
//   x[b, s, y[b, s, p]] <= x[b, s, y[b, s, p + 1]], and of equal ones the first is first
//
// Equal numbers keep their order. The opposite of x gives the other direction,
// stable too. Sorted runs of 1, 2, 4, ... numbers are merged in pairs, and every place
// of a merged run is found by itself, by halving: n_embd * log2(n_embd)^2 steps a row
// at most. Not for NaN.
//
// Source:  Odeh et al. 2012, doi:10.1109/IPDPSW.2012.202 (merge path).
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
    %bits = arith.constant 32 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>

    // Step 1: every number is a run, [batch, seq, n_embd].
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xi32>
    %single = linalg.generic {
      indexing_maps = [affine_map<(b, s, p) -> (b, s, p)>],
      iterator_types = ["parallel", "parallel", "parallel"]
    } outs(%y_init : tensor<?x?x?xi32>) {
    ^bb0(%unused: i32):
      %p = linalg.index 2 : index
      %place = arith.index_cast %p : index to i32
      linalg.yield %place : i32
    } -> tensor<?x?x?xi32>

    // Step 2: merge runs of 2^level, [batch, seq, n_embd].
    %end = arith.subi %n_embd, %c1 : index
    %end_i32 = arith.index_cast %end : index to i32
    %unused_bits = math.ctlz %end_i32 : i32
    %level_count = arith.subi %bits, %unused_bits : i32
    %levels = arith.index_cast %level_count : i32 to index
    %y = scf.for %level = %c0 to %levels step %c1
        iter_args(%places = %single) -> (tensor<?x?x?xi32>) {
      %length = arith.shli %c1, %level : index
      %both = arith.shli %c2, %level : index
      %merged = linalg.generic {
        indexing_maps = [affine_map<(b, s, p) -> (b, s, p)>],
        iterator_types = ["parallel", "parallel", "parallel"]
      } outs(%y_init : tensor<?x?x?xi32>) {
      ^bb0(%unused: i32):
        %b = linalg.index 0 : index
        %s = linalg.index 1 : index
        %p = linalg.index 2 : index
        %rank = arith.remui %p, %both : index
        %first = arith.subi %p, %rank : index
        %first_open = arith.addi %first, %length : index
        %middle = arith.minui %first_open, %n_embd : index
        %middle_open = arith.addi %middle, %length : index
        %last = arith.minui %middle_open, %n_embd : index
        %left_count = arith.subi %middle, %first : index
        %right_count = arith.subi %last, %middle : index
        // How many of the `rank` numbers before p are of the left run: between what
        // the right run leaves over and all.
        %beyond = arith.maxui %rank, %right_count : index
        %fewest = arith.subi %beyond, %right_count : index
        %most = arith.minui %rank, %left_count : index
        %from_left, %same = scf.while (%low = %fewest, %high = %most)
            : (index, index) -> (index, index) {
          %is_open = arith.cmpi ult, %low, %high : index
          scf.condition(%is_open) %low, %high : index, index
        } do {
        ^bb0(%low: index, %high: index):
          %sum = arith.addi %low, %high : index
          %half = arith.divui %sum, %c2 : index
          %half_after = arith.addi %half, %c1 : index
          %left_at = arith.addi %first, %half : index
          %right_count_before = arith.subi %rank, %half_after : index
          %right_at = arith.addi %middle, %right_count_before : index
          %left_place = tensor.extract %places[%b, %s, %left_at] : tensor<?x?x?xi32>
          %right_place = tensor.extract %places[%b, %s, %right_at] : tensor<?x?x?xi32>
          %left_j = arith.index_cast %left_place : i32 to index
          %right_j = arith.index_cast %right_place : i32 to index
          %left = tensor.extract %x[%b, %s, %left_j] : tensor<?x?x?xf32>
          %right = tensor.extract %x[%b, %s, %right_j] : tensor<?x?x?xf32>
          %is_before = arith.cmpf ole, %left, %right : f32
          %next_low = arith.select %is_before, %half_after, %low : index
          %next_high = arith.select %is_before, %high, %half : index
          scf.yield %next_low, %next_high : index, index
        }
        %from_right = arith.subi %rank, %from_left : index
        %left_at = arith.addi %first, %from_left : index
        %right_at = arith.addi %middle, %from_right : index
        %has_left = arith.cmpi ult, %from_left, %left_count : index
        %has_right = arith.cmpi ult, %from_right, %right_count : index
        %has_both = arith.andi %has_left, %has_right : i1
        %is_left = scf.if %has_both -> (i1) {
          %left_place = tensor.extract %places[%b, %s, %left_at] : tensor<?x?x?xi32>
          %right_place = tensor.extract %places[%b, %s, %right_at] : tensor<?x?x?xi32>
          %left_j = arith.index_cast %left_place : i32 to index
          %right_j = arith.index_cast %right_place : i32 to index
          %left = tensor.extract %x[%b, %s, %left_j] : tensor<?x?x?xf32>
          %right = tensor.extract %x[%b, %s, %right_j] : tensor<?x?x?xf32>
          %is_before = arith.cmpf ole, %left, %right : f32
          scf.yield %is_before : i1
        } else {
          scf.yield %has_left : i1
        }
        %at = arith.select %is_left, %left_at, %right_at : index
        %place = tensor.extract %places[%b, %s, %at] : tensor<?x?x?xi32>
        linalg.yield %place : i32
      } -> tensor<?x?x?xi32>
      scf.yield %merged : tensor<?x?x?xi32>
    }
    util.return %y : tensor<?x?x?xi32>
  }
}
