// embedding_lookup_scaled: the row of a table for every id, times one number.
//
//   y[b, s, j] = weight[ids[b, s], j] * scale
//
// An id must be in [0, n_vocab): it is used as an address and not checked here.
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, section 3.4 (scale = sqrt(n_embd)).
// Exports: @embedding_lookup_scaled.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_vocab, n_embd (fixed by specialize)
// Types:   f32 table, i32 ids, f32 out
// Oracle:  oracles/embedding.py embedding_lookup_scaled
// Try:     iree-opt components/embedding/embedding_lookup_scaled.mlir
module @embedding_lookup_scaled {
  util.func public @forward(
      %weight: tensor<?x?xf32>,  // [n_vocab, n_embd] one row per id
      %ids: tensor<?x?xi32>,     // [batch, seq] rows, in [0, n_vocab)
      %scale: f32                // dimensionless
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_embd = tensor.dim %weight, %c1 : tensor<?x?xf32>
    %rows_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %rows = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%ids : tensor<?x?xi32>) outs(%rows_init : tensor<?x?x?xf32>) {
    ^bb0(%id: i32, %unused: f32):
      %row = arith.index_cast %id : i32 to index
      %column = linalg.index 2 : index
      %value = tensor.extract %weight[%row, %column] : tensor<?x?xf32>
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
