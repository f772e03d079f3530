// log: the natural logarithm of every number.
//
//   y[b, s, j] = log(x[b, s, j])
//
// For x > 0, and normal: subnormal numbers may count as zero. Vulkan promises an
// absolute error of 2^-21 for x in [0.5, 2], and 3 steps of f32 elsewhere.
//
// Source:  IEEE 754-2019, table 9.1.
// Exports: @log.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py log
// Try:     iree-opt components/elementwise/log.mlir
module @log {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
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
      %result = math.log %value : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
