// rope_interleaved: rotary position embedding; a pair is two columns side by side.
//
//   y[b, s, h, 2i]     = x[b, s, h, 2i] * cos[p, i] - x[b, s, h, 2i + 1] * sin[p, i]
//   y[b, s, h, 2i + 1] = x[b, s, h, 2i + 1] * cos[p, i] + x[b, s, h, 2i] * sin[p, i]
//   y[b, s, h, d]      = x[b, s, h, d]                   for d >= n_rot
//
// where p = start[b] + s, i < n_rot / 2, and head h is columns h*head_dim up to
// (h+1)*head_dim. This is the order of the paper; rope takes Hugging Face's.
//
// The angles are read from a table: Vulkan's sine is only good to 2^-11. Positions must
// be in [0, n_ctx): they are used as addresses and not checked here.
//
// Source:  Su et al. 2021, arXiv:2104.09864, eq. 34; n_rot < head_dim:
//          Black et al. 2022, arXiv:2204.06745, section 2.1.
// Exports: @rope_interleaved.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ctx, n_rot, n_head, head_dim (fixed by specialize)
// Types:   f32 in, i32 positions, f32 out
// Oracle:  oracles/position.py rope_interleaved
// Try:     iree-opt components/position/rope_interleaved.mlir
module @rope_interleaved {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_head*head_dim]
      %table: tensor<?x?xf32>,  // [n_ctx, n_rot] cosines, then sines, n_rot/2 of each
      %start: tensor<?xi32>,    // [batch] first position, in [0, n_ctx - seq]
      %n_head: index            // n_head
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_column = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_rot = tensor.dim %table, %c1 : tensor<?x?xf32>
    %half = arith.divui %n_rot, %c2 : index
    %head_dim = arith.divui %n_column, %n_head : index
    %heads = tensor.expand_shape %x [[0], [1], [2, 3]]
        output_shape [%batch, %seq, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    %turned_init = tensor.empty(%batch, %seq, %n_head, %head_dim) : tensor<?x?x?x?xf32>
    %turned = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, d) -> (b, s, h, d)>,
        affine_map<(b, s, h, d) -> (b)>,
        affine_map<(b, s, h, d) -> (b, s, h, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%heads, %start : tensor<?x?x?x?xf32>, tensor<?xi32>)
      outs(%turned_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %first: i32, %unused: f32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %h = linalg.index 2 : index
      %d = linalg.index 3 : index
      %first_index = arith.index_cast %first : i32 to index
      %position = arith.addi %first_index, %s : index

      // Columns beyond n_rot read addresses that exist, and what they give is dropped.
      %pair = arith.divui %d, %c2 : index
      %side = arith.remui %d, %c2 : index
      %is_even = arith.cmpi eq, %side, %c0 : index
      %is_turned = arith.cmpi ult, %d, %n_rot : index
      %above = arith.addi %d, %c1 : index
      %below = arith.subi %d, %c1 : index
      %angle = arith.select %is_turned, %pair, %c0 : index
      %opposite = arith.select %is_even, %above, %below : index
      %partner = arith.select %is_turned, %opposite, %c0 : index
      %sine_column = arith.addi %angle, %half : index
      %cosine = tensor.extract %table[%position, %angle] : tensor<?x?xf32>
      %sine = tensor.extract %table[%position, %sine_column] : tensor<?x?xf32>
      %other = tensor.extract %heads[%b, %s, %h, %partner] : tensor<?x?x?x?xf32>

      %stays = arith.mulf %value, %cosine : f32
      %comes = arith.mulf %other, %sine : f32
      %difference = arith.subf %stays, %comes : f32
      %sum = arith.addf %stays, %comes : f32
      %rotated = arith.select %is_even, %difference, %sum : f32
      %result = arith.select %is_turned, %rotated, %value : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?x?xf32>
    %y = tensor.collapse_shape %turned [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
