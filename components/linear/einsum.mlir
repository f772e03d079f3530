// einsum: the products of all rows of two tensors, head by head: bhsd, bhtd -> bhst.
//
//   y[b, h, s, t] = sum_d(a[b, h, s, d] * b[b, h, t, d])
//
// The one contraction of attention that no other component here is: queries and keys
// give scores. With keys in place of t a value's column, it mixes the values as well.
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, eq. 1 (the product of Q and K).
// Exports: @einsum.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/linear.py einsum
// Try:     iree-opt components/linear/einsum.mlir
module @einsum {
  util.func public @forward(
      %a: tensor<?x?x?x?xf32>,  // [batch, n_head, seq, head_dim]
      %b: tensor<?x?x?x?xf32>   // [batch, n_head, ctx, head_dim]
  ) -> tensor<?x?x?x?xf32> {    // [batch, n_head, seq, ctx]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %a, %c0 : tensor<?x?x?x?xf32>
    %n_head = tensor.dim %a, %c1 : tensor<?x?x?x?xf32>
    %seq = tensor.dim %a, %c2 : tensor<?x?x?x?xf32>
    %ctx = tensor.dim %b, %c2 : tensor<?x?x?x?xf32>
    %y_init = tensor.empty(%batch, %n_head, %seq, %ctx) : tensor<?x?x?x?xf32>
    %y_zero = linalg.fill ins(%zero : f32) outs(%y_init : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, t, d) -> (b, h, s, d)>,
        affine_map<(b, h, s, t, d) -> (b, h, t, d)>,
        affine_map<(b, h, s, t, d) -> (b, h, s, t)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%a, %b : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%y_zero : tensor<?x?x?x?xf32>) {
    ^bb0(%left: f32, %right: f32, %partial: f32):
      %term = arith.mulf %left, %right : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
