// embedding_lookup_packed_u32_i8: a scaled look-up, 8-bit, a scale a row, in words.
//
//   y[b, s, j] = byte(weight[id / 8, j, id % 8 / 4], id % 4)
//       * weight_scale[id / 8, id % 8] * scale,  id = ids[b, s]
//
// The table is the weight of linear_packed_u32_i8, which says how a word is
// read. An id must be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_u32_i8.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_embd (fixed by specialize)
// Types:   i32 words of 4 bytes, f32 scale, i32 ids, f32 out
// Oracle:  oracles/packed_u32.py embedding_lookup_packed_u32_i8
// Try:     iree-opt components/embedding/embedding_lookup_packed_u32_i8.mlir
module @embedding_lookup_packed_u32_i8 {
  util.func public @forward(
      %weight: tensor<?x?x2xi32>,      // [n_tile, n_embd, 2]
      %weight_scale: tensor<?x8xf32>,  // [n_tile, 8]
      %ids: tensor<?x?xi32>,           // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                      // dimensionless
  ) -> tensor<?x?x?xf32> {             // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %width = arith.constant 8 : i32
    %top = arith.constant 24 : i32
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_embd = tensor.dim %weight, %c1 : tensor<?x?x2xi32>
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
      %word_place = arith.divui %in_tile, %c4 : index
      %place = arith.remui %in_tile, %c4 : index
      %place_i32 = arith.index_cast %place : index to i32
      %word = tensor.extract %weight[%tile, %column, %word_place] : tensor<?x?x2xi32>
      %low = arith.muli %place_i32, %width : i32
      // Up to the word's top, then down again: the sign comes with it.
      %above = arith.subi %top, %low : i32
      %raised = arith.shli %word, %above : i32
      %code = arith.shrsi %raised, %top : i32
      %wide = arith.sitofp %code : i32 to f32
      %factor = tensor.extract %weight_scale[%tile, %in_tile] : tensor<?x8xf32>
      %value = arith.mulf %wide, %factor : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
