// conv1d: slides kernels along signals, such as sound.
//
//   y[b, g*n_out + o, t] = bias[g*n_out + o]
//       + sum_{i, dt}(weight[g*n_out + o, i, dt]
//                       * x[b, g*n_in + i, pt])
//   pt = t*stride + dt - padding
//
// and x is 0 where it has no such place. Kernels of group g see the channels of group g
// alone: n_group of 1 is the plain convolution, n_in of 1 takes each channel by itself.
// y_step is (n_step + 2*padding - k_step) / stride + 1, floored.
//
// Source:  LeCun et al. 1998, "Gradient-Based Learning Applied to Document
//          Recognition", section II.A; padding, stride and groups: torch.nn.Conv1d.
// Exports: @conv1d.forward
// Imports: none
// Dims:    batch (dynamic), n_group, n_in, n_out, n_step, k_step, stride,
//          y_step (fixed by specialize)
// Types:   f32 in, i32 padding, f32 out, f32 accumulation
// Oracle:  oracles/convolution.py conv1d
// Try:     iree-opt components/convolution/conv1d.mlir
module @conv1d {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,       // [batch, n_group*n_in, n_step]
      %weight: tensor<?x?x?xf32>,  // [n_group*n_out, n_in, k_step]
      %bias: tensor<?xf32>,        // [n_group*n_out]
      %padding: i32,               // zeros at either end
      %stride: index,              // stride
      %y_step: index,              // y_step
      %n_group: index              // n_group
  ) -> tensor<?x?x?xf32> {         // [batch, n_group*n_out, y_step]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %n_step = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_channel_out = tensor.dim %weight, %c0 : tensor<?x?x?xf32>
    %n_in = tensor.dim %weight, %c1 : tensor<?x?x?xf32>
    %k_step = tensor.dim %weight, %c2 : tensor<?x?x?xf32>
    %n_out = arith.divui %n_channel_out, %n_group : index
    %padding_index = arith.index_cast %padding : i32 to index
    %n_term = arith.muli %n_in, %k_step : index

    // Step 1: what each result reads, a row each, [batch, n_group, n_place, n_term];
    // n_place counts the results of a channel. It leaves a product of matrices.
    %patch_init = tensor.empty(%batch, %n_group, %y_step, %n_term) : tensor<?x?x?x?xf32>
    %patch = linalg.generic {
      indexing_maps = [affine_map<(b, g, p, m) -> (b, g, p, m)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } outs(%patch_init : tensor<?x?x?x?xf32>) {
    ^bb0(%unused: f32):
      %b = linalg.index 0 : index
      %g = linalg.index 1 : index
      %p = linalg.index 2 : index
      %m = linalg.index 3 : index
      %i = arith.divui %m, %k_step : index
      %first = arith.muli %g, %n_in : index
      %channel = arith.addi %first, %i : index
      %tap = arith.remui %m, %k_step : index

      // Before the first place the difference wraps around, and is no place either.
      %step_stepped = arith.muli %p, %stride : index
      %step_padded = arith.addi %step_stepped, %tap : index
      %step = arith.subi %step_padded, %padding_index : index
      %step_inside = arith.cmpi ult, %step, %n_step : index
      %step_safe = arith.select %step_inside, %step, %c0 : index
      %read = tensor.extract %x[%b, %channel, %step_safe]
          : tensor<?x?x?xf32>
      %value = arith.select %step_inside, %read, %zero : f32
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>

    // Step 2: products with the kernels, [batch, n_group, n_out, n_place].
    %weight_rows = tensor.collapse_shape %weight [[0], [1, 2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %weight_groups = tensor.expand_shape %weight_rows [[0, 1], [2]]
        output_shape [%n_group, %n_out, %n_term]
        : tensor<?x?xf32> into tensor<?x?x?xf32>
    %product_init = tensor.empty(%batch, %n_group, %n_out, %y_step)
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
    %y = tensor.collapse_shape %sum [[0], [1, 2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
