// clip: moves every number to the nearest of an interval.
//
//   y[b, s, j] = min(max(x[b, s, j], low), high)
//
// Source:  Array API standard 2023.12, clip.
// Exports: @clip.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py clip
// Try:     iree-opt components/elementwise/clip.mlir
module @clip {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %low: f32,              // least result, unit of x
      %high: f32              // largest result, unit of x, not below low
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
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
      // Comparisons and selects: a NaN stays one.
      %is_low = arith.cmpf olt, %value, %low : f32
      %raised = arith.select %is_low, %low, %value : f32
      %is_high = arith.cmpf ogt, %raised, %high : f32
      %result = arith.select %is_high, %high, %raised : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
