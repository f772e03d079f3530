// transpose: rows become columns in each sequence.
//
//   y[b, j, s] = x[b, s, j]
//
// Source:  Cayley 1858, doi:10.1098/rstl.1858.0002, section 40 (the transposed matrix).
// Exports: @transpose.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py transpose
// Try:     iree-opt components/shape/transpose.mlir
module @transpose {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, n_embd, seq]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %n_embd, %seq) : tensor<?x?x?xf32>
    %y = linalg.transpose ins(%x : tensor<?x?x?xf32>)
        outs(%y_init : tensor<?x?x?xf32>) permutation = [0, 2, 1]
    util.return %y : tensor<?x?x?xf32>
  }
}
