// split_at: the left and the right part of each row, of any widths.
//
//   left[b, s, j]  = x[b, s, j]
//   right[b, s, j] = x[b, s, n_left + j]
//
// More than two, such as queries, keys and values of one matrix: split a part again.
// Of heads shape/reshape makes columns, of positions shape/transpose.
//
// Source:  the inverse of concat (shape/concat).
// Exports: @split_at.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_left, n_right, n_embd = n_left + n_right
//          (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py split_at
// Try:     iree-opt components/shape/split_at.mlir
module @split_at {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %n_left: index,         // n_left
      %n_right: index         // n_right
  ) -> (
      tensor<?x?x?xf32>,      // [batch, seq, n_left] left
      tensor<?x?x?xf32>       // [batch, seq, n_right] right
  ) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %left = tensor.extract_slice %x[0, 0, 0] [%batch, %seq, %n_left] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %right = tensor.extract_slice %x[0, 0, %n_left] [%batch, %seq, %n_right] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    util.return %left, %right : tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
