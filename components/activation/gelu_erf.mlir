// gelu_erf: the Gaussian error linear unit, by the error function.
//
//   y = x * P(Z <= x) = x / 2 * (1 + erf(x / sqrt(2))),  Z ~ N(0, 1)
//
// computed from the tail of |x|, which loses no digits where 1 + erf cancels:
//
//   y = max(x, 0) - a * P(Z > a),  a = |x|
//   P(Z > a) = 1 / 2 * (1 + d1 * a + d2 * a^2 + ... + d8 * a^8)^-8
//
// Largest absolute error of y: 5e-8 by the formula, 3e-7 with f32 arithmetic.
//
// Source:  Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2. Form of the tail:
//          Hastings 1955, as Abramowitz & Stegun 26.2.19 (there 6 terms, power -16);
//          d1 to d8: minimax fit by gelu_erf_fit.py beside this file.
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
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %d1 = arith.constant 0.0997324958 : f32
    %d2 = arith.constant 0.0447888002 : f32
    %d3 = arith.constant 0.0085916305 : f32
    %d4 = arith.constant 0.000980663579 : f32
    %d5 = arith.constant 0.000111350033 : f32
    %d6 = arith.constant 9.75825023e-05 : f32
    %d7 = arith.constant -1.67472808e-05 : f32
    %d8 = arith.constant 2.932499e-06 : f32
    // From here on the tail is 0 in f32; its power is still finite.
    %far = arith.constant 16.0 : f32
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
      // Comparisons and selects: a NaN stays one, and each pair is one instruction.
      %distance = math.absf %value : f32
      %is_far = arith.cmpf ogt, %distance, %far : f32
      %a = arith.select %is_far, %far, %distance : f32
      %product_7 = arith.mulf %d8, %a : f32
      %sum_7 = arith.addf %product_7, %d7 : f32
      %product_6 = arith.mulf %sum_7, %a : f32
      %sum_6 = arith.addf %product_6, %d6 : f32
      %product_5 = arith.mulf %sum_6, %a : f32
      %sum_5 = arith.addf %product_5, %d5 : f32
      %product_4 = arith.mulf %sum_5, %a : f32
      %sum_4 = arith.addf %product_4, %d4 : f32
      %product_3 = arith.mulf %sum_4, %a : f32
      %sum_3 = arith.addf %product_3, %d3 : f32
      %product_2 = arith.mulf %sum_3, %a : f32
      %sum_2 = arith.addf %product_2, %d2 : f32
      %product_1 = arith.mulf %sum_2, %a : f32
      %sum_1 = arith.addf %product_1, %d1 : f32
      %product_0 = arith.mulf %sum_1, %a : f32
      %sum_0 = arith.addf %product_0, %one : f32
      %power_2 = arith.mulf %sum_0, %sum_0 : f32
      %power_4 = arith.mulf %power_2, %power_2 : f32
      %power_8 = arith.mulf %power_4, %power_4 : f32
      %half_a = arith.mulf %a, %half : f32
      %tail = arith.divf %half_a, %power_8 : f32
      %is_positive = arith.cmpf ogt, %value, %zero : f32
      %ramp = arith.select %is_positive, %value, %zero : f32
      %gated = arith.subf %ramp, %tail : f32
      linalg.yield %gated : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
