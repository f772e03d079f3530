// view: a row as heads; the same memory under another shape.
//
//   y[b, s, h, d] = x[b, s, h*head_dim + d]
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2 (heads of a row).
// Exports: @view.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed or moved
// Oracle:  oracles/shape.py view
// Try:     iree-opt components/shape/view.mlir
module @view {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_head*head_dim]
      %n_head: index          // n_head
  ) -> tensor<?x?x?x?xf32> {  // [batch, seq, n_head, head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_column = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %head_dim = arith.divui %n_column, %n_head : index
    %y = tensor.expand_shape %x [[0], [1], [2, 3]]
        output_shape [%batch, %seq, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
