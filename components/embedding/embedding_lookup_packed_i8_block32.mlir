// embedding_lookup_packed_i8_block32: embedding_lookup_packed, 8-bit, blocks.
//
//   y[b, s, 32*k + j] = weight[id / tile_n, k, j, id % tile_n]
//       * weight_scale[id / tile_n, k, id % tile_n] * scale     with id = ids[b, s]
//
// The table is the weight of linear_packed_i8_block32, in models that tie
// both. An id must be in [0, n_tile*tile_n): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_i8_block32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_block, tile_n (fixed by specialize)
// Types:   i8 table, f16 scale, i32 ids, f32 out
// Oracle:  oracles/packed.py embedding_lookup_packed_i8_block32
// Try:     iree-opt components/embedding/embedding_lookup_packed_i8_block32.mlir
module @embedding_lookup_packed_i8_block32 {
  util.func public @forward(
      %weight: tensor<?x?x32x?xi8>,      // [n_tile, n_block, 32, tile_n]
      %weight_scale: tensor<?x?x?xf16>,  // [n_tile, n_block, tile_n]
      %ids: tensor<?x?xi32>,             // [batch, seq] rows, in [0, n_tile*tile_n)
      %scale: f32                        // dimensionless
  ) -> tensor<?x?x?xf32> {               // [batch, seq, 32*n_block]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_block = tensor.dim %weight, %c1 : tensor<?x?x32x?xi8>
    %n_embd = arith.muli %n_block, %c32 : index
    %tile_n = tensor.dim %weight, %c3 : tensor<?x?x32x?xi8>
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
      %tile = arith.divui %row, %tile_n : index
      %in_tile = arith.remui %row, %tile_n : index
      %column = linalg.index 2 : index
      %block = arith.divui %column, %c32 : index
      %place = arith.remui %column, %c32 : index
      %w = tensor.extract %weight[%tile, %block, %place, %in_tile] : tensor<?x?x32x?xi8>
      %factor = tensor.extract %weight_scale[%tile, %block, %in_tile]
          : tensor<?x?x?xf16>
      %wide = arith.sitofp %w : i8 to f32
      %factor_wide = arith.extf %factor : f16 to f32
      %value = arith.mulf %wide, %factor_wide : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
