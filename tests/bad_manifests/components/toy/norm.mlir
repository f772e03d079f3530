// norm: stands for a normalisation; returns x.
//
//   y[b, j] = x[b, j]
//
// Source:  none, for tests of the readers.
// Exports: @norm.forward
// Imports: none
// Dims:    batch (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/toy.py norm
// Try:     iree-opt components/toy/norm.mlir
module @norm {
  util.func public @forward(
      %x: tensor<?x?xf32>,  // [batch, n_embd]
      %eps: f32             // dimensionless
  ) -> tensor<?x?xf32> {    // [batch, n_embd]
    util.return %x : tensor<?x?xf32>
  }
}
