// div: the quotient of two tensors of one shape, element by element.
//
//   y[b, s, j] = a[b, s, j] / b[b, s, j]
//
// Division by zero gives an infinity or a NaN on a CPU; Vulkan promises neither.
//
// Source:  IEEE 754-2019, section 5.4.1.
// Exports: @div.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py div
// Try:     iree-opt components/elementwise/div.mlir
module @div {
  util.func public @forward(
      %a: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %b: tensor<?x?x?xf32>   // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %y = arith.divf %a, %b : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
