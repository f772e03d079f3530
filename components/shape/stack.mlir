// stack: two tensors of one shape behind each other, along a new first dimension.
//
//   y[0, b, s, j] = first[b, s, j]
//   y[1, b, s, j] = second[b, s, j]
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (NumPy's stack).
// Exports: @stack.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py stack
// Try:     iree-opt components/shape/stack.mlir
module @stack {
  util.func public @forward(
      %first: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %second: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<2x?x?x?xf32> {      // [2, batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %first, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %first, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %first, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<2x?x?x?xf32>
    %half = tensor.insert_slice %first into %y_init[0, 0, 0, 0]
        [1, %batch, %seq, %n_embd] [1, 1, 1, 1]
        : tensor<?x?x?xf32> into tensor<2x?x?x?xf32>
    %y = tensor.insert_slice %second into %half[1, 0, 0, 0]
        [1, %batch, %seq, %n_embd] [1, 1, 1, 1]
        : tensor<?x?x?xf32> into tensor<2x?x?x?xf32>
    util.return %y : tensor<2x?x?x?xf32>
  }
}
