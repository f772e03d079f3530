// linear_packed_u32_f16: a linear map, float16 weight, in words.
//
//   y[b, s, 8*t + 2*w + h] = sum_i(x[b, s, i] * half(weight[t, i, w], h))
//
// half(a, h) is the float16 number in bits 16*h and up of a word.
// A word, because a device need not have narrower types in memory.
//
// Source:  IEEE 754-2019, section 3.6 (binary16).
// Exports: @linear_packed_u32_f16.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_tile, n_in (fixed by specialize)
// Types:   f32 in, i32 words of 2 float16, f32 out, f32 accumulation
// Oracle:  oracles/packed_u32.py linear_packed_u32_f16
// Try:     iree-opt components/linear/linear_packed_u32_f16.mlir
module @linear_packed_u32_f16 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,      // [batch, seq, n_in]
      %weight: tensor<?x?x4xi32>  // [n_tile, n_in, 4]
  ) -> tensor<?x?x?xf32> {        // [batch, seq, 8*n_tile]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %thirteen = arith.constant 13 : i32
    %sixteen = arith.constant 16 : i32
    %sign_mask = arith.constant 0x8000 : i32
    %rest_mask = arith.constant 0x7FFF : i32
    %least_normal = arith.constant 0x0400 : i32
    %rebias = arith.constant 0x38000000 : i32
    %step = arith.constant 5.9604644775390625e-08 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_tile = tensor.dim %weight, %c0 : tensor<?x?x4xi32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x4xi32>
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

    // Step 2: the products, [groups, 4, n_tile, 4, 2].
    %sum_init = tensor.empty(%groups, %n_tile) : tensor<?x4x?x4x2xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x4x?x4x2xf32>)
        -> tensor<?x4x?x4x2xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(g, m, t, w, h, i) -> (g, i, m)>,
        affine_map<(g, m, t, w, h, i) -> (t, i, w)>,
        affine_map<(g, m, t, w, h, i) -> (g, m, t, w, h)>
      ],
      iterator_types = [
        "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"
      ]
    } ins(%x_groups, %weight : tensor<?x?x4xf32>, tensor<?x?x4xi32>)
      outs(%sum_zero : tensor<?x4x?x4x2xf32>) {
    ^bb0(%value: f32, %word: i32, %partial: f32):
      %place = linalg.index 4 : index
      %place_i32 = arith.index_cast %place : index to i32
      %low = arith.muli %place_i32, %sixteen : i32
      %bits = arith.shrui %word, %low : i32
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
      %w = arith.bitcast %signed : i32 to f32
      %product = arith.mulf %value, %w : f32
      %next = arith.addf %partial, %product : f32
      linalg.yield %next : f32
    } -> tensor<?x4x?x4x2xf32>
    %sum_rows = tensor.collapse_shape %sum [[0, 1], [2, 3, 4]]
        : tensor<?x4x?x4x2xf32> into tensor<?x?xf32>
    %y_rows = tensor.extract_slice %sum_rows[0, 0] [%rows, %n_out] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    %y = tensor.expand_shape %y_rows [[0, 1], [2]] output_shape [%batch, %seq, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
