// llvm-cpu.kernels: how attention over a cache is tiled on CPUs, on aarch64 the products of
// chosen experts, and with AVX-512 the products of a prompt with weights.
//
// One new token: its products read all keys and values of a layer once, so the order of
// reading is what counts. Left to itself, IREE 3.13 takes one head of 64 positions, and of
// those 8 columns at a time: of a row of 4 KiB it reads 32 bytes, then the next row. Here
// all that a kernel wants of a few rows is read before the next rows. Only products with
// these indexing maps and at most 16 rows of queries to a head of keys are changed:
// attention_causal with seq = 1, and attention_paged_decode.
// Processor time of both products, 2048 positions, one thread of an AMD EPYC, µs:
//
//   n_head, n_head_kv, head_dim    as IREE tiles them    so
//   4, 1, 256                                    398    207
//   9, 3, 64                                     291    156
//   16, 8, 128                                  3944    886
//
// A prompt: the sums over positions are made in registers, 4 rows by 16 columns, and a row
// of values is read as it lies; IREE transposes 8 by 8 of them for each 8 rows. Wherever
// half a head is whole tiles. Time of both products of 512 positions, one thread of a Xeon, ms:
//
//   n_head, n_head_kv, head_dim    as IREE tiles them    so
//   4, 1, 256                                   34.1   17.9
//   9, 3, 64                                    32.7   11.7
//   16, 8, 128                                  72.5   64.8
//
// The products of chosen experts, on aarch64 (mul_mat_id_*packed*): IREE takes 5, 6, 7 or 8
// tiles of columns at a time. Where n_tile is a multiple of none of them it takes 8 and
// then the rest, and of the rest it makes a vector whose length it does not know: NEON has
// no masks, IREE 3.13 turns iree_linalg_ext.gather into a vector all the same, and the
// columns of the rest are never written. So no tile count has a rest here: multiples of 8
// stay as IREE has them, all others are taken 4 at a time or one by one. x86-64 has masks
// and needs none of this; targets/aarch64.yaml alone names @aarch64_kernel_config.
//
// A prompt's products with weights (linear_packed*), on x86_64-v4: its layout has 16 rows
// in a group, one vector, and the tiles that the components name are for 8. Sums of 6
// positions with 4 groups take 24 of the 32 registers. Time of 512 rows by 640 x 2048
// weights in f32, one thread of an EPYC whose 512-bit units do as much as its 256-bit ones
// (116 GFLOP/s), under load, ms:
//
//   groups of 8, as the component says    16.5
//   groups of 16, 6 positions by 2        13.7
//   groups of 16, 6 positions by 4        13.1
//
// Source: samples/transform_dialect of IREE, for the form.
module attributes { transform.with_named_sequence } {
  transform.named_sequence @configure(
      %op: !transform.any_op {transform.readonly},
      %configuration: !transform.any_param {transform.readonly}
  ) {
    transform.annotate %op "compilation_info" = %configuration
        : !transform.any_op, !transform.any_param
    transform.yield
  }

