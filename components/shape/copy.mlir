// copy: the values of one tensor in the place of another.
//
//   y[b, s, j] = x[b, s, j]
//
// Tensors are values: whether memory is moved is the compiler's to decide, and it is
// not where nothing could tell.
//
// Source:  Lawson et al. 1979, doi:10.1145/355841.355847 (BLAS's `copy`).
// Exports: @copy.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py copy
// Try:     iree-opt components/shape/copy.mlir
module @copy {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_embd]
      %into: tensor<?x?x?xf32>  // [batch, seq, n_embd] whose place is taken
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_embd]
    %y = linalg.copy ins(%x : tensor<?x?x?xf32>) outs(%into : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
