// l2_normalize: scales each row to unit Euclidean length.
//
//   y[b, j] = x[b, j] / max(sqrt(sum_j(x[b, j]^2)), eps)
//
// Source:  Schroff et al. 2015, arXiv:1503.03832, section 3 (unit length);
//          torch.nn.functional.normalize (where eps stands).
// Exports: @l2_normalize.forward
// Imports: none
// Dims:    batch (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py l2_normalize
// Try:     iree-opt components/normalization/l2_normalize.mlir
module @l2_normalize {
  util.func public @forward(
      %x: tensor<?x?xf32>,  // [batch, n_embd]
      %eps: f32             // least length to divide by, unit of x
  ) -> tensor<?x?xf32> {    // [batch, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?xf32>
    %n_embd = tensor.dim %x, %c1 : tensor<?x?xf32>

    // Step 1: squared length of each row, [batch].
    %per_row = tensor.empty(%batch) : tensor<?xf32>
    %per_row_zero = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?xf32>)
        -> tensor<?xf32>
    %square_sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, j) -> (b, j)>,
        affine_map<(b, j) -> (b)>
      ],
      iterator_types = ["parallel", "reduction"]
    } ins(%x : tensor<?x?xf32>) outs(%per_row_zero : tensor<?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %square = arith.mulf %value, %value : f32
      %next = arith.addf %partial, %square : f32
      linalg.yield %next : f32
    } -> tensor<?xf32>

    // Step 2: divide by the length, [batch, n_embd].
    %unit_init = tensor.empty(%batch, %n_embd) : tensor<?x?xf32>
    %unit = linalg.generic {
      indexing_maps = [
        affine_map<(b, j) -> (b, j)>,
        affine_map<(b, j) -> (b)>,
        affine_map<(b, j) -> (b, j)>
      ],
      iterator_types = ["parallel", "parallel"]
    } ins(%x, %square_sum : tensor<?x?xf32>, tensor<?xf32>)
      outs(%unit_init : tensor<?x?xf32>) {
    ^bb0(%value: f32, %row_square_sum: f32, %unused: f32):
      %length = math.sqrt %row_square_sum : f32
      %divisor = arith.maximumf %length, %eps : f32
      %scaled = arith.divf %value, %divisor : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?xf32>
    util.return %unit : tensor<?x?xf32>
  }
}
