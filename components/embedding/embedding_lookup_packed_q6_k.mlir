// embedding_lookup_packed_q6_k: embedding_lookup_packed, 6 bits, nested blocks.
//
//   y[b, s, 16*k + j] = w[id / 8, k, j, id % 8] * scale     with id = ids[b, s]
//   w[t, k, j, v] as in linear_packed_q6_k
//
// The table is the weight of linear_packed_q6_k, in models that tie both. An id must
// be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_q6_k.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_super (fixed by specialize)
// Types:   i32 words of 8 rows, i16 of their upper bits, i8 and f16 scales, i32 ids,
//          f32 out
// Oracle:  oracles/packed.py embedding_lookup_packed_q6_k
// Try:     iree-opt components/embedding/embedding_lookup_packed_q6_k.mlir
module @embedding_lookup_packed_q6_k {
  util.func public @forward(
      %weight: tensor<?x?x16x16xi32>,          // [n_tile, n_super, 16, 16]
      %weight_high: tensor<?x?x16x16xi16>,     // [n_tile, n_super, 16, 16]
      %weight_scale: tensor<?x?x16x8xi8>,      // [n_tile, n_super, 16, 8]
      %weight_super_scale: tensor<?x?x8xf16>,  // [n_tile, n_super, 8]
      %ids: tensor<?x?xi32>,                   // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                              // dimensionless
  ) -> tensor<?x?x?xf32> {                     // [batch, seq, 256*n_super]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c256 = arith.constant 256 : index
    %bits = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %middle = arith.constant 32 : i32
    %high_bits = arith.constant 2 : i32
    %high_mask = arith.constant 3 : i32
    %batch = tensor.dim %ids, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?xi32>
    %n_super = tensor.dim %weight, %c1 : tensor<?x?x16x16xi32>
    %n_embd = arith.muli %n_super, %c256 : index
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
      %super = arith.divui %column, %c256 : index
      %in_super = arith.remui %column, %c256 : index
      %block = arith.divui %in_super, %c16 : index
      %in_block = arith.remui %in_super, %c16 : index
      %word = tensor.extract %weight[%tile, %super, %block, %in_block]
          : tensor<?x?x16x16xi32>
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %low = arith.andi %lowered, %mask : i32
      %high = tensor.extract %weight_high[%tile, %super, %block, %in_block]
          : tensor<?x?x16x16xi16>
      %high_wide = arith.extui %high : i16 to i32
      %high_place = arith.muli %in_tile_i32, %high_bits : i32
      %high_lowered = arith.shrui %high_wide, %high_place : i32
      %above = arith.andi %high_lowered, %high_mask : i32
      %raised_above = arith.shli %above, %bits : i32
      %code = arith.ori %low, %raised_above : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %part_scale = tensor.extract %weight_scale[%tile, %super, %block, %in_tile]
          : tensor<?x?x16x8xi8>
      %super_scale = tensor.extract %weight_super_scale[%tile, %super, %in_tile]
          : tensor<?x?x8xf16>
      %part_scale_wide = arith.sitofp %part_scale : i8 to f32
      %super_scale_wide = arith.extf %super_scale : f16 to f32
      %factor_wide = arith.mulf %part_scale_wide, %super_scale_wide : f32
      %value = arith.mulf %wide, %factor_wide : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
