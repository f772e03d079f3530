// silu: the sigmoid linear unit.
//
//   y = x / (1 + exp(-x))
//
// Source:  Elfwing et al. 2017, arXiv:1702.03118, eq. 5.
// Exports: @silu.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py silu
// Try:     iree-opt components/activation/silu.mlir
module @silu {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
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
      %opposite = arith.negf %value : f32
      %exponential = math.exp %opposite : f32
      %divisor = arith.addf %one, %exponential : f32
      %silu = arith.divf %value, %divisor : f32
      linalg.yield %silu : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
