// geglu_tanh: a tensor gated by the Gaussian error linear unit of another, by tanh.
//
//   y = gelu(gate) * up
//   gelu(g) = g / 2 * (1 + tanh(u)),  u = sqrt(2 / pi) * (g + 0.044715 * g^3)
//
// computed as g / (1 + exp(-2 * u)), which is the same, loses no digits where 1 + tanh
// cancels, and does not ask how good a target's tanh is.
//
// Source:  Shazeer 2020, arXiv:2002.05202, eq. 5; gelu: Hendrycks & Gimpel 2016,
//          arXiv:1606.08415, section 2 (the first approximation).
// Exports: @geglu_tanh.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py geglu_tanh
// Try:     iree-opt components/activation/geglu_tanh.mlir
module @geglu_tanh {
  util.func public @forward(
      %gate: tensor<?x?x?xf32>,  // [batch, seq, n_ff]
      %up: tensor<?x?x?xf32>     // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    // -2 * sqrt(2 / pi), and 0.044715 times it.
    %linear = arith.constant -1.5957691216 : f32
    %cubic = arith.constant -0.0713548162726 : f32
    %batch = tensor.dim %gate, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %gate, %c1 : tensor<?x?x?xf32>
    %n_ff = tensor.dim %gate, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_ff) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%gate, %up : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%g: f32, %factor: f32, %unused: f32):
      %square = arith.mulf %g, %g : f32
      %bent = arith.mulf %square, %cubic : f32
      %slope = arith.addf %bent, %linear : f32
      %exponent = arith.mulf %g, %slope : f32
      %exponential = math.exp %exponent : f32
      %divisor = arith.addf %one, %exponential : f32
      %gelu = arith.divf %g, %divisor : f32
      %gated = arith.mulf %gelu, %factor : f32
      linalg.yield %gated : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
