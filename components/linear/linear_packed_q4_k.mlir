// linear_packed_q4_k: linear_packed with 4-bit codes, nested blocks.
//
//   y[b, s, 8*t + v] = sum_k(sum_j(x[b, s, 32*k + j] * w[t, k, j, v]))
//   w[t, k, j, v] = code[t, k, j, v] * scale[t, k, v] - min[t, k, v]
//   code[t, k, j, v] = (weight[t, k, j] >> 4*v) % 16
//   scale[t, k, v] = weight_scale[t, k, v]
//       * weight_super_scale[t, k / 8, v], and so min
//
// Output n is in row n % 8 of tile n / 8: the 8 weights that an input has in a tile are
// one word, from its lowest bits up. For llvm-cpu only.
//
// Source:  ggml's type q4_K (8 blocks of 32, whose scales and minima are 6-bit numbers
//          times a f16 scale and a f16 minimum).
// Exports: @linear_packed_q4_k.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_super (fixed by specialize)
// Types:   f32 in, i32 words of 8 codes, i8 and f16 scales and minima, f32 out
// Oracle:  oracles/packed.py linear_packed_q4_k
// Try:     iree-opt components/linear/linear_packed_q4_k.mlir
module @linear_packed_q4_k {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,                   // [batch, seq, 256*n_super]
      %weight: tensor<?x?x8x32xi32>,           // [n_tile, n_super, 8, 32]
      %weight_scale: tensor<?x?x8x8xi8>,       // [n_tile, n_super, 8, 8]
      %weight_min: tensor<?x?x8x8xi8>,         // [n_tile, n_super, 8, 8]
      %weight_super_scale: tensor<?x?x8xf16>,  // [n_tile, n_super, 8]
      %weight_super_min: tensor<?x?x8xf16>     // [n_tile, n_super, 8]
  ) -> tensor<?x?x?xf32> {                     // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %bits = arith.constant 4 : i32
    %mask = arith.constant 15 : i32
    %middle = arith.constant 8 : i32
    %middle_f32 = arith.constant 8.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x8x32xi32>
    %n_super = tensor.dim %weight, %c1 : tensor<?x?x8x32xi32>
    %n_block = arith.muli %n_super, %c8 : index
    %n_in = arith.muli %n_block, %c32 : index
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
    %exact_init = tensor.empty(%n_tile, %n_super) : tensor<?x?x8x32x8xf32>
    %exact = linalg.generic {
      indexing_maps = [
        affine_map<(t, s, k, j, v) -> (t, s, k, j)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, v)>,
        affine_map<(t, s, k, j, v) -> (t, s, k, j, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%weight, %weight_scale, %weight_min, %weight_super_scale, %weight_super_min
        : tensor<?x?x8x32xi32>, tensor<?x?x8x8xi8>,
          tensor<?x?x8x8xi8>, tensor<?x?x8xf16>, tensor<?x?x8xf16>)
      outs(%exact_init : tensor<?x?x8x32x8xf32>) {
    ^bb0(%word: i32, %part_scale: i8, %part_min: i8,
        %super_scale: f16, %super_min: f16, %unused: f32):
      %in_tile = linalg.index 4 : index
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %code = arith.andi %lowered, %mask : i32
      %wide = arith.sitofp %code : i32 to f32
      %part_scale_wide = arith.sitofp %part_scale : i8 to f32
      %super_scale_wide = arith.extf %super_scale : f16 to f32
      %factor_wide = arith.mulf %part_scale_wide, %super_scale_wide : f32
      %part_min_wide = arith.sitofp %part_min : i8 to f32
      %super_min_wide = arith.extf %super_min : f16 to f32
      %least_wide = arith.mulf %part_min_wide, %super_min_wide : f32
      %stretched = arith.mulf %wide, %factor_wide : f32
      %value = arith.subf %stretched, %least_wide : f32
      linalg.yield %value : f32
    } -> tensor<?x?x8x32x8xf32>
    %exact_ready = iree_tensor_ext.compute_barrier.start %exact
        : tensor<?x?x8x32x8xf32>{%n_tile, %n_super} -> tensor<?x?x8x32x8xf32>
    %exact_weight = tensor.collapse_shape %exact_ready [[0], [1, 2, 3], [4]]
        : tensor<?x?x8x32x8xf32> into tensor<?x?x8xf32>
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
        output_shape [%rows, %n_block, 32]
        : tensor<?x?xf32> into tensor<?x?x32xf32>
    // Sums of codes less 8, because what is around zero rounds less; the sum of a
    // block's inputs makes up for it.
    %x_sums_init = tensor.empty(%rows, %n_block) : tensor<?x?xf32>
    %x_sums_zero = linalg.fill ins(%zero : f32) outs(%x_sums_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %x_sums = linalg.reduce { arith.addf } ins(%x_rest_blocks : tensor<?x?x32xf32>)
        outs(%x_sums_zero : tensor<?x?xf32>) dimensions = [2]
    %words = tensor.collapse_shape %weight [[0], [1, 2], [3]]
        : tensor<?x?x8x32xi32> into tensor<?x?x32xi32>
    // Sums of blocks, then their sum: one loop over both takes 4 times as long. IREE's
    // own choice of tiles takes 3.3 times as long.
    %parts_init = tensor.empty(%rows, %n_tile, %n_block) : tensor<?x?x?x8xf32>
    %parts_zero = linalg.fill ins(%zero : f32)
        outs(%parts_init : tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32>
    %parts = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, k, v, j) -> (r, k, j)>,
        affine_map<(r, t, k, v, j) -> (t, k, j)>,
        affine_map<(r, t, k, v, j) -> (r, t, k, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%x_rest_blocks, %words : tensor<?x?x32xf32>, tensor<?x?x32xi32>)
      outs(%parts_zero : tensor<?x?x?x8xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [0, 8, 0, 0, 0], vector_common_parallel = [1, 1, 4, 8, 0],
          vector_reduction = [0, 0, 0, 0, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%value: f32, %word: i32, %partial: f32):
      %in_tile = linalg.index 3 : index
      %in_tile_i32 = arith.index_cast %in_tile : index to i32
      %place = arith.muli %in_tile_i32, %bits : i32
      %lowered = arith.shrui %word, %place : i32
      %code = arith.andi %lowered, %mask : i32
      %centred = arith.subi %code, %middle : i32
      %wide = arith.sitofp %centred : i32 to f32
      %product = arith.mulf %value, %wide : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x8xf32>
    %super_parts = tensor.expand_shape %parts [[0], [1], [2, 3], [4]]
        output_shape [%rows, %n_tile, %n_super, 8, 8]
        : tensor<?x?x?x8xf32> into tensor<?x?x?x8x8xf32>
    %super_sums = tensor.expand_shape %x_sums [[0], [1, 2]]
        output_shape [%rows, %n_super, 8]
        : tensor<?x?xf32> into tensor<?x?x8xf32>
    %rest_init = tensor.empty(%rows, %n_tile) : tensor<?x?x8xf32>
    %rest_zero = linalg.fill ins(%zero : f32) outs(%rest_init : tensor<?x?x8xf32>)
        -> tensor<?x?x8xf32>
    %rest_sum = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, v, s, k) -> (r, t, s, k, v)>,
        affine_map<(r, t, v, s, k) -> (r, s, k)>,
        affine_map<(r, t, v, s, k) -> (t, s, k, v)>,
        affine_map<(r, t, v, s, k) -> (t, s, k, v)>,
        affine_map<(r, t, v, s, k) -> (t, s, v)>,
        affine_map<(r, t, v, s, k) -> (t, s, v)>,
        affine_map<(r, t, v, s, k) -> (r, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
    } ins(%super_parts, %super_sums, %weight_scale,
        %weight_min, %weight_super_scale, %weight_super_min
        : tensor<?x?x?x8x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8x8xi8>,
          tensor<?x?x8x8xi8>, tensor<?x?x8xf16>, tensor<?x?x8xf16>)
      outs(%rest_zero : tensor<?x?x8xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [0, 64, 0, 0, 0], vector_common_parallel = [1, 1, 8, 0, 0],
          vector_reduction = [0, 0, 0, 1, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%part: f32, %x_sum: f32, %part_scale: i8, %part_min: i8,
        %super_scale: f16, %super_min: f16, %partial: f32):
      %part_scale_wide = arith.sitofp %part_scale : i8 to f32
      %super_scale_wide = arith.extf %super_scale : f16 to f32
      %factor_wide = arith.mulf %part_scale_wide, %super_scale_wide : f32
      %part_min_wide = arith.sitofp %part_min : i8 to f32
      %super_min_wide = arith.extf %super_min : f16 to f32
      %least_wide = arith.mulf %part_min_wide, %super_min_wide : f32
      %raised = arith.mulf %factor_wide, %middle_f32 : f32
      %centre = arith.subf %raised, %least_wide : f32
      %scaled = arith.mulf %part, %factor_wide : f32
      %shifted = arith.mulf %x_sum, %centre : f32
      %next_scaled = arith.addf %partial, %scaled : f32
      %next = arith.addf %next_scaled, %shifted : f32
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
