// contiguous: the tensor in row-major order, which every tensor here is in already.
//
//   y[b, s, j] = x[b, s, j]
//
// Source:  Paszke et al. 2019, arXiv:1912.01703 (what PyTorch's `contiguous` gives).
// Exports: @contiguous.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed or moved
// Oracle:  oracles/shape.py contiguous
// Try:     iree-opt components/shape/contiguous.mlir
module @contiguous {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    util.return %x : tensor<?x?x?xf32>
  }
}
