// layer_norm: zero mean and unit variance over the last dimension, then an affine map.
//
//   mean[b, s]     = mean_j(x[b, s, j])
//   variance[b, s] = mean_j((x[b, s, j] - mean[b, s])^2)
//   y[b, s, j]     = (x[b, s, j] - mean[b, s]) / sqrt(variance[b, s] + eps) * weight[j]
//                    + bias[j]
//
// The variance has its own pass: E[x^2] - E[x]^2 loses digits when the mean is large.
//
// Source:  Ba et al. 2016, arXiv:1607.06450, eq. 3 and 4 (eps: the usual guard).
// Exports: @layer_norm.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py layer_norm
// Try:     iree-opt components/normalization/layer_norm.mlir
module @layer_norm {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_embd]
      %weight: tensor<?xf32>,  // [n_embd]
      %bias: tensor<?xf32>,    // [n_embd]
      %eps: f32                // added to the variance, dimensionless
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_embd_i32 = arith.index_cast %n_embd : index to i32
    %n_embd_f32 = arith.uitofp %n_embd_i32 : i32 to f32
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %per_row_zero = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>

    // Step 1: sum of each row, [batch, seq].
    %sum = linalg.reduce { arith.addf } ins(%x : tensor<?x?x?xf32>)
        outs(%per_row_zero : tensor<?x?xf32>) dimensions = [2]

    // Step 2: sum of squared distances from the mean of each row, [batch, seq].
    %square_sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %sum : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%per_row_zero : tensor<?x?xf32>) {
    ^bb0(%value: f32, %row_sum: f32, %partial: f32):
      %mean = arith.divf %row_sum, %n_embd_f32 : f32
      %centred = arith.subf %value, %mean : f32
      %square = arith.mulf %centred, %centred : f32
      %next = arith.addf %partial, %square : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>

    // Step 3: normalise, scale and shift, [batch, seq, n_embd].
    %scaled_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %scaled = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (j)>,
        affine_map<(b, s, j) -> (j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %sum, %square_sum, %weight, %bias : tensor<?x?x?xf32>, tensor<?x?xf32>,
          tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%scaled_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %row_sum: f32, %row_square_sum: f32, %scale: f32, %shift: f32,
         %unused: f32):
      %mean = arith.divf %row_sum, %n_embd_f32 : f32
      %centred = arith.subf %value, %mean : f32
      %variance = arith.divf %row_square_sum, %n_embd_f32 : f32
      %guarded = arith.addf %variance, %eps : f32
      %deviation = math.sqrt %guarded : f32
      %normal = arith.divf %centred, %deviation : f32
      %stretched = arith.mulf %normal, %scale : f32
      %shifted = arith.addf %stretched, %shift : f32
      linalg.yield %shifted : f32
    } -> tensor<?x?x?xf32>
    util.return %scaled : tensor<?x?x?xf32>
  }
}
