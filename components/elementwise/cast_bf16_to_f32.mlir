// cast_bf16_to_f32: the same number with more digits.
//
//   y[b, s, j] = x[b, s, j]
//
// n_embd is even: where a target has no 16-bit storage, as portable Vulkan has
// none, IREE 3.13 loses the last of an odd count of numbers.
//
// Source:  Kalamkar et al. 2019, arXiv:1905.12322, section 3 (bfloat16).
// Exports: @cast_bf16_to_f32.forward
// Imports: none
// Dims:    batch, seq (dynamic), even n_embd (fixed by specialize)
// Types:   bf16 in, f32 out
// Oracle:  oracles/elementwise.py cast_bf16_to_f32
// Try:     iree-opt components/elementwise/cast_bf16_to_f32.mlir
module @cast_bf16_to_f32 {
  util.func public @forward(
      %x: tensor<?x?x?xbf16>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %y = arith.extf %x : tensor<?x?x?xbf16> to tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
