// cast_f32_to_i32: each number without its fraction.
//
//   y[b, s, j] = x[b, s, j], rounded towards 0
//
// |x| is below 2^31: what a larger one becomes differs between targets.
//
// Source:  IEEE 754-2019, section 5.8 (convertToIntegerTowardZero).
// Exports: @cast_f32_to_i32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 out
// Oracle:  oracles/elementwise.py cast_f32_to_i32
// Try:     iree-opt components/elementwise/cast_f32_to_i32.mlir
module @cast_f32_to_i32 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xi32> {   // [batch, seq, n_embd]
    %y = arith.fptosi %x : tensor<?x?x?xf32> to tensor<?x?x?xi32>
    util.return %y : tensor<?x?x?xi32>
  }
}
