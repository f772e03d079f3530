// linear_bias_packed_u32_f32: an affine map, float32 weight, in tiles of 8 outputs.
//
//   y[b, s, 8*t + v] = sum_i(x[b, s, i] * weight[t, i, v]) + bias[8*t + v]
//
// Output n is in tile n / 8, number n % 8. For Vulkan: 4 rows by a tile an invocation.
//
// Source:  Goto & van de Geijn 2008, doi:10.1145/1356052.1356053 (packed panels).
// Exports: @linear_bias_packed_u32_f32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_in (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/packed_u32.py linear_bias_packed_u32_f32
// Try:     iree-opt components/linear/linear_bias_packed_u32_f32.mlir
module @linear_bias_packed_u32_f32 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,      // [batch, seq, n_in]
      %weight: tensor<?x?x8xf32>, // [n_tile, n_in, 8]
      %bias: tensor<?xf32>        // [8*n_tile]
  ) -> tensor<?x?x?xf32> {        // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x8xf32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x8xf32>
    %n_out = arith.muli %n_tile, %c8 : index
    %rows = arith.muli %batch, %seq : index

    // Step 1: rows in groups of 4, so that a weight is read for 4 of them; the last
    // row again where there are too few. The barrier keeps what makes x out of it.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x?x?xf32>{%batch, %seq, %n_in} -> tensor<?x?x?xf32>
    %x_rows = tensor.collapse_shape %x_ready [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %groups = arith.ceildivui %rows, %c4 : index
    %last = arith.subi %rows, %c1 : index
    %x_groups_init = tensor.empty(%groups, %n_in) : tensor<?x?x4xf32>
    %x_groups = linalg.generic {
      indexing_maps = [affine_map<(g, i, m) -> (g, i, m)>],
      iterator_types = ["parallel", "parallel", "parallel"]
    } outs(%x_groups_init : tensor<?x?x4xf32>) {
    ^bb0(%unused: f32):
      %group = linalg.index 0 : index
      %column = linalg.index 1 : index
      %member = linalg.index 2 : index
      %first = arith.muli %group, %c4 : index
      %next_row = arith.addi %first, %member : index
      %row = arith.minui %next_row, %last : index
      %value = tensor.extract %x_rows[%row, %column] : tensor<?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x4xf32>

    // Step 2: the products, [groups, 4, n_tile, 8].
    %sum_init = tensor.empty(%groups, %n_tile) : tensor<?x4x?x8xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x4x?x8xf32>)
        -> tensor<?x4x?x8xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, v, i) -> (g, i, m)>,
        affine_map<(g, m, t, v, i) -> (t, i, v)>,
        affine_map<(g, m, t, v, i) -> (g, m, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%x_groups, %weight : tensor<?x?x4xf32>, tensor<?x?x8xf32>)
      outs(%sum_zero : tensor<?x4x?x8xf32>) {
    ^bb0(%value: f32, %w: f32, %partial: f32):
      %product = arith.mulf %value, %w : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x4x?x8xf32>

    // Step 3: the bias of each output.
    %bias_tiles = tensor.expand_shape %bias [[0, 1]] output_shape [%n_tile, 8]
        : tensor<?xf32> into tensor<?x8xf32>
    %shifted = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, v) -> (g, m, t, v)>,
        affine_map<(g, m, t, v) -> (t, v)>,
        affine_map<(g, m, t, v) -> (g, m, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%sum, %bias_tiles : tensor<?x4x?x8xf32>, tensor<?x8xf32>)
      outs(%sum_init : tensor<?x4x?x8xf32>) {
    ^bb0(%value: f32, %shift: f32, %unused: f32):
      %moved = arith.addf %value, %shift : f32
      linalg.yield %moved : f32
    } -> tensor<?x4x?x8xf32>
    %sum_rows = tensor.collapse_shape %shifted [[0, 1], [2, 3]]
        : tensor<?x4x?x8xf32> into tensor<?x?xf32>
    %y_rows = tensor.extract_slice %sum_rows[0, 0] [%rows, %n_out] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    %y = tensor.expand_shape %y_rows [[0, 1], [2]] output_shape [%batch, %seq, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
