// log: the natural logarithm of every number.
//
//   y[b, s, j] = log(x[b, s, j])
//
// For x > 0, and normal: subnormal numbers may count as zero. Vulkan promises an
// absolute error of 2^-21 for x in [0.5, 2], and 3 steps of f32 elsewhere.
//
// Source:  IEEE 754-2019, table 9.1.
// Exports: @log.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py log
// Try:     iree-opt components/elementwise/log.mlir
module @log {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %y = math.log %x : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
