// concat: two rows side by side, at each position.
//
//   y[b, s, j]          = left[b, s, j]
//   y[b, s, n_embd + j] = right[b, s, j]
//
// Source:  Ronneberger et al. 2015, arXiv:1505.04597, section 2 (skip connections).
// Exports: @concat.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py concat
// Try:     iree-opt components/shape/concat.mlir
module @concat {
  util.func public @forward(
      %left: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %right: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {       // [batch, seq, 2*n_embd]
    %y = tensor.concat dim(2) %left, %right
        : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
