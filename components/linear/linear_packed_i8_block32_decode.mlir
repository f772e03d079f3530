// linear_packed_i8_block32_decode: linear_packed_i8_block32 of one row a sequence.
//
//   y[b, 0, t*tile_n + v] =
//       sum_k(sum_j(x[b, 0, 32*k + j] * weight[t, k, j, v] * weight_scale[t, k, v]))
//
// Output n is in row n % tile_n of tile n / tile_n, and decode reads the weight from
// first to last. One loop over blocks and their inputs: sums of blocks would be written
// and read again, an eighth of the weight's bytes. For llvm-cpu only.
//
// Source:  ggml's type q8_0 (blocks of 32, a f16 scale each).
// Exports: @linear_packed_i8_block32_decode.forward
// Imports: none
// Dims:    batch (dynamic), n_tile, n_block, tile_n (fixed by specialize)
// Types:   f32 in, i8 weight, f16 scale, f32 out, f32 accumulation
// Oracle:  oracles/packed.py linear_packed_i8_block32
// Try:     iree-opt components/linear/linear_packed_i8_block32_decode.mlir
module @linear_packed_i8_block32_decode {
  util.func public @forward(
      %x: tensor<?x1x?xf32>,            // [batch, 1, 32*n_block]
      %weight: tensor<?x?x32x?xi8>,     // [n_tile, n_block, 32, tile_n]
      %weight_scale: tensor<?x?x?xf16>  // [n_tile, n_block, tile_n]
  ) -> tensor<?x1x?xf32> {              // [batch, 1, n_tile*tile_n]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x1x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x32x?xi8>
    %n_block = tensor.dim %weight, %c1 : tensor<?x?x32x?xi8>
    %tile_n = tensor.dim %weight, %c3 : tensor<?x?x32x?xi8>
    %n_in = tensor.dim %x, %c2 : tensor<?x1x?xf32>
    %n_out = arith.muli %n_tile, %tile_n : index
    // What makes x stays out of this kernel: each tile would compute it again.
    %x_ready = iree_tensor_ext.compute_barrier.start %x
        : tensor<?x1x?xf32>{%batch, %n_in} -> tensor<?x1x?xf32>
    %x_rows = tensor.collapse_shape %x_ready [[0, 1], [2]]
        : tensor<?x1x?xf32> into tensor<?x?xf32>
    %x_blocks = tensor.expand_shape %x_rows [[0], [1, 2]]
        output_shape [%batch, %n_block, 32]
        : tensor<?x?xf32> into tensor<?x?x32xf32>
    %sum_init = tensor.empty(%batch, %n_tile, %tile_n) : tensor<?x?x?xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    // 8 tiles at a time, one input after the other: their scales stay in registers for a
    // block. A larger step over inputs would make the compiler transpose.
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, t, v, k, j) -> (b, k, j)>,
        affine_map<(b, t, v, k, j) -> (t, k, j, v)>,
        affine_map<(b, t, v, k, j) -> (t, k, v)>,
        affine_map<(b, t, v, k, j) -> (b, t, v)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
    } ins(%x_blocks, %weight, %weight_scale
        : tensor<?x?x32xf32>, tensor<?x?x32x?xi8>, tensor<?x?x?xf16>)
      outs(%sum_zero : tensor<?x?x?xf32>) attrs = {
      compilation_info = #iree_codegen.compilation_info<
        lowering_config = #iree_cpu.lowering_config<
          distribution = [0, 16, 0, 0, 0], vector_common_parallel = [1, 8, 16, 0, 0],
          vector_reduction = [0, 0, 0, 1, 1]>,
        translation_info = #iree_codegen.translation_info<
          pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>>
    } {
    ^bb0(%value: f32, %w: i8, %factor: f16, %partial: f32):
      %wide = arith.sitofp %w : i8 to f32
      %product = arith.mulf %value, %wide : f32
      // Times the scale second: as one factor of the product, IREE 3.13 would take the
      // sum for a contraction and make it row by row.
      %factor_wide = arith.extf %factor : f16 to f32
      %scaled = arith.mulf %product, %factor_wide : f32
      %next = arith.addf %partial, %scaled : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    %y_rows = tensor.collapse_shape %sum [[0], [1, 2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %y = tensor.expand_shape %y_rows [[0, 1], [2]] output_shape [%batch, 1, %n_out]
        : tensor<?x?xf32> into tensor<?x1x?xf32>
    util.return %y : tensor<?x1x?xf32>
  }
}
