// vulkan.kernels: how reductions are tiled for Vulkan, whatever the subgroup size of the device.
//
// Left to itself, IREE 3.13 compiles a reduction with a dynamic dim in one of two ways. Both
// are right only on a device with the subgroup size of the compiler target: a subgroup-wide
// sum adds up as many lanes as the device has, and without subgroup operations a sum and
// what is fused behind it meet in shared memory with no barrier between them. Neither says
// so; the numbers are wrong.
//
// So every reduction gets a configuration of the pipeline BaseVectorize, where each
// invocation owns a tile of the result, from its first product to what is fused behind it:
// no shared memory, no barrier, no subgroup. A test looks for them in the compiled code.
//
// An invocation owns one row: tiles of 4 rows by 4 columns do the products on llvmpipe in
// half the time, but a dynamic number of rows gives them a second, scalar path, and its
// driver takes 4 s to compile that, for every product, whenever a program starts. CPU
// time for [128, 384] by [1536, 384] there: 1.3 s so, 0.65 s in tiles of 4 by 4, and 4.0 s
// as IREE configures it.
//
// Of products with weights in tiles, an invocation owns 4 rows by the 8 columns of a tile:
// a word is unpacked for 4 rows, and f32 takes 0.29 of the time of one row an invocation
// (64 rows; the same at one row). Their sizes are no dynamic dims, so there is no scalar
// path. Loops that a tile's size leaves out, of the numbers in a word,
// are whole in an invocation; given sizes of their own they took twice as long.
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

  // One sum a row: a row an invocation.
  transform.named_sequence @reduction_2d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 2 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[32], [1], [0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // A matrix product, [rows, columns, depth]: 4 columns of a row an invocation.
  transform.named_sequence @reduction_3d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[8, 64], [1, 4], [0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [16, 8, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // One sum a row, three outer dims.
  transform.named_sequence @reduction_4d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 1, 32], [1, 1, 1], [0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // A matrix product for every pair of outer dims, such as batch and head.
  transform.named_sequence @reduction_5d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 1, 8, 32], [1, 1, 1, 4], [0, 0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [8, 8, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // A matrix product for every three outer dims.
  transform.named_sequence @reduction_6d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 6 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 1, 1, 8, 32], [1, 1, 1, 1, 4], [0, 0, 0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [8, 8, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // A matrix product for every four outer dims.
  transform.named_sequence @reduction_7d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 7 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 1, 1, 1, 8, 32], [1, 1, 1, 1, 1, 4], [0, 0, 0, 0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [8, 8, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // A product with words of several numbers: 4 rows by the 8 columns of a tile an
  // invocation.
  transform.named_sequence @words_6d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 6 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %words = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %words = tensor<?x?x?xi32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 4, 32], [1, 4, 1], [0, 0, 0, 0, 0, 1]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // The same where a word has all 8.
  transform.named_sequence @words_5d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %words = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %words = tensor<?x?xi32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 4, 32], [1, 4, 1], [0, 0, 0, 0, 1]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // The same where the 8 numbers of a tile are no words, 4 steps at once.
  transform.named_sequence @tiles_5d(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %tiles = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %tiles = tensor<?x?x8xf32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[1, 4, 32], [1, 4, 1], [0, 0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }

  // The three again where all rows are one group, whose dim is no more: as IREE configures
  // them, bf16 takes 17 times as long.
  transform.named_sequence @words_5d_one(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %words = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %words = tensor<?x?x?xi32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[4, 32], [4, 1], [0, 0, 0, 0, 1]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }


  transform.named_sequence @words_4d_one(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %words = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %words = tensor<?x?xi32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[4, 32], [4, 1], [0, 0, 0, 1]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }


  transform.named_sequence @tiles_4d_one(
      %op: !transform.any_op {transform.readonly}
  ) -> (!transform.any_op, !transform.any_param) {
    transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
    %reduction = transform.match.structured failures(propagate) %op
        : (!transform.any_op) -> !transform.any_op {
    ^bb0(%generic: !transform.any_op):
      %rank = transform.match.structured.rank %generic
          : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      %group = transform.match.structured.dim %generic[0]
          : (!transform.any_op) -> !transform.param<i64>
      %rows = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %group, %rows : !transform.param<i64>
      "transform.match.structured.dim"(%generic)
          <{raw_dim_list = array<i64: -1>, reduction}> : (!transform.any_op) -> ()
      transform.match.structured.yield %generic : !transform.any_op
    }
    %tiles = transform.get_operand %reduction[1]
        : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %tiles = tensor<?x?x8xf32>
        : !transform.any_value
    %configuration = transform.param.constant #iree_codegen.compilation_info<
      lowering_config = #iree_codegen.lowering_config<
        tile_sizes = [[4, 32], [4, 1], [0, 0, 0, 4]]>,
      translation_info = #iree_codegen.translation_info<
        pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [32, 1, 1]>
    > -> !transform.any_param
    transform.yield %reduction, %configuration : !transform.any_op, !transform.any_param
  }


  transform.named_sequence @__kernel_config(
      %function: !transform.any_op {transform.consumed}
  ) {
    // Values that were never written are replaced in a region of attention_causal. Its
    // two operations become one here: an invocation would keep a column of all positions.
    %mixes, %configurations = transform.collect_matching @reduction_7d in %function
        : (!transform.any_op) -> (!transform.any_op, !transform.any_param)
    %mixing = "transform.get_parent_op"(%mixes)
        <{nth_parent = 1 : i64, op_name = "func.func", deduplicate}>
        : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %mixing {
      transform.apply_patterns.iree.linalg_elementwise_greedy_fusion
    } : !transform.any_op
    transform.foreach_match in %function
        @words_6d -> @configure,
        @words_5d -> @configure,
        @tiles_5d -> @configure,
        @words_5d_one -> @configure,
        @words_4d_one -> @configure,
        @tiles_4d_one -> @configure,
        @reduction_2d -> @configure,
        @reduction_3d -> @configure,
        @reduction_4d -> @configure,
        @reduction_5d -> @configure,
        @reduction_6d -> @configure,
        @reduction_7d -> @configure
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
