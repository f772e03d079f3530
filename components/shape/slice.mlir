// slice: neighbouring columns of each row.
//
//   y[b, s, j] = x[b, s, first + j],  j < n_keep
//
// first + n_keep is at most n_embd: it is used as an address and not checked here.
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (basic indexing).
// Exports: @slice.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd, n_keep (fixed by specialize)
// Types:   f32 in, i32 column, f32 out, values are not changed
// Oracle:  oracles/shape.py slice_columns
// Try:     iree-opt components/shape/slice.mlir
module @slice {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %first: i32,            // column, 0 to n_embd - n_keep
      %n_keep: index          // n_keep
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_keep]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %column = arith.index_cast %first : i32 to index
    %y = tensor.extract_slice %x[0, 0, %column] [%batch, %seq, %n_keep] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
