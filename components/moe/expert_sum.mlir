// expert_sum: what the chosen experts made of each row, added up by their shares.
//
//   y[b, s, j] = sum_k(share[b, s, k] * x[b, s, k*n_embd + j])
//
// Source:  Shazeer et al. 2017, arXiv:1701.06538, eq. 1.
// Exports: @expert_sum.forward
// Imports: none
// Dims:    n_expert_used, n_embd (fixed by specialize), batch, seq (dynamic)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/moe.py expert_sum
// Try:     iree-opt components/moe/expert_sum.mlir
module @expert_sum {
  util.func public @forward(
      %share: tensor<?x?x?xf32>,  // [batch, seq, n_expert_used]
      %x: tensor<?x?x?xf32>       // [batch, seq, n_expert_used*n_embd]
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %width = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %n_expert_used = tensor.dim %share, %c2 : tensor<?x?x?xf32>
    %n_embd = arith.divui %width, %n_expert_used : index
    %x_experts = tensor.expand_shape %x [[0], [1], [2, 3]]
        output_shape [%batch, %seq, %n_expert_used, %n_embd]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y_zero = linalg.fill ins(%zero : f32) outs(%y_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j, k) -> (b, s, k, j)>, affine_map<(b, s, j, k) -> (b, s, k)>,
        affine_map<(b, s, j, k) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%x_experts, %share : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_zero : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %factor: f32, %partial: f32):
      // Not a product and a sum: as a contraction IREE 3.13 would pack x for it, and
      // for aarch64 it crashes where the shares are made in the kernel that packs them.
      %next = math.fma %value, %factor, %partial : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
