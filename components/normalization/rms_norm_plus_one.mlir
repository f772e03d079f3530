// rms_norm_plus_one: root-mean-square normalisation, scaled by 1 + weight.
//
//   y[b, s, j] = x[b, s, j] / sqrt(mean_j(x[b, s, j]^2) + eps) * (1 + weight[j])
//
// A weight that is trained around 0. Where a file stores the sum, use rms_norm.
//
// Source:  Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4 (eps: the usual guard);
//          1 + weight: Gemma Team 2024, arXiv:2403.08295, its published code.
// Exports: @rms_norm_plus_one.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py rms_norm_plus_one
// Try:     iree-opt components/normalization/rms_norm_plus_one.mlir
module @rms_norm_plus_one {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_embd]
      %weight: tensor<?xf32>,  // [n_embd] the scale minus 1
      %eps: f32                // added to the mean square, dimensionless
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_embd_i32 = arith.index_cast %n_embd : index to i32
    %n_embd_f32 = arith.uitofp %n_embd_i32 : i32 to f32

    // Step 1: sum of squares of each row, [batch, seq].
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %per_row_zero = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %square_sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x : tensor<?x?x?xf32>) outs(%per_row_zero : tensor<?x?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %square = arith.mulf %value, %value : f32
      %next = arith.addf %partial, %square : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>

    // Step 2: divide by the root of the mean, and scale, [batch, seq, n_embd].
    %scaled_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %scaled = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %square_sum, %weight : tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?xf32>)
      outs(%scaled_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %row_square_sum: f32, %excess: f32, %unused: f32):
      %mean = arith.divf %row_square_sum, %n_embd_f32 : f32
      %guarded = arith.addf %mean, %eps : f32
      %root = math.sqrt %guarded : f32
      %normal = arith.divf %value, %root : f32
      %scale = arith.addf %one, %excess : f32
      %stretched = arith.mulf %normal, %scale : f32
      linalg.yield %stretched : f32
    } -> tensor<?x?x?xf32>
    util.return %scaled : tensor<?x?x?xf32>
  }
}
