// pad: columns of one value after those of each row.
//
//   y[b, s, j] = x[b, s, j]  for j < n_embd, value for n_embd <= j < n_padded
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (NumPy's pad).
// Exports: @pad.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd, n_padded (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py pad
// Try:     iree-opt components/shape/pad.mlir
module @pad {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %value: f32,            // of the new columns, in the unit of x
      %n_padded: index        // n_padded at least n_embd
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_padded]
    %c2 = arith.constant 2 : index
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %added = arith.subi %n_padded, %n_embd : index
    %y = tensor.pad %x low[0, 0, 0] high[0, 0, %added] {
    ^bb0(%b: index, %s: index, %j: index):
      tensor.yield %value : f32
    } : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
