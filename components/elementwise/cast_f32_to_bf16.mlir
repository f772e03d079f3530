// cast_f32_to_bf16: the nearest number of 8 binary digits.
//
//   y[b, s, j] = x[b, s, j], rounded to the nearest, ties to even
//
// n_embd is even: where a target has no 16-bit storage, as portable Vulkan has
// none, IREE 3.13 loses the last of an odd count of numbers.
//
// Source:  Kalamkar et al. 2019, arXiv:1905.12322, section 3 (bfloat16).
// Exports: @cast_f32_to_bf16.forward
// Imports: none
// Dims:    batch, seq (dynamic), even n_embd (fixed by specialize)
// Types:   f32 in, bf16 out
// Oracle:  oracles/elementwise.py cast_f32_to_bf16
// Try:     iree-opt components/elementwise/cast_f32_to_bf16.mlir
module @cast_f32_to_bf16 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xbf16> {  // [batch, seq, n_embd]
    %y = arith.truncf %x : tensor<?x?x?xf32> to tensor<?x?x?xbf16>
    util.return %y : tensor<?x?x?xbf16>
  }
}
