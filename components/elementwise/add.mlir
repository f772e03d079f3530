// add: the sum of two tensors of one shape.
//
//   y[b, s, j] = a[b, s, j] + b[b, s, j]
//
// Source:  He et al. 2015, arXiv:1512.03385, eq. 1 (the residual connection).
// Exports: @add.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py add
// Try:     iree-opt components/elementwise/add.mlir
module @add {
  util.func public @forward(
      %a: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %b: tensor<?x?x?xf32>   // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %sum = arith.addf %a, %b : tensor<?x?x?xf32>
    util.return %sum : tensor<?x?x?xf32>
  }
}
