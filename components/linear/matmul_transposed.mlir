// matmul_transposed: products of matrices, the second one stored [out, in].
//
//   y[b, s, o] = sum_i(a[b, s, i] * b[b, o, i])
//
// Source:  Array API standard 2023.12, matmul.
// Exports: @matmul_transposed.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_in, n_out (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/linear.py matmul_transposed
// Try:     iree-opt components/linear/matmul_transposed.mlir
module @matmul_transposed {
  util.func public @forward(
      %a: tensor<?x?x?xf32>,  // [batch, seq, n_in]
      %b: tensor<?x?x?xf32>   // [batch, n_out, n_in]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_out]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %a, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %a, %c1 : tensor<?x?x?xf32>
    %n_out = tensor.dim %b, %c1 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_out) : tensor<?x?x?xf32>
    %y_zero = linalg.fill ins(%zero : f32) outs(%y_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, o, i) -> (b, s, i)>,
        affine_map<(b, s, o, i) -> (b, o, i)>,
        affine_map<(b, s, o, i) -> (b, s, o)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%a, %b : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_zero : tensor<?x?x?xf32>) {
    ^bb0(%left: f32, %right: f32, %partial: f32):
      %term = arith.mulf %left, %right : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
