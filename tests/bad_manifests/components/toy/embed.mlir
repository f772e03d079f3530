// embed: stands for a look-up of embeddings; returns zeros.
//
//   y[b, s, j] = 0
//
// Source:  none, for tests of the readers.
// Exports: @embed.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_vocab, n_embd (fixed by specialize)
// Types:   f32 weight, i32 ids, f32 out
// Oracle:  oracles/toy.py embed
// Try:     iree-opt components/toy/embed.mlir
module @embed {
  util.func public @forward(
      %weight: tensor<?x?xf32>,  // [n_vocab, n_embd]
      %ids: tensor<?x?xi32>      // [batch, seq]
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_embd = tensor.dim %weight, %c1 : tensor<?x?xf32>
    %y = tensor.splat %zero[%batch, %seq, %n_embd] : tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
