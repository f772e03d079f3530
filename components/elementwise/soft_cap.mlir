// soft_cap: squeezes all numbers into (-cap, cap); small ones hardly change.
//
//   y[b, s, j] = cap * tanh(x[b, s, j] / cap)
//
// Source:  Gemma Team 2024, arXiv:2408.00118, section 2 (logit soft-capping).
// Exports: @soft_cap.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_vocab (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py soft_cap
// Try:     iree-opt components/elementwise/soft_cap.mlir
module @soft_cap {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_vocab]
      %cap: f32               // bound of the result, unit of x
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_vocab]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    // Beyond it tanh is 1 in f32. A GPU may compute sinh / cosh, inf / inf from 89 up.
    %flat = arith.constant 10.0 : f32
    %flat_low = arith.constant -10.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_vocab = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_vocab) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %share = arith.divf %value, %cap : f32
      %is_high = arith.cmpf ogt, %share, %flat : f32
      %lowered = arith.select %is_high, %flat, %share : f32
      %is_low = arith.cmpf olt, %lowered, %flat_low : f32
      %near = arith.select %is_low, %flat_low, %lowered : f32
      %bounded = math.tanh %near : f32
      %capped = arith.mulf %bounded, %cap : f32
      linalg.yield %capped : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
