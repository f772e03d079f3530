// add: the sum of two tensors of one shape.
//
//   y[b, s, j] = a[b, s, j] + b[b, s, j]
//
// Source:  He et al. 2015, arXiv:1512.03385, eq. 1 (the residual connection).
// Exports: @add.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py add
// Try:     iree-opt components/elementwise/add.mlir
module @add {
  util.func public @forward(
      %a: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %b: tensor<?x?x?xf32>   // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %a, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %a, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %a, %c2 : tensor<?x?x?xf32>
    %sum_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%a, %b : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%sum_init : tensor<?x?x?xf32>) {
    ^bb0(%left: f32, %right: f32, %unused: f32):
      %added = arith.addf %left, %right : f32
      linalg.yield %added : f32
    } -> tensor<?x?x?xf32>
    util.return %sum : tensor<?x?x?xf32>
  }
}
