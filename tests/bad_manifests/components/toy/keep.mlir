// keep: stands for the update of a cache; returns the cache.
//
//   y[l, b, t, j] = cache[l, b, t, j]
//
// Source:  none, for tests of the readers.
// Exports: @keep.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_layer, n_embd (fixed by specialize)
// Types:   f32 cache, f32 in, i32 layer, f32 out
// Oracle:  oracles/toy.py keep
// Try:     iree-opt components/toy/keep.mlir
module @keep {
  util.func public @forward(
      %cache: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_embd]
      %x: tensor<?x?x?xf32>,        // [batch, seq, n_embd]
      %layer: i32                   // whose rows are written
  ) -> tensor<?x?x?x?xf32> {        // [n_layer, batch, ctx, n_embd]
    util.return %cache : tensor<?x?x?x?xf32>
  }
}
