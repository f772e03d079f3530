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
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xbf16>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xbf16>) {
    ^bb0(%value: f32, %unused: bf16):
      %converted = arith.truncf %value : f32 to bf16
      linalg.yield %converted : bf16
    } -> tensor<?x?x?xbf16>
    util.return %y : tensor<?x?x?xbf16>
  }
}