  // Queries and keys: [half, batch, head, query, position, column].
  transform.named_sequence @scores(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, h, g, j, d) -> (b, h, g, n, d)>,
        affine_map<(n, b, h, g, j, d) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, j, d) -> (n, b, h, g, j)>
      ] : !transform.any_op -> !transform.param<i64>
    %queries = transform.get_operand %op[0]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %queries[2], umin = 1, umax = 16
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [0, 1, 0, 0, 64, 0], cache_parallel = [0, 0, 0, 0, 8, 0],
        vector_common_parallel = [1, 1, 1, 8, 8, 0],
        vector_reduction = [0, 0, 0, 0, 0, 8]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // The same where keys have one head.
  transform.named_sequence @scores_of_one_head(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, g, j, d) -> (b, g, n, d)>,
        affine_map<(n, b, g, j, d) -> (b, j, n, d)>,
        affine_map<(n, b, g, j, d) -> (n, b, g, j)>
      ] : !transform.any_op -> !transform.param<i64>
    %queries = transform.get_operand %op[0]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %queries[1], umin = 1, umax = 16
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [0, 1, 0, 64, 0], vector_common_parallel = [1, 1, 8, 8, 0],
        vector_reduction = [0, 0, 0, 0, 8]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // Weights and values: [half, batch, head, query, row, column, position]. One row; a
  // region keeps loops over a single one, so that these have as many as those of a prompt.
  transform.named_sequence @mix(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, h, g, s, d, j) -> (b, h, g, s, j)>,
        affine_map<(n, b, h, g, s, d, j) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, d, j) -> (n, b, h, g, s, d)>
      ] : !transform.any_op -> !transform.param<i64>
    %weights = transform.get_operand %op[0]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %weights[2], umin = 1, umax = 16
        : !transform.any_value
    transform.iree.match.dim_bounds %weights[3], umin = 1, umax = 1
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 1, 0, 0, 0, 0], cache_reduction = [0, 0, 0, 0, 0, 0, 32],
        vector_common_parallel = [1, 1, 1, 8, 1, 32, 0],
        vector_reduction = [0, 0, 0, 0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // The same where values have one head.
  transform.named_sequence @mix_of_one_head(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, h, g, s, d, j) -> (b, h, g, s, j)>,
        affine_map<(n, b, h, g, s, d, j) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, d, j) -> (n, b, h, g, s, d)>
      ] : !transform.any_op -> !transform.param<i64>
    %weights = transform.get_operand %op[0]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %weights[1], umin = 1, umax = 1
        : !transform.any_value
    transform.iree.match.dim_bounds %weights[2], umin = 1, umax = 16
        : !transform.any_value
    transform.iree.match.dim_bounds %weights[3], umin = 1, umax = 1
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 1, 0, 0, 32, 0], cache_reduction = [0, 0, 0, 0, 0, 0, 32],
        vector_common_parallel = [1, 1, 1, 8, 1, 16, 0],
        vector_reduction = [0, 0, 0, 0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // A prompt's queries and keys: [half, batch, head, query, row, position, column].
  transform.named_sequence @prompt_scores(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, h, g, s, j, d) -> (b, s, h, g, n, d)>,
        affine_map<(n, b, h, g, s, j, d) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, j, d) -> (n, b, h, g, s, j)>
      ] : !transform.any_op -> !transform.param<i64>
    %keys = transform.get_operand %op[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %keys[4], 8
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 1, 1, 64, 64, 0],
        vector_common_parallel = [1, 1, 1, 1, 8, 8, 0],
        vector_reduction = [0, 0, 0, 0, 0, 0, 8]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // The same where keys have one head.
  transform.named_sequence @prompt_scores_of_one_head(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, g, s, j, d) -> (b, s, g, n, d)>,
        affine_map<(n, b, g, s, j, d) -> (b, j, n, d)>,
        affine_map<(n, b, g, s, j, d) -> (n, b, g, s, j)>
      ] : !transform.any_op -> !transform.param<i64>
    %keys = transform.get_operand %op[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %keys[3], 8
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 1, 64, 64, 0], vector_common_parallel = [1, 1, 1, 8, 8, 0],
        vector_reduction = [0, 0, 0, 0, 0, 8]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // A prompt's weights and values: [half, batch, head, query, row, column, position].
  transform.named_sequence @prompt_mix(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(n, b, h, g, s, d, j) -> (b, h, g, s, j)>,
        affine_map<(n, b, h, g, s, d, j) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, d, j) -> (n, b, h, g, s, d)>
      ] : !transform.any_op -> !transform.param<i64>
    %values = transform.get_operand %op[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %values[4], 16
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 1, 1, 64, 128, 0],
        vector_common_parallel = [1, 1, 1, 1, 4, 16, 0],
        vector_reduction = [0, 0, 0, 0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // Keys in blocks and queries: [batch, head, position, query, column]. A row of keys is
  // looked up where its products are made: one position at a time, or it is no row.
  // These loops stay five where keys have one head, or a head has one query. Without
  // that loop the maps would be those of every product of two matrices, linear/matmul.
  transform.named_sequence @paged_scores(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(b, h, j, g, d) -> (b, j, h, d)>,
        affine_map<(b, h, j, g, d) -> (b, h, d, g)>,
        affine_map<(b, h, j, g, d) -> (b, h, j, g)>
      ] : !transform.any_op -> !transform.param<i64>
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 0, 64, 0, 0], cache_parallel = [1, 0, 1, 0, 0],
        vector_common_parallel = [1, 1, 1, 8, 0], vector_reduction = [0, 0, 0, 0, 64]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // Weights and values in blocks: [batch, head, query, column, position].
  transform.named_sequence @paged_mix(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %batch, %rows, %columns, %depth = transform.iree.match.contraction %op,
      lhs_type = f32, rhs_type = f32, output_type = f32, indexing_maps = [
        affine_map<(b, h, g, d, j) -> (b, h, g, j)>,
        affine_map<(b, h, g, d, j) -> (b, j, h, d)>,
        affine_map<(b, h, g, d, j) -> (b, h, g, d)>
      ] : !transform.any_op -> !transform.param<i64>
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [1, 1, 0, 0, 0], cache_reduction = [0, 0, 0, 0, 32],
        vector_common_parallel = [1, 1, 8, 32, 0], vector_reduction = [0, 0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // The product whose matrices are looked up: [row, tile, lane, column].
  transform.named_sequence @gathered_product(
      %op: !transform.any_op {transform.readonly}
  ) -> !transform.any_value {
    %gather = transform.get_producer_of_operand %op[1]
        : (!transform.any_op) -> !transform.any_op
    transform.match.operation_name %gather ["iree_linalg_ext.gather"]
        : !transform.any_op
    %tiles = transform.get_operand %op[1]
        : (!transform.any_op) -> !transform.any_value
    transform.yield %tiles : !transform.any_value
  }

  transform.named_sequence @product_of_8_tiles(
      %op: !transform.any_op {transform.readonly}
  ) -> !transform.any_op {
    %tiles = transform.include @gathered_product failures(propagate) (%op)
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %tiles[1], 8 : !transform.any_value
    transform.yield %op : !transform.any_op
  }

  transform.named_sequence @leave(%op: !transform.any_op {transform.readonly}) {
    transform.yield
  }

  transform.named_sequence @product_of_4_tiles(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %tiles = transform.include @gathered_product failures(propagate) (%op)
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %tiles[1], 4 : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [64, 4, 0, 0], vector_common_parallel = [1, 4, 0, 0],
        vector_reduction = [0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  transform.named_sequence @product_of_any_tiles(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    %tiles = transform.include @gathered_product failures(propagate) (%op)
        : (!transform.any_op) -> !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [64, 8, 0, 0], vector_common_parallel = [1, 1, 0, 0],
        vector_reduction = [0, 0, 0, 1]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  // Groups of 6 positions and of 16 rows: [group, position, tile, row, column].
  transform.named_sequence @product_of_16_rows(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %positions = transform.get_operand %op[0]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %positions[2], umin = 6, umax = 6
        : !transform.any_value
    %weight = transform.get_operand %op[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %weight[2], umin = 16, umax = 16
        : !transform.any_value
    %sums = transform.get_operand %op[2]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_bounds %sums[1], umin = 6, umax = 6
        : !transform.any_value
    transform.iree.match.dim_bounds %sums[3], umin = 16, umax = 16
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_cpu.lowering_config<
        distribution = [8, 6, 8, 0, 0], cache_parallel = [8, 6, 8, 0, 0],
        vector_common_parallel = [1, 6, 4, 16, 0], vector_reduction = [0, 0, 0, 0, 4]>,
      translation_info = <
        pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>
    > -> !transform.any_param
    transform.yield %op, %configuration : !transform.any_op, !transform.any_param
  }

  transform.named_sequence @attention(
      %function: !transform.any_op {transform.consumed}
  ) -> !transform.any_op {
    %rest = transform.foreach_match in %function
        @scores -> @configure,
        @scores_of_one_head -> @configure,
        @prompt_scores -> @configure,
        @prompt_scores_of_one_head -> @configure,
        @mix_of_one_head -> @configure,
        @mix -> @configure,
        @prompt_mix -> @configure,
        @paged_scores -> @configure,
        @paged_mix -> @configure
        : (!transform.any_op) -> !transform.any_op
    transform.yield %rest : !transform.any_op
  }

  transform.named_sequence @__kernel_config(
      %function: !transform.any_op {transform.consumed}
  ) {
    %rest = transform.include @attention failures(propagate) (%function)
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }

  transform.named_sequence @avx512_kernel_config(
      %function: !transform.any_op {transform.consumed}
  ) {
    %rest = transform.include @attention failures(propagate) (%function)
        : (!transform.any_op) -> !transform.any_op
    transform.foreach_match in %rest
        @product_of_16_rows -> @configure
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }

  transform.named_sequence @aarch64_kernel_config(
      %function: !transform.any_op {transform.consumed}
  ) {
    %rest = transform.include @attention failures(propagate) (%function)
        : (!transform.any_op) -> !transform.any_op
    transform.foreach_match in %rest
        @product_of_8_tiles -> @leave,
        @product_of_4_tiles -> @configure,
        @product_of_any_tiles -> @configure
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
