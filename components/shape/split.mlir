// split: the left and the right half of each row, such as gate and up of one matrix.
//
//   left[b, s, j]  = x[b, s, j]
//   right[b, s, j] = x[b, s, n_ff + j]
//
// Parts that differ: shape/split_at.
//
// Source:  Shazeer 2020, arXiv:2002.05202, eq. 5 (two maps of one row).
// Exports: @split.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py split
// Try:     iree-opt components/shape/split.mlir
module @split {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, 2*n_ff]
  ) -> (
      tensor<?x?x?xf32>,     // [batch, seq, n_ff] left
      tensor<?x?x?xf32>      // [batch, seq, n_ff] right
  ) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_column = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_ff = arith.divui %n_column, %c2 : index
    %left = tensor.extract_slice %x[0, 0, 0] [%batch, %seq, %n_ff] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %right = tensor.extract_slice %x[0, 0, %n_ff] [%batch, %seq, %n_ff] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    util.return %left, %right : tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
