// scatter: rows written to each sequence, by position.
//
//   y[b, positions[b, s], j] = rows[b, s, j], and y = x everywhere else
//
// In place where nothing else reads x. The positions of a sequence differ, and are in
// [0, ctx): they are used as addresses and not checked here.
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (advanced indexing).
// Exports: @scatter.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 positions, f32 out, values are not changed
// Oracle:  oracles/indexing.py scatter
// Try:     iree-opt components/indexing/scatter.mlir
module @scatter {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,        // [batch, ctx, n_embd]
      %positions: tensor<?x?xi32>,  // [batch, seq] rows of x, in [0, ctx)
      %rows: tensor<?x?x?xf32>      // [batch, seq, n_embd] what they become
  ) -> tensor<?x?x?xf32> {          // [batch, ctx, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %batch = tensor.dim %positions, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %positions, %c1 : tensor<?x?xi32>

    // Step 1: sequence and position of each row, [batch, seq, 2].
    %place_init = tensor.empty(%batch, %seq) : tensor<?x?x2xi32>
    %place = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, i) -> (b, s)>, affine_map<(b, s, i) -> (b, s, i)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%positions : tensor<?x?xi32>) outs(%place_init : tensor<?x?x2xi32>) {
    ^bb0(%position: i32, %unused: i32):
      %b = linalg.index 0 : index
      %i = linalg.index 2 : index
      %sequence = arith.index_cast %b : index to i32
      %is_sequence = arith.cmpi eq, %i, %c0 : index
      %number = arith.select %is_sequence, %sequence, %position : i32
      linalg.yield %number : i32
    } -> tensor<?x?x2xi32>

    // Step 2: a row to each place.
    %new_rows = tensor.collapse_shape %rows [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %places = tensor.collapse_shape %place [[0, 1], [2]]
        : tensor<?x?x2xi32> into tensor<?x2xi32>
    %y = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
        ins(%new_rows, %places : tensor<?x?xf32>, tensor<?x2xi32>)
        outs(%x : tensor<?x?x?xf32>) {
    ^bb0(%new: f32, %old: f32):
      iree_linalg_ext.yield %new : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
