// project: stands for a linear map of each position; returns zeros.
//
//   y[b, s, i] = 0
//
// Source:  none, for tests of the readers.
// Exports: @project.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_in, n_out (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/toy.py project
// Try:     iree-opt components/toy/project.mlir
module @project {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_in]
      %weight: tensor<?x?xf32>  // [n_out, n_in] one row per output
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_out]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_out = tensor.dim %weight, %c0 : tensor<?x?xf32>
    %y = tensor.splat %zero[%batch, %seq, %n_out] : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
