// neg: the opposite of every number.
//
//   y[b, s, j] = -x[b, s, j]
//
// Source:  IEEE 754-2019, section 5.5.1.
// Exports: @neg.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py neg
// Try:     iree-opt components/elementwise/neg.mlir
module @neg {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %y = arith.negf %x : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
