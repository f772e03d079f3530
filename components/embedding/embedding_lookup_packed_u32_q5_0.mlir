// embedding_lookup_packed_u32_q5_0: a scaled look-up, 5 bits, in words.
//
//   y[b, s, 32*k + j] = w[id / 8, k, j, id % 8] * scale     with id = ids[b, s]
//   w[t, k, j, v] as in linear_packed_u32_q5_0
//
// The table is the weight of linear_packed_u32_q5_0, which says how a word is read.
// An id must be in [0, 8*n_tile): it is an address, not checked here.
//
// Source:  Press & Wolf 2017, arXiv:1608.05859 (one table for both ends).
// Exports: @embedding_lookup_packed_u32_q5_0.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_block (fixed by specialize)
// Types:   i32 words of 8 codes, of 32 upper bits, of 2 f16 scales, i32 ids, f32 out
// Oracle:  oracles/packed_u32.py embedding_lookup_packed_u32_q5_0
// Try:     iree-opt components/embedding/embedding_lookup_packed_u32_q5_0.mlir
module @embedding_lookup_packed_u32_q5_0 {
  util.func public @forward(
      %weight: tensor<?x?x32xi32>,       // [n_tile, n_block, 32]
      %weight_high: tensor<?x?x8xi32>,   // [n_tile, n_block, 8]
      %weight_scale: tensor<?x?x4xi32>,  // [n_tile, n_block, 4]
      %ids: tensor<?x?xi32>,             // [batch, seq] rows, in [0, 8*n_tile)
      %scale: f32                        // dimensionless
  ) -> tensor<?x?x?xf32> {               // [batch, seq, 32*n_block]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %thirteen = arith.constant 13 : i32
    %sixteen = arith.constant 16 : i32
    %sign_mask = arith.constant 0x8000 : i32
    %rest_mask = arith.constant 0x7FFF : i32
    %least_normal = arith.constant 0x0400 : i32
    %rebias = arith.constant 0x38000000 : i32
    %step = arith.constant 5.9604644775390625e-08 : f32
    %width = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %middle = arith.constant 16 : i32
    %high_stride = arith.constant 8 : i32
    %high_mask = arith.constant 1 : i32
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
      %own_row = arith.index_cast %id : i32 to index
      %tile = arith.divui %own_row, %c8 : index
      %in_tile = arith.remui %own_row, %c8 : index
      %column = linalg.index 2 : index
      %block = arith.divui %column, %c32 : index
      %in_block = arith.remui %column, %c32 : index
      %place_i32 = arith.index_cast %in_tile : index to i32
      %word = tensor.extract %weight[%tile, %block, %in_block] : tensor<?x?x32xi32>
      %low = arith.muli %place_i32, %width : i32
      %lowered = arith.shrui %word, %low : i32
      %lower = arith.andi %lowered, %mask : i32
      %high_word = arith.divui %in_block, %c4 : index
      %high_column = arith.remui %in_block, %c4 : index
      %high_column_i32 = arith.index_cast %high_column : index to i32
      %high_start = arith.muli %high_column_i32, %high_stride : i32
      %high = tensor.extract %weight_high[%tile, %block, %high_word] : tensor<?x?x8xi32>
      %high_place = arith.addi %high_start, %place_i32 : i32
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
      %pair = tensor.extract %weight_scale[%tile, %block, %pair_place]
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
      %factor = arith.bitcast %signed : i32 to f32
      %value = arith.mulf %wide, %factor : f32
      %scaled = arith.mulf %value, %scale : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
