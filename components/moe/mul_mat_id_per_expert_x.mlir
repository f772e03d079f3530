// mul_mat_id_per_expert_x: what a row has for an expert, times that one's matrix.
//
//   y[b, s, k*n_out + o] = sum_i(x[b, s, k*n_in + i] * weight[ids[b, s, k], o, i])
//
// It reads the matrices of the chosen experts, not of all. An id must be in
// [0, n_expert): it is used as an address and not checked here.
//
// Source:  Shazeer et al. 2017, arXiv:1701.06538, eq. 1 (the sum only where G > 0).
// Exports: @mul_mat_id_per_expert_x.forward
// Imports: none
// Dims:    n_expert, n_expert_used, n_in, n_out (fixed by specialize),
//          batch, seq (dynamic)
// Types:   f32 in, i32 ids, f32 out, f32 accumulation
// Oracle:  oracles/moe.py mul_mat_id_per_expert_x
// Try:     iree-opt components/moe/mul_mat_id_per_expert_x.mlir
module @mul_mat_id_per_expert_x {
  util.func public @forward(
      %weight: tensor<?x?x?xf32>,  // [n_expert, n_out, n_in]
      %ids: tensor<?x?x?xi32>,     // [batch, seq, n_expert_used] in [0, n_expert)
      %x: tensor<?x?x?xf32>        // [batch, seq, n_expert_used*n_in]
  ) -> tensor<?x?x?xf32> {         // [batch, seq, n_expert_used*n_out]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_out = tensor.dim %weight, %c1 : tensor<?x?x?xf32>
    %n_expert_used = tensor.dim %ids, %c2 : tensor<?x?x?xi32>
    %n_in = tensor.dim %weight, %c2 : tensor<?x?x?xf32>
    %x_width = tensor.dim %x, %c2 : tensor<?x?x?xf32>

    // Step 1: one row after the other. What makes x stays out of the product, which
    // would compute it again for each column.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x?x?xf32>{%batch, %seq, %x_width} -> tensor<?x?x?xf32>
    %x_joined = tensor.collapse_shape %x_ready [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %rows = tensor.dim %x_joined, %c0 : tensor<?x?xf32>
    %x_rows = tensor.expand_shape %x_joined [[0], [1, 2]]
        output_shape [%rows, %n_expert_used, %n_in]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    %id_rows = tensor.collapse_shape %ids [[0, 1], [2]]
        : tensor<?x?x?xi32> into tensor<?x?xi32>

    // Step 2: the products, [batch*seq, n_expert_used, n_out]. A copy of the chosen
    // matrices, to multiply by, would take four times as long.
    %y_init = tensor.empty(%rows, %n_expert_used, %n_out) : tensor<?x?x?xf32>
    %y_zero = linalg.fill ins(%zero : f32) outs(%y_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %y_rows = linalg.generic {
      indexing_maps = [
        affine_map<(r, k, o, i) -> (r, k, i)>, affine_map<(r, k, o, i) -> (r, k)>,
        affine_map<(r, k, o, i) -> (r, k, o)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%x_rows, %id_rows : tensor<?x?x?xf32>, tensor<?x?xi32>)
      outs(%y_zero : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %id: i32, %partial: f32):
      %expert = arith.index_cast %id : i32 to index
      %o = linalg.index 2 : index
      %i = linalg.index 3 : index
      %factor = tensor.extract %weight[%expert, %o, %i] : tensor<?x?x?xf32>
      %product = arith.mulf %value, %factor : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    %y_joined = tensor.collapse_shape %y_rows [[0], [1, 2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %width = arith.muli %n_expert_used, %n_out : index
    %y = tensor.expand_shape %y_joined [[0, 1], [2]] output_shape [%batch, %seq, %width]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
