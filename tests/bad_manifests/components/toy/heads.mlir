// heads: stands for an attention; returns its first argument twice.
//
//   y[b, h*head_dim + d] = x[b, h*head_dim + d]
//
// Source:  none, for tests of the readers.
// Exports: @heads.forward
// Imports: none
// Dims:    batch (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, i32 mask, f32 out
// Oracle:  oracles/toy.py heads
// Try:     iree-opt components/toy/heads.mlir
module @heads {
  util.func public @forward(
      %x: tensor<?x?xf32>,  // [batch, n_head*head_dim]
      %mask: tensor<?xi32>, // [batch] 0 = padding
      %n_head: index        // n_head
  ) -> (
      tensor<?x?xf32>,      // [batch, n_head*head_dim]
      tensor<?xi32>         // [batch] the mask
  ) {
    util.return %x, %mask : tensor<?x?xf32>, tensor<?xi32>
  }
}
