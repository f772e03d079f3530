// linear: a linear map of each row; the weight is stored [out, in].
//
//   y[b, s, o] = sum_i(x[b, s, i] * weight[o, i])
//
// Source:  torch.nn.Linear without bias (the stored layout).
// Exports: @linear.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_in, n_out (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/linear.py linear
// Try:     iree-opt components/linear/linear.mlir
module @linear {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_in]
      %weight: tensor<?x?xf32>  // [n_out, n_in]
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_out]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?xf32>
    %n_out = tensor.dim %weight, %c0 : tensor<?x?xf32>

    // Step 1: one matrix of all rows, [batch*seq, n_in]. The barrier keeps what makes x
    // out of the kernel that packs x for the product: there, swiglu made the two of them
    // 1.4 times as slow at 512 positions, and no faster at one.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x?x?xf32>{%batch, %seq, %n_in} -> tensor<?x?x?xf32>
    %x_rows = tensor.collapse_shape %x_ready [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %rows = tensor.dim %x_rows, %c0 : tensor<?x?xf32>

    // Step 2: the product, [batch*seq, n_out].
    %product_init = tensor.empty(%rows, %n_out) : tensor<?x?xf32>
    %product_zero = linalg.fill ins(%zero : f32) outs(%product_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %product = linalg.matmul
        indexing_maps = [
          affine_map<(r, o, i) -> (r, i)>,
          affine_map<(r, o, i) -> (o, i)>,
          affine_map<(r, o, i) -> (r, o)>
        ]
        ins(%x_rows, %weight : tensor<?x?xf32>, tensor<?x?xf32>)
        outs(%product_zero : tensor<?x?xf32>) -> tensor<?x?xf32>
    %y = tensor.expand_shape %product [[0, 1], [2]] output_shape [%batch, %seq, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
