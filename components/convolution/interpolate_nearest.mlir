// interpolate_nearest: an image in another size, each pixel the nearest of x.
//
//   y[b, c, r, l] = x[b, c, floor((r + 1/2) * n_row / y_row),
//                           floor((l + 1/2) * n_col / y_col)]
//
// Half-pixel centres, in integers: floor((2*r + 1) * n_row / (2*y_row)).
//
// Source:  torch.nn.functional.interpolate, mode nearest-exact.
// Exports: @interpolate_nearest.forward
// Imports: none
// Dims:    batch (dynamic),
//          n_channel, n_row, n_col, y_row, y_col (fixed by specialize)
// Types:   f32 in, f32 out, values are not changed
// Oracle:  oracles/convolution.py interpolate_nearest
// Try:     iree-opt components/convolution/interpolate_nearest.mlir
module @interpolate_nearest {
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
      %row = arith.divui %row_scaled, %n_row_twice : index
      %col_doubled = arith.muli %l, %c2 : index
      %col_centre = arith.addi %col_doubled, %c1 : index
      %col_scaled = arith.muli %col_centre, %n_col : index
      %col = arith.divui %col_scaled, %n_col_twice : index
      %value = tensor.extract %x[%b, %c, %row, %col] : tensor<?x?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
