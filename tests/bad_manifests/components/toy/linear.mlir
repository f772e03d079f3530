// linear: a linear map without bias.
//
//   y[b, i] = sum_j(x[b, j] * weight[i, j])
//
// Source:  none, for tests of the readers.
// Exports: @linear.forward
// Imports: none
// Dims:    batch (dynamic), n_in, n_out (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/toy.py linear
// Try:     iree-opt components/toy/linear.mlir
module @linear {
  util.func public @forward(
      %x: tensor<?x?xf32>,      // [batch, n_in]
      %weight: tensor<?x?xf32>  // [n_out, n_in] one row per output
  ) -> tensor<?x?xf32> {        // [batch, n_out]
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?xf32>
    %n_out = tensor.dim %weight, %c0 : tensor<?x?xf32>
    %init = tensor.empty(%batch, %n_out) : tensor<?x?xf32>
    %sum = linalg.fill ins(%zero : f32) outs(%init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %y = linalg.matmul_transpose_b ins(%x, %weight : tensor<?x?xf32>, tensor<?x?xf32>)
        outs(%sum : tensor<?x?xf32>) -> tensor<?x?xf32>
    util.return %y : tensor<?x?xf32>
  }
}
