// cast_i32_to_f32: the float next to each integer; exact up to 2^24.
//
//   y[b, s, j] = x[b, s, j], rounded to the nearest, ties to even
//
// Source:  IEEE 754-2019, section 5.4.1 (convertFromInt).
// Exports: @cast_i32_to_f32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   i32 in, f32 out
// Oracle:  oracles/elementwise.py cast_i32_to_f32
// Try:     iree-opt components/elementwise/cast_i32_to_f32.mlir
module @cast_i32_to_f32 {
  util.func public @forward(
      %x: tensor<?x?x?xi32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %y = arith.sitofp %x : tensor<?x?x?xi32> to tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
