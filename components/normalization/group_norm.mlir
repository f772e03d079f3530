// group_norm: zero mean and unit variance over each group of channels, then a map.
//
//   mean[b, g]     = mean of x[b, c, r, l] over the channels c of group g, and r and l
//   variance[b, g] = mean of (x[b, c, r, l] - mean[b, g])^2 over the same
//   y[b, c, r, l]  = (x[b, c, r, l] - mean[b, g]) / sqrt(variance[b, g] + eps)
//                    * weight[c] + bias[c],  g = c / n_in
//
// Group g is channels g*n_in up to (g+1)*n_in. The variance has its own pass, as in
// layer_norm. A signal in one dimension is an image of one row.
//
// Source:  Wu & He 2018, arXiv:1803.08494, eq. 1 to 7.
// Exports: @group_norm.forward
// Imports: none
// Dims:    batch (dynamic), n_group, n_in, n_row, n_col (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py group_norm
// Try:     iree-opt components/normalization/group_norm.mlir
module @group_norm {
  util.func public @forward(
      %x: tensor<?x?x?x?xf32>,  // [batch, n_group*n_in, n_row, n_col]
      %weight: tensor<?xf32>,   // [n_group*n_in]
      %bias: tensor<?xf32>,     // [n_group*n_in]
      %eps: f32,                // added to the variance, dimensionless
      %n_group: index           // n_group
  ) -> tensor<?x?x?x?xf32> {    // [batch, n_group*n_in, n_row, n_col]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?x?xf32>
    %n_channel = tensor.dim %x, %c1 : tensor<?x?x?x?xf32>
    %n_row = tensor.dim %x, %c2 : tensor<?x?x?x?xf32>
    %n_col = tensor.dim %x, %c3 : tensor<?x?x?x?xf32>
    %n_in = arith.divui %n_channel, %n_group : index
    %n_pixel = arith.muli %n_row, %n_col : index
    %n_value = arith.muli %n_in, %n_pixel : index
    %n_value_i32 = arith.index_cast %n_value : index to i32
    %n_value_f32 = arith.uitofp %n_value_i32 : i32 to f32
    %groups = tensor.expand_shape %x [[0], [1, 2], [3], [4]]
        output_shape [%batch, %n_group, %n_in, %n_row, %n_col]
        : tensor<?x?x?x?xf32> into tensor<?x?x?x?x?xf32>
    %rows = tensor.collapse_shape %groups [[0], [1], [2, 3, 4]]
        : tensor<?x?x?x?x?xf32> into tensor<?x?x?xf32>
    %per_group = tensor.empty(%batch, %n_group) : tensor<?x?xf32>

    // Step 1: sum of each group, [batch, n_group].
    %sum_init = linalg.fill ins(%zero : f32) outs(%per_group : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %sum = linalg.reduce { arith.addf } ins(%rows : tensor<?x?x?xf32>)
        outs(%sum_init : tensor<?x?xf32>) dimensions = [2]

    // Step 2: sum of squared distances from the mean of each group, [batch, n_group].
    %square_sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, g, j) -> (b, g, j)>,
        affine_map<(b, g, j) -> (b, g)>,
        affine_map<(b, g, j) -> (b, g)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%rows, %sum : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%sum_init : tensor<?x?xf32>) {
    ^bb0(%value: f32, %group_sum: f32, %partial: f32):
      %mean = arith.divf %group_sum, %n_value_f32 : f32
      %centred = arith.subf %value, %mean : f32
      %square = arith.mulf %centred, %centred : f32
      %next = arith.addf %partial, %square : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>

    // Step 3: normalise, scale and shift, [batch, n_group, n_in, n_row, n_col].
    %weight_groups = tensor.expand_shape %weight [[0, 1]] output_shape [%n_group, %n_in]
        : tensor<?xf32> into tensor<?x?xf32>
    %bias_groups = tensor.expand_shape %bias [[0, 1]] output_shape [%n_group, %n_in]
        : tensor<?xf32> into tensor<?x?xf32>
    %scaled_init = tensor.empty(%batch, %n_group, %n_in, %n_row, %n_col)
        : tensor<?x?x?x?x?xf32>
    %scaled = linalg.generic {
      indexing_maps = [
        affine_map<(b, g, c, r, l) -> (b, g, c, r, l)>,
        affine_map<(b, g, c, r, l) -> (b, g)>,
        affine_map<(b, g, c, r, l) -> (b, g)>,
        affine_map<(b, g, c, r, l) -> (g, c)>,
        affine_map<(b, g, c, r, l) -> (g, c)>,
        affine_map<(b, g, c, r, l) -> (b, g, c, r, l)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%groups, %sum, %square_sum, %weight_groups, %bias_groups
          : tensor<?x?x?x?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>,
            tensor<?x?xf32>)
      outs(%scaled_init : tensor<?x?x?x?x?xf32>) {
    ^bb0(%value: f32, %group_sum: f32, %group_square_sum: f32, %scale: f32, %shift: f32,
         %unused: f32):
      %mean = arith.divf %group_sum, %n_value_f32 : f32
      %centred = arith.subf %value, %mean : f32
      %variance = arith.divf %group_square_sum, %n_value_f32 : f32
      %guarded = arith.addf %variance, %eps : f32
      %deviation = math.sqrt %guarded : f32
      %normal = arith.divf %centred, %deviation : f32
      %stretched = arith.mulf %normal, %scale : f32
      %shifted = arith.addf %stretched, %shift : f32
      linalg.yield %shifted : f32
    } -> tensor<?x?x?x?x?xf32>
    %y = tensor.collapse_shape %scaled [[0], [1, 2], [3], [4]]
        : tensor<?x?x?x?x?xf32> into tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
