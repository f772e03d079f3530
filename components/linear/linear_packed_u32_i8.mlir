// linear_packed_u32_i8: a linear map, 8-bit weight, a scale an output, in words.
//
//   y[b, s, 8*t + 4*w + h] =
//       sum_i(x[b, s, i] * byte(weight[t, i, w], h)) * weight_scale[t, 4*w + h]
//
// byte(a, h) is the signed number in bits 8*h and up of a word.
// A word, because a device need not have narrower types in memory.
//
// Source:  Jacob et al. 2018, arXiv:1712.05877, section 2.1.
// Exports: @linear_packed_u32_i8.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_in (fixed by specialize)
// Types:   f32 in, i32 words of 4 bytes, f32 scale, f32 out, f32 accumulation
// Oracle:  oracles/packed_u32.py linear_packed_u32_i8
// Try:     iree-opt components/linear/linear_packed_u32_i8.mlir
module @linear_packed_u32_i8 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,          // [batch, seq, n_in]
      %weight: tensor<?x?x2xi32>,     // [n_tile, n_in, 2]
      %weight_scale: tensor<?x8xf32>  // [n_tile, 8]
  ) -> tensor<?x?x?xf32> {            // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %width = arith.constant 8 : i32
    %top = arith.constant 24 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x2xi32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x2xi32>
    %n_out = arith.muli %n_tile, %c8 : index
    %rows = arith.muli %batch, %seq : index

    // Step 1: rows in groups of 4, so that a word is unpacked for 4 of them; the last
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

    // Step 2: the products, [groups, 4, n_tile, 2, 4].
    %sum_init = tensor.empty(%groups, %n_tile) : tensor<?x4x?x2x4xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x4x?x2x4xf32>)
        -> tensor<?x4x?x2x4xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, w, h, i) -> (g, i, m)>,
        affine_map<(g, m, t, w, h, i) -> (t, i, w)>,
        affine_map<(g, m, t, w, h, i) -> (g, m, t, w, h)>
      ],
      iterator_types = [
        "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"
      ]
    } ins(%x_groups, %weight : tensor<?x?x4xf32>, tensor<?x?x2xi32>)
      outs(%sum_zero : tensor<?x4x?x2x4xf32>) {
    ^bb0(%value: f32, %word: i32, %partial: f32):
      %place = linalg.index 4 : index
      %place_i32 = arith.index_cast %place : index to i32
      %low = arith.muli %place_i32, %width : i32
      // Up to the word's top, then down again: the sign comes with it.
      %above = arith.subi %top, %low : i32
      %raised = arith.shli %word, %above : i32
      %code = arith.shrsi %raised, %top : i32
      %w = arith.sitofp %code : i32 to f32
      %product = arith.mulf %value, %w : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x4x?x2x4xf32>

    // Step 3: times the scales, [groups*4, n_tile, 8].
    %sum_tiles = tensor.collapse_shape %sum [[0, 1], [2], [3, 4]]
        : tensor<?x4x?x2x4xf32> into tensor<?x?x8xf32>
    %padded = arith.muli %groups, %c4 : index
    %scaled_init = tensor.empty(%padded, %n_tile) : tensor<?x?x8xf32>
    %scaled = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, v) -> (r, t, v)>, affine_map<(r, t, v) -> (t, v)>,
        affine_map<(r, t, v) -> (r, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%sum_tiles, %weight_scale : tensor<?x?x8xf32>, tensor<?x8xf32>)
      outs(%scaled_init : tensor<?x?x8xf32>) {
    ^bb0(%total: f32, %factor: f32, %unused: f32):
      %scaled_total = arith.mulf %total, %factor : f32
      linalg.yield %scaled_total : f32
    } -> tensor<?x?x8xf32>
    %sum_rows = tensor.collapse_shape %scaled [[0], [1, 2]]
        : tensor<?x?x8xf32> into tensor<?x?xf32>
    %y_rows = tensor.extract_slice %sum_rows[0, 0] [%rows, %n_out] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    %y = tensor.expand_shape %y_rows [[0, 1], [2]] output_shape [%batch, %seq, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
