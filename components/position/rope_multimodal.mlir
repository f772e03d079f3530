// rope_multimodal: rotary positions in time, height and width.
//
//   y[b, s, h, i]        = x[b, s, h, i] * cos[p, i] - x[b, s, h, i + half] * sin[p, i]
//   y[b, s, h, i + half] = x[b, s, h, i + half] * cos[p, i] + x[b, s, h, i] * sin[p, i]
//
// where half = head_dim / 2, i < half, head h is columns h*head_dim up to
// (h+1)*head_dim, and p = positions[axis, b, s]: axis is 0 for the first n_temporal
// pairs, 1 for the n_height pairs behind them, 2 for the rest. The positions of text
// are the same on all axes: this is then plain rope.
//
// The angles are read from a table: Vulkan's sine is only good to 2^-11. Positions must
// be in [0, n_ctx): they are used as addresses and not checked here.
//
// Source:  Wang et al. 2024, arXiv:2409.12191, section 2.1 (M-RoPE); sections of 16, 24
//          and 24 pairs: Qwen2-VL's configuration.
// Exports: @rope_multimodal.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ctx, n_head, head_dim (fixed by specialize)
// Types:   f32 in, i32 positions and sections, f32 out
// Oracle:  oracles/position.py rope_multimodal
// Try:     iree-opt components/position/rope_multimodal.mlir
module @rope_multimodal {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,          // [batch, seq, n_head*head_dim]
      %table: tensor<?x?xf32>,        // [n_ctx, head_dim] cosines, then sines
      %positions: tensor<3x?x?xi32>,  // [3, batch, seq] axes of space in [0, n_ctx)
      %n_temporal: i32,               // pairs turned by time
      %n_height: i32,                 // pairs turned by height
      %n_head: index                  // n_head
  ) -> tensor<?x?x?xf32> {            // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %head_dim = tensor.dim %table, %c1 : tensor<?x?xf32>
    %half = arith.divui %head_dim, %c2 : index
    %first_height = arith.index_cast %n_temporal : i32 to index
    %n_height_index = arith.index_cast %n_height : i32 to index
    %first_width = arith.addi %first_height, %n_height_index : index
    %heads = tensor.expand_shape %x [[0], [1], [2, 3]]
        output_shape [%batch, %seq, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    %turned_init = tensor.empty(%batch, %seq, %n_head, %head_dim) : tensor<?x?x?x?xf32>
    %turned = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, d) -> (b, s, h, d)>,
        affine_map<(b, s, h, d) -> (b, s, h, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%heads : tensor<?x?x?x?xf32>) outs(%turned_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %h = linalg.index 2 : index
      %d = linalg.index 3 : index
      %is_low = arith.cmpi ult, %d, %half : index
      %above = arith.addi %d, %half : index
      %below = arith.subi %d, %half : index
      %pair = arith.select %is_low, %d, %below : index
      %partner = arith.select %is_low, %above, %below : index

      %is_temporal = arith.cmpi ult, %pair, %first_height : index
      %is_height = arith.cmpi ult, %pair, %first_width : index
      %space = arith.select %is_height, %c1, %c2 : index
      %axis = arith.select %is_temporal, %c0, %space : index
      %place = tensor.extract %positions[%axis, %b, %s] : tensor<3x?x?xi32>
      %position = arith.index_cast %place : i32 to index
      %sine_column = arith.addi %pair, %half : index
      %cosine = tensor.extract %table[%position, %pair] : tensor<?x?xf32>
      %sine = tensor.extract %table[%position, %sine_column] : tensor<?x?xf32>
      %other = tensor.extract %heads[%b, %s, %h, %partner] : tensor<?x?x?x?xf32>

      %stays = arith.mulf %value, %cosine : f32
      %comes = arith.mulf %other, %sine : f32
      %difference = arith.subf %stays, %comes : f32
      %sum = arith.addf %stays, %comes : f32
      %rotated = arith.select %is_low, %difference, %sum : f32
      linalg.yield %rotated : f32
    } -> tensor<?x?x?x?xf32>
    %y = tensor.collapse_shape %turned [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
