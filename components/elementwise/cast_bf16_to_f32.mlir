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
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xbf16>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xbf16>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xbf16>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xbf16>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: bf16, %unused: f32):
      %converted = arith.extf %value : bf16 to f32
      linalg.yield %converted : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
