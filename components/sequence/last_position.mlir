// last_position: the row of each sequence that its last token made.
//
//   y[b, 0, j] = x[b, last[b], j]
//
// last[b] must be in [0, seq): it is used as an address and not checked here.
//
// Source:  Radford et al. 2018, "Improving Language Understanding by Generative
//          Pre-Training", section 3.2 (the last position predicts what follows).
// Exports: @last_position.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 positions, f32 out
// Oracle:  oracles/sequence.py last_position
// Try:     iree-opt components/sequence/last_position.mlir
module @last_position {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %last: tensor<?xi32>    // [batch] in [0, seq)
  ) -> tensor<?x1x?xf32> {    // [batch, 1, n_embd]
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %rows_init = tensor.empty(%batch, %n_embd) : tensor<?x1x?xf32>
    %rows = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%last : tensor<?xi32>) outs(%rows_init : tensor<?x1x?xf32>) {
    ^bb0(%position: i32, %unused: f32):
      %sequence = linalg.index 0 : index
      %row = arith.index_cast %position : i32 to index
      %column = linalg.index 2 : index
      %value = tensor.extract %x[%sequence, %row, %column] : tensor<?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x1x?xf32>
    util.return %rows : tensor<?x1x?xf32>
  }
}
