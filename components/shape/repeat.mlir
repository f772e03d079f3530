// repeat: each head of keys or values once for every head of queries that reads it.
//
//   y[b, s, h, d] = x[b, s, h / group, d]
//
// where group = n_head / n_head_kv, a whole number, and h / group is rounded down.
//
// Source:  Ainslie et al. 2023, arXiv:2305.13245, section 2.2.
// Exports: @repeat.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_head, n_head_kv, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py repeat
// Try:     iree-opt components/shape/repeat.mlir
module @repeat {
  util.func public @forward(
      %x: tensor<?x?x?x?xf32>,  // [batch, seq, n_head_kv, head_dim]
      %n_head: index            // n_head
  ) -> tensor<?x?x?x?xf32> {    // [batch, seq, n_head, head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?x?xf32>
    %n_head_kv = tensor.dim %x, %c2 : tensor<?x?x?x?xf32>
    %head_dim = tensor.dim %x, %c3 : tensor<?x?x?x?xf32>
    %group = arith.divui %n_head, %n_head_kv : index
    %groups_init = tensor.empty(%batch, %seq, %n_head_kv, %group, %head_dim)
        : tensor<?x?x?x?x?xf32>
    %groups = linalg.broadcast ins(%x : tensor<?x?x?x?xf32>)
        outs(%groups_init : tensor<?x?x?x?x?xf32>) dimensions = [3]
    %y = tensor.collapse_shape %groups [[0], [1], [2, 3], [4]]
        : tensor<?x?x?x?x?xf32> into tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
