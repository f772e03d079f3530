// rope_vision: rotary positions of image patches, by row and column.
//
//   y[h, i]         = x[h, i] * cos[p, k] - x[h, i + n_rot] * sin[p, k]
//   y[h, i + n_rot] = x[h, i + n_rot] * cos[p, k] + x[h, i] * sin[p, k]
//   y[h, d]         = x[h, d]  for d >= 2*n_rot
//
// for each b and s, where i < n_rot, head h is columns h*head_dim up to (h+1)*head_dim,
// and
//
//   p = positions[0, b, s], k = i            for i < n_rot/2: turned by the row
//   p = positions[1, b, s], k = i - n_rot/2  for the others: turned by the column
//
// In a vision transformer n_rot is half of head_dim.
//
// The angles are read from a table: Vulkan's sine is only good to 2^-11. Positions must
// be in [0, n_ctx): they are used as addresses and not checked here.
//
// Source:  Wang et al. 2024, arXiv:2409.12191, section 2.1 (2D-RoPE of the vision
//          transformer); two axes: Heo et al. 2024, arXiv:2403.13298, section 3.2.
// Exports: @rope_vision.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ctx, n_rot, n_head, head_dim (fixed by specialize)
// Types:   f32 in, i32 positions, f32 out
// Oracle:  oracles/position.py rope_vision
// Try:     iree-opt components/position/rope_vision.mlir
module @rope_vision {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,          // [batch, seq, n_head*head_dim]
      %table: tensor<?x?xf32>,        // [n_ctx, n_rot] cosines, then sines
      %positions: tensor<2x?x?xi32>,  // [2, batch, seq] row and column in [0, n_ctx)
      %n_head: index                  // n_head
  ) -> tensor<?x?x?xf32> {            // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_column = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %head_dim = arith.divui %n_column, %n_head : index
    %n_rot = tensor.dim %table, %c1 : tensor<?x?xf32>
    %n_angle = arith.divui %n_rot, %c2 : index
    %n_turned = arith.muli %n_rot, %c2 : index
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

      // Columns that stay read addresses that exist, and what they give is dropped.
      %is_turned = arith.cmpi ult, %d, %n_turned : index
      %column = arith.select %is_turned, %d, %c0 : index
      %is_low = arith.cmpi ult, %column, %n_rot : index
      %above = arith.addi %column, %n_rot : index
      %below = arith.subi %column, %n_rot : index
      %pair = arith.select %is_low, %column, %below : index
      %opposite = arith.select %is_low, %above, %below : index
      %partner = arith.select %is_turned, %opposite, %c0 : index
      %is_row = arith.cmpi ult, %pair, %n_angle : index
      %of_column = arith.subi %pair, %n_angle : index
      %axis = arith.select %is_row, %c0, %c1 : index
      %angle = arith.select %is_row, %pair, %of_column : index
      %place = tensor.extract %positions[%axis, %b, %s] : tensor<2x?x?xi32>
      %position = arith.index_cast %place : i32 to index
      %sine_column = arith.addi %angle, %n_angle : index
      %cosine = tensor.extract %table[%position, %angle] : tensor<?x?xf32>
      %sine = tensor.extract %table[%position, %sine_column] : tensor<?x?xf32>
      %other = tensor.extract %heads[%b, %s, %h, %partner] : tensor<?x?x?x?xf32>

      %stays = arith.mulf %value, %cosine : f32
      %comes = arith.mulf %other, %sine : f32
      %difference = arith.subf %stays, %comes : f32
      %sum = arith.addf %stays, %comes : f32
      %rotated = arith.select %is_low, %difference, %sum : f32
      %result = arith.select %is_turned, %rotated, %value : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?x?xf32>
    %y = tensor.collapse_shape %turned [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
