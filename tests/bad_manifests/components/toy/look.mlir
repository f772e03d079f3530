// look: stands for an attention over a cache; returns x.
//
//   y[b, s, j] = x[b, s, j]
//
// Source:  none, for tests of the readers.
// Exports: @look.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_ctx, n_layer, n_embd (fixed by specialize)
// Types:   f32 in, f32 cache, f32 table, i32 window, f32 out
// Oracle:  oracles/toy.py look
// Try:     iree-opt components/toy/look.mlir
module @look {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,        // [batch, seq, n_embd]
      %cache: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_embd]
      %table: tensor<?x?xf32>,      // [n_ctx, n_embd]
      %window: i32                  // positions that are seen
  ) -> tensor<?x?x?xf32> {          // [batch, seq, n_embd]
    util.return %x : tensor<?x?x?xf32>
  }
}
