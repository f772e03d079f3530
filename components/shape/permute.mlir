// permute: heads before positions, as attention over each head wants them.
//
//   y[b, h, s, d] = x[b, s, h, d]
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2 (heads in parallel).
// Exports: @permute.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py permute
// Try:     iree-opt components/shape/permute.mlir
module @permute {
  util.func public @forward(
      %x: tensor<?x?x?x?xf32>  // [batch, seq, n_head, head_dim]
  ) -> tensor<?x?x?x?xf32> {   // [batch, n_head, seq, head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?x?xf32>
    %n_head = tensor.dim %x, %c2 : tensor<?x?x?x?xf32>
    %head_dim = tensor.dim %x, %c3 : tensor<?x?x?x?xf32>
    %y_init = tensor.empty(%batch, %n_head, %seq, %head_dim) : tensor<?x?x?x?xf32>
    %y = linalg.transpose ins(%x : tensor<?x?x?x?xf32>)
        outs(%y_init : tensor<?x?x?x?xf32>) permutation = [0, 2, 1, 3]
    util.return %y : tensor<?x?x?x?xf32>
  }
}
