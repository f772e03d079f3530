// div: the quotient of two tensors of one shape, element by element.
//
//   y[b, s, j] = a[b, s, j] / b[b, s, j]
//
// Division by zero gives an infinity or a NaN on a CPU; Vulkan promises neither.
//
// Source:  IEEE 754-2019, section 5.4.1.
// Exports: @div.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py div
// Try:     iree-opt components/elementwise/div.mlir
module @div {
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
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%a, %b : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%left: f32, %right: f32, %unused: f32):
      %result = arith.divf %left, %right : f32
      linalg.yield %result : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
