// conv3d: slides kernels through films, or volumes.
//
//   y[b, g*n_out + o, f, r, l] = bias[g*n_out + o]
//       + sum_{i, df, dr, dl}(weight[g*n_out + o, i, df, dr, dl]
//                       * x[b, g*n_in + i, pf, pr, pl])
//   pf = f*stride_frame + df - padding_frame
//   pr = r*stride_row + dr - padding_row
//   pl = l*stride_col + dl - padding_col
//
// and x is 0 where it has no such place. Kernels of group g see the channels of group g
// alone: n_group of 1 is the plain convolution, n_in of 1 takes each channel by itself.
// y_frame is (n_frame + 2*padding_frame - k_frame) / stride_frame + 1, floored.
// y_row is (n_row + 2*padding_row - k_row) / stride_row + 1, floored.
// y_col is (n_col + 2*padding_col - k_col) / stride_col + 1, floored.
//
// Source:  Ji et al. 2010, "3D Convolutional Neural Networks for Human Action
//          Recognition", eq. 2; padding, stride and groups: torch.nn.Conv3d.
// Exports: @conv3d.forward
// Imports: none
// Dims:    batch (dynamic), n_group, n_in, n_out, n_frame, n_row, n_col, k_frame,
//          k_row, k_col, stride_frame, stride_row, stride_col, y_frame, y_row,
//          y_col (fixed by specialize)
// Types:   f32 in, i32 padding, f32 out, f32 accumulation
// Oracle:  oracles/convolution.py conv3d
// Try:     iree-opt components/convolution/conv3d.mlir
module @conv3d {
  util.func public @forward(
      %x: tensor<?x?x?x?x?xf32>,       // [batch, n_group*n_in, n_frame, n_row, n_col]
      %weight: tensor<?x?x?x?x?xf32>,  // [n_group*n_out, n_in, k_frame, k_row, k_col]
      %bias: tensor<?xf32>,            // [n_group*n_out]
      %padding_frame: i32,             // zeros at either end of the frames
      %padding_row: i32,               // zeros at either end of the rows
      %padding_col: i32,               // zeros at either end of the cols
      %stride_frame: index,            // stride_frame
      %stride_row: index,              // stride_row
      %stride_col: index,              // stride_col
      %y_frame: index,                 // y_frame
      %y_row: index,                   // y_row
      %y_col: index,                   // y_col
      %n_group: index                  // n_group
  ) -> tensor<?x?x?x?x?xf32> {         // [batch, n_group*n_out, y_frame, y_row, y_col]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?x?x?xf32>
    %n_frame = tensor.dim %x, %c2 : tensor<?x?x?x?x?xf32>
    %n_row = tensor.dim %x, %c3 : tensor<?x?x?x?x?xf32>
    %n_col = tensor.dim %x, %c4 : tensor<?x?x?x?x?xf32>
    %n_channel_out = tensor.dim %weight, %c0 : tensor<?x?x?x?x?xf32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x?x?x?xf32>
    %k_frame = tensor.dim %weight, %c2 : tensor<?x?x?x?x?xf32>
    %k_row = tensor.dim %weight, %c3 : tensor<?x?x?x?x?xf32>
    %k_col = tensor.dim %weight, %c4 : tensor<?x?x?x?x?xf32>
    %n_out = arith.divui %n_channel_out, %n_group : index
    %padding_frame_index = arith.index_cast %padding_frame : i32 to index
    %padding_row_index = arith.index_cast %padding_row : i32 to index
    %padding_col_index = arith.index_cast %padding_col : i32 to index
    %n_tap_0 = arith.muli %k_frame, %k_row : index
    %n_tap = arith.muli %n_tap_0, %k_col : index
    %n_place_0 = arith.muli %y_frame, %y_row : index
    %n_place = arith.muli %n_place_0, %y_col : index
    %n_term = arith.muli %n_in, %n_tap : index

    // Step 1: what each result reads, a row each, [batch, n_group, n_place, n_term];
    // n_place counts the results of a channel. It leaves a product of matrices.
    %patch_init = tensor.empty(%batch, %n_group, %n_place, %n_term)
        : tensor<?x?x?x?xf32>
    %patch = linalg.generic {
      indexing_maps = [affine_map<(b, g, p, m) -> (b, g, p, m)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } outs(%patch_init : tensor<?x?x?x?xf32>) {
    ^bb0(%unused: f32):
      %b = linalg.index 0 : index
      %g = linalg.index 1 : index
      %p = linalg.index 2 : index
      %m = linalg.index 3 : index
      %i = arith.divui %m, %n_tap : index
      %first = arith.muli %g, %n_in : index
      %channel = arith.addi %first, %i : index
      %tap = arith.remui %m, %n_tap : index
      %col_tap = arith.remui %tap, %k_col : index
      %col_taps_above = arith.divui %tap, %k_col : index
      %col_place = arith.remui %p, %y_col : index
      %col_places_above = arith.divui %p, %y_col : index
      %row_tap = arith.remui %col_taps_above, %k_row : index
      %frame_tap = arith.divui %col_taps_above, %k_row : index
      %row_place = arith.remui %col_places_above, %y_row : index
      %frame_place = arith.divui %col_places_above, %y_row : index

      // Before the first place the difference wraps around, and is no place either.
      %frame_stepped = arith.muli %frame_place, %stride_frame : index
      %frame_padded = arith.addi %frame_stepped, %frame_tap : index
      %frame = arith.subi %frame_padded, %padding_frame_index : index
      %frame_inside = arith.cmpi ult, %frame, %n_frame : index
      %frame_safe = arith.select %frame_inside, %frame, %c0 : index
      %row_stepped = arith.muli %row_place, %stride_row : index
      %row_padded = arith.addi %row_stepped, %row_tap : index
      %row = arith.subi %row_padded, %padding_row_index : index
      %row_inside = arith.cmpi ult, %row, %n_row : index
      %row_safe = arith.select %row_inside, %row, %c0 : index
      %col_stepped = arith.muli %col_place, %stride_col : index
      %col_padded = arith.addi %col_stepped, %col_tap : index
      %col = arith.subi %col_padded, %padding_col_index : index
      %col_inside = arith.cmpi ult, %col, %n_col : index
      %col_safe = arith.select %col_inside, %col, %c0 : index
      %inside_0 = arith.andi %frame_inside, %row_inside : i1
      %inside = arith.andi %inside_0, %col_inside : i1
      %read = tensor.extract %x[%b, %channel, %frame_safe, %row_safe, %col_safe]
          : tensor<?x?x?x?x?xf32>
      %value = arith.select %inside, %read, %zero : f32
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>

    // Step 2: products with the kernels, [batch, n_group, n_out, n_place].
    %weight_rows = tensor.collapse_shape %weight [[0], [1, 2, 3, 4]]
        : tensor<?x?x?x?x?xf32> into tensor<?x?xf32>
    %weight_groups = tensor.expand_shape %weight_rows [[0, 1], [2]]
        output_shape [%n_group, %n_out, %n_term]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    %product_init = tensor.empty(%batch, %n_group, %n_out, %n_place)
        : tensor<?x?x?x?xf32>
    %product_zero = linalg.fill ins(%zero : f32)
        outs(%product_init : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %product = linalg.generic {
      indexing_maps = [
        affine_map<(b, g, o, p, m) -> (g, o, m)>,
        affine_map<(b, g, o, p, m) -> (b, g, p, m)>,
        affine_map<(b, g, o, p, m) -> (b, g, o, p)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%weight_groups, %patch : tensor<?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%product_zero : tensor<?x?x?x?xf32>) {
    ^bb0(%factor: f32, %value: f32, %partial: f32):
      %term = arith.mulf %factor, %value : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>

    // Step 3: add the bias, and part the dims again.
    %bias_groups = tensor.expand_shape %bias [[0, 1]] output_shape [%n_group, %n_out]
        : tensor<?xf32> into tensor<?x?xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, g, o, p) -> (b, g, o, p)>,
        affine_map<(b, g, o, p) -> (g, o)>,
        affine_map<(b, g, o, p) -> (b, g, o, p)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%product, %bias_groups : tensor<?x?x?x?xf32>, tensor<?x?xf32>)
      outs(%product_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %shift: f32, %unused: f32):
      %shifted = arith.addf %value, %shift : f32
      linalg.yield %shifted : f32
    } -> tensor<?x?x?x?xf32>
    %channels = tensor.collapse_shape %sum [[0], [1, 2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %y = tensor.expand_shape %channels [[0], [1], [2, 3, 4]]
        output_shape [%batch, %n_channel_out, %y_frame, %y_row, %y_col]
        : tensor<?x?x?xf32> into tensor<?x?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?x?xf32>
  }
}
