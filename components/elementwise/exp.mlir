// exp: e to the power of every number.
//
//   y[b, s, j] = exp(x[b, s, j])
//
// The relative error grows with |x|, as a step of x does: 2^-24 * |x| of it is the
// argument's own rounding, and Vulkan allows (3 + 2 * |x|) steps of f32.
//
// Source:  IEEE 754-2019, table 9.1.
// Exports: @exp.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py exp
// Try:     iree-opt components/elementwise/exp.mlir
module @exp {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %y = math.exp %x : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
