// masked_scatter: rows of a list in the marked places, one after the other.
//
//   rank(b, s) = how many places before (b, s) are marked, sequence after sequence
//   y[b, s, j] = rows[rank(b, s), j] where mask[b, s] is not 0, x[b, s, j] elsewhere
//
// So image patches take the places of their tokens. There is at least one row, and as
// many as marked places: ranks are used as addresses and not checked here, and a place
// that is not marked reads row 0. To find the ranks takes (batch*seq)^2 additions of
// integers.
//
// Source:  Wang et al. 2024, arXiv:2409.12191, section 2.1 (vision tokens in the text's
//          places).
// Exports: @masked_scatter.forward
// Imports: none
// Dims:    batch, seq, n_patch (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 mask, f32 out, values are not changed
// Oracle:  oracles/indexing.py masked_scatter
// Try:     iree-opt components/indexing/masked_scatter.mlir
module @masked_scatter {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_embd]
      %mask: tensor<?x?xi32>,  // [batch, seq] not 0: the next row goes here
      %rows: tensor<?x?xf32>   // [n_patch, n_embd] in the order of the places
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %places = arith.muli %batch, %seq : index

    // Step 1: the rank of every place, [batch*seq].
    %marks = tensor.collapse_shape %mask [[0, 1]] : tensor<?x?xi32> into tensor<?xi32>
    %rank_init = tensor.empty(%places) : tensor<?xi32>
    %rank_zero = linalg.fill ins(%zero : i32) outs(%rank_init : tensor<?xi32>)
        -> tensor<?xi32>
    %ranks = linalg.generic {
      indexing_maps = [affine_map<(p, q) -> (q)>, affine_map<(p, q) -> (p)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%marks : tensor<?xi32>) outs(%rank_zero : tensor<?xi32>) {
    ^bb0(%mark: i32, %partial: i32):
      %p = linalg.index 0 : index
      %q = linalg.index 1 : index
      %is_before = arith.cmpi ult, %q, %p : index
      %is_marked = arith.cmpi ne, %mark, %zero : i32
      %counts = arith.andi %is_before, %is_marked : i1
      %term = arith.select %counts, %one, %zero : i32
      %next = arith.addi %partial, %term : i32
      linalg.yield %next : i32
    } -> tensor<?xi32>
    %rank = tensor.expand_shape %ranks [[0, 1]] output_shape [%batch, %seq]
        : tensor<?xi32> into tensor<?x?xi32>

    // Step 2: the row of that rank, or what was there, [batch, seq, n_embd].
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s)>, affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %mask, %rank : tensor<?x?x?xf32>, tensor<?x?xi32>, tensor<?x?xi32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%old: f32, %mark: i32, %number: i32, %unused: f32):
      %is_marked = arith.cmpi ne, %mark, %zero : i32
      // Behind the last marked place the rank is the number of rows, which is none.
      %existing = arith.select %is_marked, %number, %zero : i32
      %row = arith.index_cast %existing : i32 to index
      %j = linalg.index 2 : index
      %new = tensor.extract %rows[%row, %j] : tensor<?x?xf32>
      %value = arith.select %is_marked, %new, %old : f32
      linalg.yield %value : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
