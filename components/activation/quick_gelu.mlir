// quick_gelu: the Gaussian error linear unit, approximated by a sigmoid.
//
//   y = x / (1 + exp(-1.702 * x))
//
// Source:  Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2 (the second
//          approximation).
// Exports: @quick_gelu.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py quick_gelu
// Try:     iree-opt components/activation/quick_gelu.mlir
module @quick_gelu {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    %slope = arith.constant -1.702 : f32
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
      %exponent = arith.mulf %value, %slope : f32
      %exponential = math.exp %exponent : f32
      %divisor = arith.addf %one, %exponential : f32
      %gelu = arith.divf %value, %divisor : f32
      linalg.yield %gelu : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
