// embedding_lookup: the row of a table for every id.
//
//   y[b, s, j] = weight[ids[b, s], j]
//
// An id must be in [0, n_vocab): it is used as an address and not checked here.
//
// Source:  Mikolov et al. 2013, arXiv:1301.3781, section 3 (the projection layer).
// Exports: @embedding_lookup.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_vocab, n_embd (fixed by specialize)
// Types:   f32 table, i32 ids, f32 out
// Oracle:  oracles/embedding.py embedding_lookup
// Try:     iree-opt components/embedding/embedding_lookup.mlir
module @embedding_lookup {
  util.func public @forward(
      %weight: tensor<?x?xf32>,  // [n_vocab, n_embd] one row per id
      %ids: tensor<?x?xi32>      // [batch, seq] rows, in [0, n_vocab)
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
      linalg.yield %value : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
