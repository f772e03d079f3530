// linear_packed: a linear map whose weight is stored in tiles of its outputs.
//
//   y[b, s, t*tile_n + v] = sum_i(x[b, s, i] * weight[t, i, v])
//
// Output n is in row n % tile_n of tile n / tile_n: of a tile, a vector register
// holds one input's weights, and decode reads them from first to last. For llvm-cpu
// only.
//
// Source:  Goto & van de Geijn 2008, doi:10.1145/1356052.1356053 (packed panels);
//          Kalamkar et al. 2019, arXiv:1905.12322 (bfloat16, f32 sums).
// Exports: @linear_packed.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_in, tile_n (fixed by specialize)
// Types:   f32 in, weight in {f32, bf16, f16}, f32 out, f32 accumulation
// Oracle:  oracles/packed.py linear_packed
// Try:     iree-opt components/linear/linear_packed.mlir
!weight = bf16
module @linear_packed {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,          // [batch, seq, n_in]
      %weight: tensor<?x?x?x!weight>  // [n_tile, n_in, tile_n]
  ) -> tensor<?x?x?xf32> {            // [batch, seq, n_tile*tile_n]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c6 = arith.constant 6 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x?x!weight>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x?x!weight>
    %tile_n = tensor.dim %weight, %c2 : tensor<?x?x?x!weight>
    %n_out = arith.muli %n_tile, %tile_n : index
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
    %groups_init = tensor.empty(%groups, %n_tile, %tile_n) : tensor<?x6x?x?xf32>
    %groups_zero = linalg.fill ins(%zero : f32)
        outs(%groups_init : tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32>
    // The tile sizes are for tiles of 8 and 16; IREE's own choice takes twice as long.
    %groups_sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, v, i) -> (g, i, m)>,
        affine_map<(g, m, t, v, i) -> (t, i, v)>,
        affine_map<(g, m, t, v, i) -> (g, m, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%x_groups, %weight : tensor<?x?x6xf32>, tensor<?x?x?x!weight>)
      outs(%groups_zero : tensor<?x6x?x?xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [8, 6, 8, 0, 0], cache_parallel = [8, 6, 8, 0, 0],
          vector_common_parallel = [1, 6, 2, 8, 0],
          vector_reduction = [0, 0, 0, 0, 4]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%value: f32, %w: !weight, %partial: f32):
      %wide = arith.extf %w : !weight to f32
      %product = arith.mulf %value, %wide : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x6x?x?xf32>
    %groups_rows = tensor.collapse_shape %groups_sum [[0, 1], [2, 3]]
        : tensor<?x6x?x?xf32> into tensor<?x?xf32>
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
    %rest_init = tensor.empty(%rows, %n_tile, %tile_n) : tensor<?x?x?xf32>
    %rest_zero = linalg.fill ins(%zero : f32) outs(%rest_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %rest_sum = linalg.generic {
      indexing_maps = [
        affine_map<(r, t, v, i) -> (r, i)>,
        affine_map<(r, t, v, i) -> (t, i, v)>,
        affine_map<(r, t, v, i) -> (r, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%x_rows, %weight : tensor<?x?xf32>, tensor<?x?x?x!weight>)
      outs(%rest_zero : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %w: !weight, %partial: f32):
      %wide = arith.extf %w : !weight to f32
      %product = arith.mulf %value, %wide : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    %rest_rows = tensor.collapse_shape %rest_sum [[0], [1, 2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %y_rest = tensor.expand_shape %rest_rows [[0, 1], [2]]
        output_shape [%batch, %rest, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>

    // Step 3: both behind each other, [batch, seq, n_tile*tile_n].
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
