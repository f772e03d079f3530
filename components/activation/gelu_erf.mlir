// gelu_erf: the Gaussian error linear unit, by the error function.
//
//   y = x * P(Z <= x) = x / 2 * (1 + erf(x / sqrt(2))),  Z ~ N(0, 1)
//
// Source:  Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
// Exports: @gelu_erf.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py gelu_erf
// Try:     iree-opt components/activation/gelu_erf.mlir
module @gelu_erf {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %inverse_sqrt_2 = arith.constant 0.707106781 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_ff = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_ff) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %scaled = arith.mulf %value, %inverse_sqrt_2 : f32
      %erf = math.erf %scaled : f32
      %shifted = arith.addf %erf, %one : f32
      %halved = arith.mulf %value, %half : f32
      %gated = arith.mulf %halved, %shifted : f32
      linalg.yield %gated : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
