// interpolate_bilinear: an image in another size, each pixel mixed of four.
//
//   p = max((r + 1/2) * n_row / y_row - 1/2, 0),  i = floor(p),  t = p - i
//   q = max((l + 1/2) * n_col / y_col - 1/2, 0),  j = floor(q),  u = q - j
//   y[b, c, r, l] = (1-t) * ((1-u) * x[b, c, i, j]  + u * x[b, c, i, j'])
//                   +  t  * ((1-u) * x[b, c, i', j] + u * x[b, c, i', j'])
//
// with i' = min(i + 1, n_row - 1) and j' = min(j + 1, n_col - 1). Half-pixel centres,
// in integers up to t and u. Nothing is averaged where the image gets smaller.
//
// Source:  torch.nn.functional.interpolate, mode bilinear, align_corners false.
// Exports: @interpolate_bilinear.forward
// Imports: none
// Dims:    batch (dynamic),
//          n_channel, n_row, n_col, y_row, y_col (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/convolution.py interpolate_bilinear
// Try:     iree-opt components/convolution/interpolate_bilinear.mlir
module @interpolate_bilinear {
  util.func public @forward(
      %x: tensor<?x?x?x?xf32>,  // [batch, n_channel, n_row, n_col]
      %y_row: index,            // y_row
      %y_col: index             // y_col
  ) -> tensor<?x?x?x?xf32> {    // [batch, n_channel, y_row, y_col]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?x?xf32>
    %n_channel = tensor.dim %x, %c1 : tensor<?x?x?x?xf32>
    %n_row = tensor.dim %x, %c2 : tensor<?x?x?x?xf32>
    %n_col = tensor.dim %x, %c3 : tensor<?x?x?x?xf32>
    %n_row_twice = arith.muli %y_row, %c2 : index
    %n_col_twice = arith.muli %y_col, %c2 : index
    %row_end = arith.subi %n_row, %c1 : index
    %col_end = arith.subi %n_col, %c1 : index
    %n_row_twice_i32 = arith.index_cast %n_row_twice : index to i32
    %n_col_twice_i32 = arith.index_cast %n_col_twice : index to i32
    %row_unit = arith.uitofp %n_row_twice_i32 : i32 to f32
    %col_unit = arith.uitofp %n_col_twice_i32 : i32 to f32
    %y_init = tensor.empty(%batch, %n_channel, %y_row, %y_col) : tensor<?x?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(b, c, r, l) -> (b, c, r, l)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } outs(%y_init : tensor<?x?x?x?xf32>) {
    ^bb0(%unused: f32):
      %b = linalg.index 0 : index
      %c = linalg.index 1 : index
      %r = linalg.index 2 : index
      %l = linalg.index 3 : index
      %row_doubled = arith.muli %r, %c2 : index
      %row_centre = arith.addi %row_doubled, %c1 : index
      %row_scaled = arith.muli %row_centre, %n_row : index
      %row_moved = arith.subi %row_scaled, %y_row : index
      %row_from_zero = arith.maxsi %row_moved, %c0 : index
      %row_low = arith.divui %row_from_zero, %n_row_twice : index
      %row_rest = arith.remui %row_from_zero, %n_row_twice : index
      %row_next = arith.addi %row_low, %c1 : index
      %row_high = arith.minui %row_next, %row_end : index
      %row_rest_i32 = arith.index_cast %row_rest : index to i32
      %row_rest_f32 = arith.uitofp %row_rest_i32 : i32 to f32
      %row_share = arith.divf %row_rest_f32, %row_unit : f32
      %col_doubled = arith.muli %l, %c2 : index
      %col_centre = arith.addi %col_doubled, %c1 : index
      %col_scaled = arith.muli %col_centre, %n_col : index
      %col_moved = arith.subi %col_scaled, %y_col : index
      %col_from_zero = arith.maxsi %col_moved, %c0 : index
      %col_low = arith.divui %col_from_zero, %n_col_twice : index
      %col_rest = arith.remui %col_from_zero, %n_col_twice : index
      %col_next = arith.addi %col_low, %c1 : index
      %col_high = arith.minui %col_next, %col_end : index
      %col_rest_i32 = arith.index_cast %col_rest : index to i32
      %col_rest_f32 = arith.uitofp %col_rest_i32 : i32 to f32
      %col_share = arith.divf %col_rest_f32, %col_unit : f32

      %low_low = tensor.extract %x[%b, %c, %row_low, %col_low] : tensor<?x?x?x?xf32>
      %low_high = tensor.extract %x[%b, %c, %row_low, %col_high] : tensor<?x?x?x?xf32>
      %high_low = tensor.extract %x[%b, %c, %row_high, %col_low] : tensor<?x?x?x?xf32>
      %high_high = tensor.extract %x[%b, %c, %row_high, %col_high] : tensor<?x?x?x?xf32>
      %low_step = arith.subf %low_high, %low_low : f32
      %low_part = arith.mulf %low_step, %col_share : f32
      %low = arith.addf %low_low, %low_part : f32
      %high_step = arith.subf %high_high, %high_low : f32
      %high_part = arith.mulf %high_step, %col_share : f32
      %high = arith.addf %high_low, %high_part : f32
      %step = arith.subf %high, %low : f32
      %part = arith.mulf %step, %row_share : f32
      %value = arith.addf %low, %part : f32
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
