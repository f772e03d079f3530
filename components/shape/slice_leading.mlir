// slice_leading: the first rows of a table; a shorter view of the same memory.
//
//   y[i, j] = x[i, j],  i < n_keep
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (basic indexing).
// Exports: @slice_leading.forward
// Imports: none
// Dims:    n_ctx, n_embd, n_keep (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed or moved
// Oracle:  oracles/shape.py slice_leading
// Try:     iree-opt components/shape/slice_leading.mlir
module @slice_leading {
  util.func public @forward(
      %x: tensor<?x?xf32>,  // [n_ctx, n_embd]
      %n_keep: index        // n_keep at most n_ctx
  ) -> tensor<?x?xf32> {    // [n_keep, n_embd]
    %c1 = arith.constant 1 : index
    %n_embd = tensor.dim %x, %c1 : tensor<?x?xf32>
    %y = tensor.extract_slice %x[0, 0] [%n_keep, %n_embd] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    util.return %y : tensor<?x?xf32>
  }
}
