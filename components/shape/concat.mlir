// concat: two rows of any widths side by side, at each position.
//
//   y[b, s, j]          = left[b, s, j]
//   y[b, s, n_left + j] = right[b, s, j]
//
// More than two: the result of one is an argument of the next. Of heads shape/reshape
// makes columns, of positions shape/transpose.
//
// Source:  Ronneberger et al. 2015, arXiv:1505.04597, section 2 (skip connections).
// Exports: @concat.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_left, n_right, n_embd = n_left + n_right
//          (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py concat
// Try:     iree-opt components/shape/concat.mlir
module @concat {
  util.func public @forward(
      %left: tensor<?x?x?xf32>,   // [batch, seq, n_left]
      %right: tensor<?x?x?xf32>,  // [batch, seq, n_right]
      %n_embd: index              // n_embd
  ) -> tensor<?x?x?xf32> {        // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %left, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %left, %c1 : tensor<?x?x?xf32>
    %n_left = tensor.dim %left, %c2 : tensor<?x?x?xf32>
    %n_right = tensor.dim %right, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %with_left = tensor.insert_slice %left
        into %y_init[0, 0, 0] [%batch, %seq, %n_left] [1, 1, 1]
        : tensor<?x?x?xf32> into tensor<?x?x?xf32>
    %y = tensor.insert_slice %right
        into %with_left[0, 0, %n_left] [%batch, %seq, %n_right] [1, 1, 1]
        : tensor<?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
