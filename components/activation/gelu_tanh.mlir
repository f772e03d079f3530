// gelu_tanh: the Gaussian error linear unit, approximated by tanh.
//
//   y = x / 2 * (1 + tanh(u)),  u = sqrt(2 / pi) * (x + 0.044715 * x^3)
//
// computed as x / (1 + exp(-2 * u)), which is the same, loses no digits where 1 + tanh
// cancels, and does not ask how good a target's tanh is.
//
// Source:  Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2 (the first
//          approximation).
// Exports: @gelu_tanh.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py gelu_tanh
// Try:     iree-opt components/activation/gelu_tanh.mlir
module @gelu_tanh {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    // -2 * sqrt(2 / pi), and 0.044715 times it.
    %linear = arith.constant -1.5957691216 : f32
    %cubic = arith.constant -0.0713548162726 : f32
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
      %square = arith.mulf %value, %value : f32
      %bent = arith.mulf %square, %cubic : f32
      %slope = arith.addf %bent, %linear : f32
      %exponent = arith.mulf %value, %slope : f32
      %exponential = math.exp %exponent : f32
      %divisor = arith.addf %one, %exponential : f32
      %gelu = arith.divf %value, %divisor : f32
      linalg.yield %gelu : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
