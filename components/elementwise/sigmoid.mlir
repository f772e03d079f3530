// sigmoid: squeezes every number into (0, 1).
//
//   y[b, s, j] = 1 / (1 + exp(-x[b, s, j]))
//
// Source:  Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", appendix A.1.
// Exports: @sigmoid.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py sigmoid
// Try:     iree-opt components/elementwise/sigmoid.mlir
module @sigmoid {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
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
      %opposite = arith.negf %value : f32
      %exponential = math.exp %opposite : f32
      %divisor = arith.addf %one, %exponential : f32
      %result = arith.divf %one, %divisor : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
