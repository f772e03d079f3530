// rms_norm_heads: root-mean-square normalisation of each head by itself.
//
//   y[b, s, h, d] = x[b, s, h, d] / sqrt(mean_d(x[b, s, h, d]^2) + eps) * weight[d]
//
// where head h is columns h*head_dim up to (h+1)*head_dim. All heads share the weight.
//
// Source:  Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4 (eps: the usual guard);
//          of queries and keys: Henry et al. 2020, arXiv:2010.04245, and
//          Gemma Team 2025, arXiv:2503.19786, section 2 (QK-norm).
// Exports: @rms_norm_heads.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_head, head_dim (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py rms_norm_heads
// Try:     iree-opt components/normalization/rms_norm_heads.mlir
module @rms_norm_heads {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_head*head_dim]
      %weight: tensor<?xf32>,  // [head_dim]
      %eps: f32,               // added to the mean square, dimensionless
      %n_head: index           // n_head
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %head_dim = tensor.dim %weight, %c0 : tensor<?xf32>
    %head_dim_i32 = arith.index_cast %head_dim : index to i32
    %head_dim_f32 = arith.uitofp %head_dim_i32 : i32 to f32

    // Step 1: split the columns into heads, [batch, seq, n_head, head_dim].
    %heads = tensor.expand_shape %x [[0], [1], [2, 3]]
        output_shape [%batch, %seq, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>

    // Step 2: sum of squares of each head, [batch, seq, n_head].
    %per_head = tensor.empty(%batch, %seq, %n_head) : tensor<?x?x?xf32>
    %per_head_zero = linalg.fill ins(%zero : f32) outs(%per_head : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %square_sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, d) -> (b, s, h, d)>,
        affine_map<(b, s, h, d) -> (b, s, h)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%heads : tensor<?x?x?x?xf32>) outs(%per_head_zero : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %square = arith.mulf %value, %value : f32
      %next = arith.addf %partial, %square : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>

    // Step 3: divide by the root of the mean, and scale, the same shape.
    %scaled_init = tensor.empty(%batch, %seq, %n_head, %head_dim)
        : tensor<?x?x?x?xf32>
    %scaled = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, d) -> (b, s, h, d)>,
        affine_map<(b, s, h, d) -> (b, s, h)>,
        affine_map<(b, s, h, d) -> (d)>,
        affine_map<(b, s, h, d) -> (b, s, h, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%heads, %square_sum, %weight
          : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>, tensor<?xf32>)
      outs(%scaled_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %head_square_sum: f32, %scale: f32, %unused: f32):
      %mean = arith.divf %head_square_sum, %head_dim_f32 : f32
      %guarded = arith.addf %mean, %eps : f32
      %root = math.sqrt %guarded : f32
      %normal = arith.divf %value, %root : f32
      %stretched = arith.mulf %normal, %scale : f32
      linalg.yield %stretched : f32
    } -> tensor<?x?x?x?xf32>
    %y = tensor.collapse_shape %scaled [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
