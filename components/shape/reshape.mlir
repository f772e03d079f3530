// reshape: heads side by side in one row; the same memory under another shape.
//
//   y[b, s, h*head_dim + d] = x[b, s, h, d]
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2 (heads concatenated).
// Exports: @reshape.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed or moved
// Oracle:  oracles/shape.py reshape
// Try:     iree-opt components/shape/reshape.mlir
module @reshape {
  util.func public @forward(
      %x: tensor<?x?x?x?xf32>  // [batch, seq, n_head, head_dim]
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_head*head_dim]
    %y = tensor.collapse_shape %x [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
