// embedding_lookup_packed_q4_1: embedding_lookup_packed, 4 bits, minima.
//
//   y[b, s, 32*k + j] = w[id / 8, k, j, id % 8] * scale     with id = ids[b, s]
//   w[t, k, j, v] as in linear_packed_q4_1
//
// The table is the weight of linear_packed_q4_1, in models that tie both. An id must
// be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_q4_1.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_block (fixed by specialize)
// Types:   i32 words of 8 rows, f16 scale and minimum, i32 ids, f32 out
// Oracle:  oracles/packed.py embedding_lookup_packed_q4_1
// Try:     iree-opt components/embedding/embedding_lookup_packed_q4_1.mlir
module @embedding_lookup_packed_q4_1 {
  util.func public @forward(
      %weight: tensor<?x?x32xi32>,       // [n_tile, n_block, 32]
      %weight_scale: tensor<?x?x8xf16>,  // [n_tile, n_block, 8]
      %weight_min: tensor<?x?x8xf16>,    // [n_tile, n_block, 8]
      %ids: tensor<?x?xi32>,             // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                        // dimensionless
  ) -> tensor<?x?x?xf32> {               // [batch, seq, 32*n_block]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %bits = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_block = tensor.dim %weight, %c1 : tensor<?x?x32xi32>
    %n_embd = arith.muli %n_block, %c32 : index
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
      %tile = arith.divui %row, %c8 : index
      %in_tile = arith.remui %row, %c8 : index
      %column = linalg.index 2 : index
      %block = arith.divui %column, %c32 : index
      %in_block = arith.remui %column, %c32 : index
      %word = tensor.extract %weight[%tile, %block, %in_block] : tensor<?x?x32xi32>
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %code = arith.andi %lowered, %mask : i32
      %wide = arith.sitofp %code : i32 to f32
      %factor = tensor.extract %weight_scale[%tile, %block, %in_tile]
          : tensor<?x?x8xf16>
      %least = tensor.extract %weight_min[%tile, %block, %in_tile] : tensor<?x?x8xf16>
      %factor_wide = arith.extf %factor : f16 to f32
      %least_wide = arith.extf %least : f16 to f32
      %stretched = arith.mulf %wide, %factor_wide : f32
      %value = arith.addf %stretched, %least_wide : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
