// clone: a tensor of its own with the same values.
//
//   y[b, s, j] = x[b, s, j]
//
// Tensors are values: nothing that is done with one changes the other, and memory is
// moved only where that would not hold otherwise.
//
// Source:  Paszke et al. 2019, arXiv:1912.01703 (what PyTorch's `clone` gives).
// Exports: @clone.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/shape.py clone
// Try:     iree-opt components/shape/clone.mlir
module @clone {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.copy ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
