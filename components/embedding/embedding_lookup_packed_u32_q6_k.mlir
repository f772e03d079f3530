// embedding_lookup_packed_u32_q6_k: a scaled look-up, 6 bits, nested blocks, words.
//
//   y[b, s, 16*k + j] = w[id / 8, k, j, id % 8] * scale     with id = ids[b, s]
//   w[t, k, j, v] as in linear_packed_u32_q6_k
//
// The table is the weight of linear_packed_u32_q6_k, which says how a word is read.
// An id must be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_u32_q6_k.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_super (fixed by specialize)
// Types:   i32 words of 8 codes, of 16 upper bits, of 4 or 2 scales, i32 ids, f32 out
// Oracle:  oracles/packed_u32.py embedding_lookup_packed_u32_q6_k
// Try:     iree-opt components/embedding/embedding_lookup_packed_u32_q6_k.mlir
module @embedding_lookup_packed_u32_q6_k {
  util.func public @forward(
      %weight: tensor<?x?x16x16xi32>,          // [n_tile, n_super, 16, 16]
      %weight_high: tensor<?x?x16x8xi32>,      // [n_tile, n_super, 16, 8]
      %weight_scale: tensor<?x?x16x2xi32>,     // [n_tile, n_super, 16, 2]
      %weight_super_scale: tensor<?x?x4xi32>,  // [n_tile, n_super, 4]
      %ids: tensor<?x?xi32>,                   // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                              // dimensionless
  ) -> tensor<?x?x?xf32> {                     // [batch, seq, 256*n_super]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c256 = arith.constant 256 : index
    %thirteen = arith.constant 13 : i32
    %sixteen = arith.constant 16 : i32
    %sign_mask = arith.constant 0x8000 : i32
    %rest_mask = arith.constant 0x7FFF : i32
    %least_normal = arith.constant 0x0400 : i32
    %rebias = arith.constant 0x38000000 : i32
    %step = arith.constant 5.9604644775390625e-08 : f32
    %byte_bits = arith.constant 8 : i32
    %top = arith.constant 24 : i32
    %width = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %middle = arith.constant 32 : i32
    %high_stride = arith.constant 16 : i32
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
      %own_row = arith.index_cast %id : i32 to index
      %tile = arith.divui %own_row, %c8 : index
      %in_tile = arith.remui %own_row, %c8 : index
      %column = linalg.index 2 : index
      %super = arith.divui %column, %c256 : index
      %in_super = arith.remui %column, %c256 : index
      %block = arith.divui %in_super, %c16 : index
      %in_block = arith.remui %in_super, %c16 : index
      %place_i32 = arith.index_cast %in_tile : index to i32
      %word = tensor.extract %weight[%tile, %super, %block, %in_block]
          : tensor<?x?x16x16xi32>
      %low = arith.muli %place_i32, %width : i32
      %lowered = arith.shrui %word, %low : i32
      %lower = arith.andi %lowered, %mask : i32
      %high_word = arith.divui %in_block, %c2 : index
      %high_column = arith.remui %in_block, %c2 : index
      %high_column_i32 = arith.index_cast %high_column : index to i32
      %high_start = arith.muli %high_column_i32, %high_stride : i32
      %high = tensor.extract %weight_high[%tile, %super, %block, %high_word]
          : tensor<?x?x16x8xi32>
      %high_row = arith.muli %place_i32, %high_bits : i32
      %high_place = arith.addi %high_start, %high_row : i32
      %high_lowered = arith.shrui %high, %high_place : i32
      %above = arith.andi %high_lowered, %high_mask : i32
      %raised_above = arith.shli %above, %width : i32
      %code = arith.ori %lower, %raised_above : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %pair_place = arith.divui %in_tile, %c2 : index
      %half_place = arith.remui %in_tile, %c2 : index
      %half_place_i32 = arith.index_cast %half_place : index to i32
      %half_low = arith.muli %half_place_i32, %sixteen : i32
      %pair = tensor.extract %weight_super_scale[%tile, %super, %pair_place]
          : tensor<?x?x4xi32>
      %bits = arith.shrui %pair, %half_low : i32
      // f16 to f32 in whole numbers: below the normal ones, steps of 2^-24.
      %sign_low = arith.andi %bits, %sign_mask : i32
      %sign = arith.shli %sign_low, %sixteen : i32
      %rest = arith.andi %bits, %rest_mask : i32
      %widened = arith.shli %rest, %thirteen : i32
      %rebiased = arith.addi %widened, %rebias : i32
      %steps = arith.uitofp %rest : i32 to f32
      %small = arith.mulf %steps, %step : f32
      %small_bits = arith.bitcast %small : f32 to i32
      %is_small = arith.cmpi ult, %rest, %least_normal : i32
      %magnitude = arith.select %is_small, %small_bits, %rebiased : i32
      %signed = arith.ori %magnitude, %sign : i32
      %super_factor = arith.bitcast %signed : i32 to f32
      %quad_place = arith.divui %in_tile, %c4 : index
      %byte_place = arith.remui %in_tile, %c4 : index
      %byte_place_i32 = arith.index_cast %byte_place : index to i32
      %byte_low = arith.muli %byte_place_i32, %byte_bits : i32
      // Up to the word's top, then down again: the sign comes with it.
      %byte_above = arith.subi %top, %byte_low : i32
      %quad = tensor.extract %weight_scale[%tile, %super, %block, %quad_place]
          : tensor<?x?x16x2xi32>
      %quad_raised = arith.shli %quad, %byte_above : i32
      %own = arith.shrsi %quad_raised, %top : i32
      %own_wide = arith.sitofp %own : i32 to f32
      %factor = arith.mulf %own_wide, %super_factor : f32
      %value = arith.mulf %wide, %factor : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
