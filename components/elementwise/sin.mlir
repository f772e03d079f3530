// sin: the sine of every number, in radians.
//
//   y[b, s, j] = sin(x[b, s, j])
//
//   k = floor(x * 2 / pi + 1/2),  r = x - k * pi / 2,  |r| <= pi / 4
//   y = (sin(r), cos(r), -sin(r), -cos(r)) at k mod 4
//
// Not by the target's own function: Vulkan's is good to 2^-11 only, and within a turn.
// Absolute error 2e-7 for |x| <= 8192; beyond that the reduction loses digits, and from
// 2^30 on nothing is promised.
//
// Source:  Cody & Waite 1980, "Software Manual for the Elementary Functions",
//          chapter 8 (the reduction); the series of Taylor, to r^9 and r^10.
// Exports: @sin.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py sin
// Try:     iree-opt components/elementwise/sin.mlir
module @sin {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %two_i32 = arith.constant 2 : i32
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %minus_half = arith.constant -0.5 : f32
    %two_over_pi = arith.constant 0.636619772 : f32
    // pi / 2 in three parts: the first two have 8 and 11 bits, so that k times either
    // is exact for k up to 2^13.
    %pi_half_high = arith.constant 1.5703125 : f32
    %pi_half_middle = arith.constant 4.837512969970703e-4 : f32
    %pi_half_low = arith.constant 7.549789954891882e-8 : f32
    // 1 / 3!, 5!, 7!, 9! and 4!, 6!, 8!, 10!, with the signs of the series.
    %s3 = arith.constant -0.166666667 : f32
    %s5 = arith.constant 0.00833333333 : f32
    %s7 = arith.constant -1.98412698e-4 : f32
    %s9 = arith.constant 2.75573192e-6 : f32
    %c4 = arith.constant 0.0416666667 : f32
    %c6 = arith.constant -0.00138888889 : f32
    %c8 = arith.constant 2.48015873e-5 : f32
    %c10 = arith.constant -2.75573192e-7 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %quarters = arith.mulf %value, %two_over_pi : f32
      %shifted = arith.addf %quarters, %half : f32
      %k = math.floor %shifted : f32
      %k_high = arith.mulf %k, %pi_half_high : f32
      %r_high = arith.subf %value, %k_high : f32
      %k_middle = arith.mulf %k, %pi_half_middle : f32
      %r_middle = arith.subf %r_high, %k_middle : f32
      %k_low = arith.mulf %k, %pi_half_low : f32
      %r = arith.subf %r_middle, %k_low : f32
      %square = arith.mulf %r, %r : f32

      // The sine of r: r + r^3 * (s3 + ... + s9 * r^6).
      %sine_term_9 = arith.mulf %s9, %square : f32
      %sine_sum_7 = arith.addf %sine_term_9, %s7 : f32
      %sine_term_7 = arith.mulf %sine_sum_7, %square : f32
      %sine_sum_5 = arith.addf %sine_term_7, %s5 : f32
      %sine_term_5 = arith.mulf %sine_sum_5, %square : f32
      %sine_sum_3 = arith.addf %sine_term_5, %s3 : f32
      %cube = arith.mulf %square, %r : f32
      %sine_tail = arith.mulf %sine_sum_3, %cube : f32
      %sine = arith.addf %r, %sine_tail : f32

      // The cosine of r: 1 + r^2 * (c2 + ... + c10 * r^8).
      %cosine_term_10 = arith.mulf %c10, %square : f32
      %cosine_sum_8 = arith.addf %cosine_term_10, %c8 : f32
      %cosine_term_8 = arith.mulf %cosine_sum_8, %square : f32
      %cosine_sum_6 = arith.addf %cosine_term_8, %c6 : f32
      %cosine_term_6 = arith.mulf %cosine_sum_6, %square : f32
      %cosine_sum_4 = arith.addf %cosine_term_6, %c4 : f32
      %cosine_term_4 = arith.mulf %cosine_sum_4, %square : f32
      %cosine_sum_2 = arith.addf %cosine_term_4, %minus_half : f32
      %cosine_tail = arith.mulf %cosine_sum_2, %square : f32
      %cosine = arith.addf %cosine_tail, %one : f32

      %turn = arith.fptosi %k : f32 to i32
      %is_odd_bit = arith.andi %turn, %one_i32 : i32
      %is_odd = arith.cmpi ne, %is_odd_bit, %zero_i32 : i32
      %is_negative_bit = arith.andi %turn, %two_i32 : i32
      %is_negative = arith.cmpi ne, %is_negative_bit, %zero_i32 : i32
      %magnitude = arith.select %is_odd, %cosine, %sine : f32
      %opposite = arith.negf %magnitude : f32
      %result = arith.select %is_negative, %opposite, %magnitude : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
