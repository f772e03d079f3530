// linear_packed_u32_q5_0: a linear map, 5 bits, in words.
//
//   y[b, s, 8*t + v] = sum_k(sum_j(x[b, s, 32*k + j] * w[t, k, j, v]))
//   w[t, k, j, v] = (code[t, k, j, v] - 16) * weight_scale[t, k, v]
//   code[t, k, j, v] = nibble(weight[t, k, j], v)
//       + 16 * bit(weight_high[t, k, j / 4], 8*(j % 4) + v)
//
// nibble(a, v) is the number in bits 4*v and up of a word, bit(a, n) its bit n; scales are
// float16, two a word: weight_scale[t, k, 2*p + q] is in bits 16*q and up of word p.
// A word, because a device need not have narrower types in memory.
//
// Source:  ggml's type q5_0 (blocks of 32, a f16 scale each, 16 added to the codes).
// Exports: @linear_packed_u32_q5_0.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_block (fixed by specialize)
// Types:   f32 in, i32 words of 8 codes, of 32 upper bits, of 2 f16 scales, f32 out
// Oracle:  oracles/packed_u32.py linear_packed_u32_q5_0
// Try:     iree-opt components/linear/linear_packed_u32_q5_0.mlir
module @linear_packed_u32_q5_0 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,            // [batch, seq, 32*n_block]
      %weight: tensor<?x?x32xi32>,      // [n_tile, n_block, 32]
      %weight_high: tensor<?x?x8xi32>,  // [n_tile, n_block, 8]
      %weight_scale: tensor<?x?x4xi32>  // [n_tile, n_block, 4]
  ) -> tensor<?x?x?xf32> {              // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
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
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x32xi32>
    %n_block = tensor.dim %weight, %c1 : tensor<?x?x32xi32>
    %n_in = arith.muli %n_block, %c32 : index
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
      %block = linalg.index 1 : index
      %in_tile = linalg.index 2 : index
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
      linalg.yield %factor : f32
    } -> tensor<?x?x8xf32>

    // Step 2: the products, [groups, 4, n_tile, 8].
    %words = tensor.collapse_shape %weight [[0], [1, 2]]
        : tensor<?x?x32xi32> into tensor<?x?xi32>
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
      %block = arith.divui %input, %c32 : index
      %in_block = arith.remui %input, %c32 : index
      %low = arith.muli %in_tile_i32, %width : i32
      %lowered = arith.shrui %word, %low : i32
      %lower = arith.andi %lowered, %mask : i32
      %high_word = arith.divui %in_block, %c4 : index
      %high_column = arith.remui %in_block, %c4 : index
      %high_column_i32 = arith.index_cast %high_column : index to i32
      %high_start = arith.muli %high_column_i32, %high_stride : i32
      %high = tensor.extract %weight_high[%tile, %block, %high_word] : tensor<?x?x8xi32>
      %high_place = arith.addi %high_start, %in_tile_i32 : i32
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
