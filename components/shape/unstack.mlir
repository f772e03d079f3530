// unstack: the two tensors that lie behind each other, such as keys and values.
//
//   first[b, s, j]  = x[0, b, s, j]
//   second[b, s, j] = x[1, b, s, j]
//
// Source:  the inverse of stack (shape/stack).
// Exports: @unstack.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed or moved
// Oracle:  oracles/shape.py unstack
// Try:     iree-opt components/shape/unstack.mlir
module @unstack {
  util.func public @forward(
      %x: tensor<2x?x?x?xf32>  // [2, batch, seq, n_embd]
  ) -> (
      tensor<?x?x?xf32>,       // [batch, seq, n_embd] first
      tensor<?x?x?xf32>        // [batch, seq, n_embd] second
  ) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %batch = tensor.dim %x, %c1 : tensor<2x?x?x?xf32>
    %seq = tensor.dim %x, %c2 : tensor<2x?x?x?xf32>
    %n_embd = tensor.dim %x, %c3 : tensor<2x?x?x?xf32>
    %first = tensor.extract_slice %x[0, 0, 0, 0] [1, %batch, %seq, %n_embd] [1, 1, 1, 1]
        : tensor<2x?x?x?xf32> to tensor<?x?x?xf32>
    %second = tensor.extract_slice %x[1, 0, 0, 0] [1, %batch, %seq, %n_embd]
        [1, 1, 1, 1] : tensor<2x?x?x?xf32> to tensor<?x?x?xf32>
    util.return %first, %second : tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
