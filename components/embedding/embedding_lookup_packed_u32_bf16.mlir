// embedding_lookup_packed_u32_bf16: a scaled look-up, bfloat16, in words.
//
//   y[b, s, j] = half(weight[id / 8, j, id % 8 / 2], id % 2) * scale,  id = ids[b, s]
//
// The table is the weight of linear_packed_u32_bf16, which says how a word is
// read. An id must be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_u32_bf16.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_embd (fixed by specialize)
// Types:   i32 words of 2 bfloat16, i32 ids, f32 out
// Oracle:  oracles/packed_u32.py embedding_lookup_packed_u32_bf16
// Try:     iree-opt components/embedding/embedding_lookup_packed_u32_bf16.mlir
module @embedding_lookup_packed_u32_bf16 {
  util.func public @forward(
      %weight: tensor<?x?x4xi32>,  // [n_tile, n_embd, 4]
      %ids: tensor<?x?xi32>,       // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                  // dimensionless
  ) -> tensor<?x?x?xf32> {         // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %sixteen = arith.constant 16 : i32
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_embd = tensor.dim %weight, %c1 : tensor<?x?x4xi32>
    %rows_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %rows = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%ids : tensor<?x?xi32>) outs(%rows_init : tensor<?x?x?xf32>) {
    ^bb0(%id: i32, %unused: f32):
      %own_row = arith.index_cast %id : i32 to index
      %tile = arith.divui %own_row, %c8 : index
      %in_tile = arith.remui %own_row, %c8 : index
      %column = linalg.index 2 : index
      %word_place = arith.divui %in_tile, %c2 : index
      %place = arith.remui %in_tile, %c2 : index
      %place_i32 = arith.index_cast %place : index to i32
      %word = tensor.extract %weight[%tile, %column, %word_place] : tensor<?x?x4xi32>
      %low = arith.muli %place_i32, %sixteen : i32
      %lowered = arith.shrui %word, %low : i32
      %bits = arith.shli %lowered, %sixteen : i32
      %value = arith.bitcast %bits : i32 to f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
