// linear_packed_u32_q6_k: a linear map, 6 bits, nested blocks, words.
//
//   y[b, s, 8*t + v] = sum_k(sum_j(x[b, s, 16*k + j] * w[t, k, j, v]))
//   w[t, k, j, v] = (code[t, k, j, v] - 32) * scale[t, k, v]
//   code[t, k, j, v] = nibble(weight[t, k, j], v)
//       + 16 * pair(weight_high[t, k, j / 2], 8*(j % 2) + v)
//   scale[t, k, v] = byte(weight_scale[t, k, v / 4], v % 4)
//       * half(weight_super_scale[t, k / 16, v / 2], v % 2)
//
// nibble(a, v) is the number in bits 4*v and up of a word, pair(a, n) that in
// bits 2*n and 2*n + 1, byte(a, n) the signed number in bits 8*n and
// up, and half(a, n) a float16 in bits 16*n and up.
// A word, because a device need not have narrower types in memory.
//
// Source:  ggml's type q6_K (16 blocks of 16, whose scales are bytes times a f16 scale;
//          32 added to the codes).
// Exports: @linear_packed_u32_q6_k.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_super (fixed by specialize)
// Types:   f32 in, i32 words of 8 codes, of 16 upper bits, of 4 or 2 scales, f32 out
// Oracle:  oracles/packed_u32.py linear_packed_u32_q6_k
// Try:     iree-opt components/linear/linear_packed_u32_q6_k.mlir
module @linear_packed_u32_q6_k {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,                  // [batch, seq, 256*n_super]
      %weight: tensor<?x?x16x16xi32>,         // [n_tile, n_super, 16, 16]
      %weight_high: tensor<?x?x16x8xi32>,     // [n_tile, n_super, 16, 8]
      %weight_scale: tensor<?x?x16x2xi32>,    // [n_tile, n_super, 16, 2]
      %weight_super_scale: tensor<?x?x4xi32>  // [n_tile, n_super, 4]
  ) -> tensor<?x?x?xf32> {                    // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.0 : f32
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
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x16x16xi32>
    %n_super = tensor.dim %weight, %c1 : tensor<?x?x16x16xi32>
    %n_block = arith.muli %n_super, %c16 : index
    %n_in = arith.muli %n_block, %c16 : index
    %n_out = arith.muli %n_tile, %c8 : index
    %rows = arith.muli %batch, %seq : index

    // Step 1: rows in groups of 4, so that a word is unpacked for 4 of them; the last
    // row again where there are too few. The barrier keeps what makes x out of it.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x?x?xf32>{%batch, %seq, %n_in} -> tensor<?x?x?xf32>
    %x_rows = tensor.collapse_shape %x_ready [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %groups = arith.ceildivui %rows, %c4 : index
    %last = arith.subi %rows, %c1 : index
    %x_groups_init = tensor.empty(%groups, %n_in) : tensor<?x?x4xf32>
    %x_groups = linalg.generic {
      indexing_maps = [affine_map<(g, i, m) -> (g, i, m)>],
      iterator_types = ["parallel", "parallel", "parallel"]
    } outs(%x_groups_init : tensor<?x?x4xf32>) {
    ^bb0(%unused: f32):
      %group = linalg.index 0 : index
      %column = linalg.index 1 : index
      %member = linalg.index 2 : index
      %first = arith.muli %group, %c4 : index
      %next_row = arith.addi %first, %member : index
      %row = arith.minui %next_row, %last : index
      %value = tensor.extract %x_rows[%row, %column] : tensor<?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x4xf32>

    // The scales as f32.
    %scale_init = tensor.empty(%n_tile, %n_block) : tensor<?x?x8xf32>
    %scale = linalg.generic {
      indexing_maps = [
        affine_map<(t, k, v) -> (t, k, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } outs(%scale_init : tensor<?x?x8xf32>) {
    ^bb0(%unused: f32):
      %tile = linalg.index 0 : index
      %own_block = linalg.index 1 : index
      %super = arith.divui %own_block, %c16 : index
      %block = arith.remui %own_block, %c16 : index
      %in_tile = linalg.index 2 : index
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
      linalg.yield %factor : f32
    } -> tensor<?x?x8xf32>

    // Step 2: the products, [groups, 4, n_tile, 8].
    %words = tensor.collapse_shape %weight [[0], [1, 2, 3]]
        : tensor<?x?x16x16xi32> into tensor<?x?xi32>
    %highs = tensor.collapse_shape %weight_high [[0], [1, 2], [3]]
        : tensor<?x?x16x8xi32> into tensor<?x?x8xi32>
    %sum_init = tensor.empty(%groups, %n_tile) : tensor<?x4x?x8xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x4x?x8xf32>)
        -> tensor<?x4x?x8xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, h, i) -> (g, i, m)>,
        affine_map<(g, m, t, h, i) -> (t, i)>,
        affine_map<(g, m, t, h, i) -> (g, m, t, h)>
      ],
      iterator_types = [
        "parallel", "parallel", "parallel", "parallel", "reduction"
      ]
    } ins(%x_groups, %words : tensor<?x?x4xf32>, tensor<?x?xi32>)
      outs(%sum_zero : tensor<?x4x?x8xf32>) {
    ^bb0(%value: f32, %word: i32, %partial: f32):
      %in_tile = linalg.index 3 : index
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %tile = linalg.index 2 : index
      %input = linalg.index 4 : index
      %block = arith.divui %input, %c16 : index
      %in_block = arith.remui %input, %c16 : index
      %low = arith.muli %in_tile_i32, %width : i32
      %lowered = arith.shrui %word, %low : i32
      %lower = arith.andi %lowered, %mask : i32
      %high_word = arith.divui %in_block, %c2 : index
      %high_column = arith.remui %in_block, %c2 : index
      %high_column_i32 = arith.index_cast %high_column : index to i32
      %high_start = arith.muli %high_column_i32, %high_stride : i32
      %high = tensor.extract %highs[%tile, %block, %high_word] : tensor<?x?x8xi32>
      %high_row = arith.muli %in_tile_i32, %high_bits : i32
      %high_place = arith.addi %high_start, %high_row : i32
      %high_lowered = arith.shrui %high, %high_place : i32
      %above = arith.andi %high_lowered, %high_mask : i32
      %raised_above = arith.shli %above, %width : i32
      %code = arith.ori %lower, %raised_above : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %factor = tensor.extract %scale[%tile, %block, %in_tile] : tensor<?x?x8xf32>
      %w = arith.mulf %wide, %factor : f32
      %product = arith.mulf %value, %w : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x4x?x8xf32>
    %sum_rows = tensor.collapse_shape %sum [[0, 1], [2, 3]]
        : tensor<?x4x?x8xf32> into tensor<?x?xf32>
    %y_rows = tensor.extract_slice %sum_rows[0, 0] [%rows, %n_out] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    %y = tensor.expand_shape %y_rows [[0, 1], [2]] output_shape [%batch, %seq, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
