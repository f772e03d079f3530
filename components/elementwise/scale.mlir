// scale: every number times one factor.
//
//   y[b, s, j] = factor * x[b, s, j]
//
// Source:  xAI 2024, grok-1, model.py (output_multiplier_scale).
// Exports: @scale.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py scale
// Try:     iree-opt components/elementwise/scale.mlir
module @scale {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %factor: f32            // dimensionless
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
      %product = arith.mulf %value, %factor : f32
      linalg.yield %product : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
