// linear_packed_q6_k: linear_packed with 6-bit codes, nested blocks.
//
//   y[b, s, 8*t + v] = sum_k(sum_j(x[b, s, 16*k + j] * w[t, k, j, v]))
//   w[t, k, j, v] = (code[t, k, j, v] - 32) * scale[t, k, v]
//   code[t, k, j, v] = (weight[t, k, j] >> 4*v) % 16
//       + 16 * ((weight_high[t, k, j] >> 2*v) % 4)
//   scale[t, k, v] = weight_scale[t, k, v] * weight_super_scale[t, k / 16, v]
//
// Output n is in row n % 8 of tile n / 8: the 8 weights that an input has in a tile are
// one word, from its lowest bits up. For llvm-cpu only.
//
// Source:  ggml's type q6_K (16 blocks of 16, whose scales are bytes times a f16 scale;
//          32 added to the codes).
// Exports: @linear_packed_q6_k.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_super (fixed by specialize)
// Types:   f32 in, i32 words of 8 codes, i16 of their upper bits, i8 and f16 scales,
//          f32 out
// Oracle:  oracles/packed.py linear_packed_q6_k
// Try:     iree-opt components/linear/linear_packed_q6_k.mlir
module @linear_packed_q6_k {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,                  // [batch, seq, 256*n_super]
      %weight: tensor<?x?x16x16xi32>,         // [n_tile, n_super, 16, 16]
      %weight_high: tensor<?x?x16x16xi16>,    // [n_tile, n_super, 16, 16]
      %weight_scale: tensor<?x?x16x8xi8>,     // [n_tile, n_super, 16, 8]
      %weight_super_scale: tensor<?x?x8xf16>  // [n_tile, n_super, 8]
  ) -> tensor<?x?x?xf32> {                    // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.0 : f32
    %bits = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %middle = arith.constant 32 : i32
    %high_bits = arith.constant 2 : i32
    %high_mask = arith.constant 3 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x16x16xi32>
    %n_super = tensor.dim %weight, %c1 : tensor<?x?x16x16xi32>
    %n_block = arith.muli %n_super, %c16 : index
    %n_in = arith.muli %n_block, %c16 : index
    %n_out = arith.muli %n_tile, %c8 : index
    // What makes x stays out of these kernels: each tile would compute it again.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x?x?xf32>{%batch, %seq, %n_in} -> tensor<?x?x?xf32>

    // Step 1: whole groups of 6 positions, whose sums with 2 tiles fit the registers.
    // Where seq is bound to 1 there are none, and the compiler drops the step.
    %seq_groups = arith.divui %seq, %c6 : index
    %whole = arith.muli %seq_groups, %c6 : index
    %x_whole = tensor.extract_slice %x_ready[0, 0, 0] [%batch, %whole, %n_in] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %x_turned_init = tensor.empty(%batch, %seq_groups, %n_in) : tensor<?x?x?x6xf32>
    %x_turned = linalg.pack %x_whole inner_dims_pos = [1] inner_tiles = [6]
        into %x_turned_init : tensor<?x?x?xf32> -> tensor<?x?x?x6xf32>
    %x_groups = tensor.collapse_shape %x_turned [[0, 1], [2], [3]]
        : tensor<?x?x?x6xf32> into tensor<?x?x6xf32>
    %groups = arith.muli %batch, %seq_groups : index
    // The exact weight is made first: in the kernel below it took 10 times as long.
    %exact_init = tensor.empty(%n_tile, %n_super) : tensor<?x?x16x16x8xf32>
    %exact = linalg.generic {
      indexing_maps = [
        affine_map<(t, s, k, j, v) -> (t, s, k, j)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, j)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, j, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%weight, %weight_high, %weight_scale, %weight_super_scale
        : tensor<?x?x16x16xi32>, tensor<?x?x16x16xi16>,
          tensor<?x?x16x8xi8>, tensor<?x?x8xf16>)
      outs(%exact_init : tensor<?x?x16x16x8xf32>) {
    ^bb0(%word: i32, %high: i16, %part_scale: i8, %super_scale: f16, %unused: f32):
      %in_tile = linalg.index 4 : index
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %low = arith.andi %lowered, %mask : i32
      %high_wide = arith.extui %high : i16 to i32
      %high_place = arith.muli %in_tile_i32, %high_bits : i32
      %high_lowered = arith.shrui %high_wide, %high_place : i32
      %above = arith.andi %high_lowered, %high_mask : i32
      %raised_above = arith.shli %above, %bits : i32
      %code = arith.ori %low, %raised_above : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %part_scale_wide = arith.sitofp %part_scale : i8 to f32
      %super_scale_wide = arith.extf %super_scale : f16 to f32
      %factor_wide = arith.mulf %part_scale_wide, %super_scale_wide : f32
      %value = arith.mulf %wide, %factor_wide : f32
      linalg.yield %value : f32
    } -> tensor<?x?x16x16x8xf32>
    %exact_ready = iree_tensor_ext.compute_barrier.start %exact
        : tensor<?x?x16x16x8xf32>{%n_tile, %n_super} -> tensor<?x?x16x16x8xf32>
    %exact_weight = tensor.collapse_shape %exact_ready [[0], [1, 2, 3], [4]]
        : tensor<?x?x16x16x8xf32> into tensor<?x?x8xf32>
    %groups_init = tensor.empty(%groups, %n_tile) : tensor<?x6x?x8xf32>
    %groups_zero = linalg.fill ins(%zero : f32)
        outs(%groups_init : tensor<?x6x?x8xf32>) -> tensor<?x6x?x8xf32>
    // The tile sizes are for tiles of 8; IREE's own choice takes twice as long.
    %groups_sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, v, i) -> (g, i, m)>,
        affine_map<(g, m, t, v, i) -> (t, i, v)>,
        affine_map<(g, m, t, v, i) -> (g, m, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%x_groups, %exact_weight : tensor<?x?x6xf32>, tensor<?x?x8xf32>)
      outs(%groups_zero : tensor<?x6x?x8xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [8, 6, 8, 0, 0], cache_parallel = [8, 6, 8, 0, 0],
          vector_common_parallel = [1, 6, 2, 8, 0],
          vector_reduction = [0, 0, 0, 0, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%value: f32, %w: f32, %partial: f32):
      %product = arith.mulf %value, %w : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x6x?x8xf32>
    %groups_rows = tensor.collapse_shape %groups_sum [[0, 1], [2, 3]]
        : tensor<?x6x?x8xf32> into tensor<?x?xf32>
    %y_whole = tensor.expand_shape %groups_rows [[0, 1], [2]]
        output_shape [%batch, %whole, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>

    // Step 2: the positions that are left, or the one of decode, row by row: for one
    // row that takes as long as reading the weight.
    %rest = arith.subi %seq, %whole : index
    %x_rest = tensor.extract_slice %x_ready[0, %whole, 0] [%batch, %rest, %n_in]
        [1, 1, 1] : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %x_rows = tensor.collapse_shape %x_rest [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %rows = arith.muli %batch, %rest : index
    %x_rest_blocks = tensor.expand_shape %x_rows [[0], [1, 2]]
        output_shape [%rows, %n_block, 16]
        : tensor<?x?xf32> into tensor<?x?x16xf32>
    %words = tensor.collapse_shape %weight [[0], [1, 2], [3]]
        : tensor<?x?x16x16xi32> into tensor<?x?x16xi32>
    %highs = tensor.collapse_shape %weight_high [[0], [1, 2], [3]]
        : tensor<?x?x16x16xi16> into tensor<?x?x16xi16>
    // Sums of blocks, then their sum: one loop over both takes 4 times as long. IREE's
    // own choice of tiles takes 3.3 times as long.
    %parts_init = tensor.empty(%rows, %n_tile, %n_block) : tensor<?x?x?x8xf32>
    %parts_zero = linalg.fill ins(%zero : f32)
        outs(%parts_init : tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32>
    %parts = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, k, v, j) -> (r, k, j)>,
        affine_map<(r, t, k, v, j) -> (t, k, j)>,
        affine_map<(r, t, k, v, j) -> (t, k, j)>,
        affine_map<(r, t, k, v, j) -> (r, t, k, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%x_rest_blocks, %words, %highs
        : tensor<?x?x16xf32>, tensor<?x?x16xi32>, tensor<?x?x16xi16>)
      outs(%parts_zero : tensor<?x?x?x8xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [0, 8, 0, 0, 0], vector_common_parallel = [1, 1, 4, 8, 0],
          vector_reduction = [0, 0, 0, 0, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%value: f32, %word: i32, %high: i16, %partial: f32):
      %in_tile = linalg.index 3 : index
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %low = arith.andi %lowered, %mask : i32
      %high_wide = arith.extui %high : i16 to i32
      %high_place = arith.muli %in_tile_i32, %high_bits : i32
      %high_lowered = arith.shrui %high_wide, %high_place : i32
      %above = arith.andi %high_lowered, %high_mask : i32
      %raised_above = arith.shli %above, %bits : i32
      %code = arith.ori %low, %raised_above : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %product = arith.mulf %value, %wide : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x8xf32>
    %super_parts = tensor.expand_shape %parts [[0], [1], [2, 3], [4]]
        output_shape [%rows, %n_tile, %n_super, 16, 8]
        : tensor<?x?x?x8xf32> into tensor<?x?x?x16x8xf32>
    %rest_init = tensor.empty(%rows, %n_tile) : tensor<?x?x8xf32>
    %rest_zero = linalg.fill ins(%zero : f32) outs(%rest_init : tensor<?x?x8xf32>)
        -> tensor<?x?x8xf32>
    %rest_sum = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, v, s, k) -> (r, t, s, k, v)>,
        affine_map<(r, t, v, s, k) -> (t, s, k, v)>,
        affine_map<(r, t, v, s, k) -> (t, s, v)>,
        affine_map<(r, t, v, s, k) -> (r, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
    } ins(%super_parts, %weight_scale, %weight_super_scale
        : tensor<?x?x?x16x8xf32>, tensor<?x?x16x8xi8>, tensor<?x?x8xf16>)
      outs(%rest_zero : tensor<?x?x8xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [0, 64, 0, 0, 0], vector_common_parallel = [1, 1, 8, 0, 0],
          vector_reduction = [0, 0, 0, 1, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%part: f32, %part_scale: i8, %super_scale: f16, %partial: f32):
      %part_scale_wide = arith.sitofp %part_scale : i8 to f32
      %super_scale_wide = arith.extf %super_scale : f16 to f32
      %factor_wide = arith.mulf %part_scale_wide, %super_scale_wide : f32
      %scaled = arith.mulf %part, %factor_wide : f32
      %next = arith.addf %partial, %scaled : f32
      linalg.yield %next : f32
    } -> tensor<?x?x8xf32>
    %rest_rows = tensor.collapse_shape %rest_sum [[0], [1, 2]]
        : tensor<?x?x8xf32> into tensor<?x?xf32>
    %y_rest = tensor.expand_shape %rest_rows [[0, 1], [2]]
        output_shape [%batch, %rest, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>

    // Step 3: both behind each other, [batch, seq, 8*n_tile].
    %y_init = tensor.empty(%batch, %seq, %n_out) : tensor<?x?x?xf32>
    %y_begun = tensor.insert_slice %y_whole
        into %y_init[0, 0, 0] [%batch, %whole, %n_out] [1, 1, 1]
        : tensor<?x?x?xf32> into tensor<?x?x?xf32>
    %y = tensor.insert_slice %y_rest
        into %y_begun[0, %whole, 0] [%batch, %rest, %n_out] [1, 1, 1]
        : tensor<?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
