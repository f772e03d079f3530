// renormalize: shares of the chosen experts, so that they add up to 1.
//
//   y[b, s, k] = share[b, s, k] / sum_j(share[b, s, j])
//
// Source:  Jiang et al. 2024, arXiv:2401.04088, section 2.1 (softmax over the top k).
// Exports: @renormalize.forward
// Imports: none
// Dims:    n_expert_used (fixed by specialize), batch, seq (dynamic)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/moe.py renormalize
// Try:     iree-opt components/moe/renormalize.mlir
module @renormalize {
  util.func public @forward(
      %share: tensor<?x?x?xf32>  // [batch, seq, n_expert_used] one is above 0
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_expert_used]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %share, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %share, %c1 : tensor<?x?x?xf32>
    %n_expert_used = tensor.dim %share, %c2 : tensor<?x?x?xf32>
    %total_init = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %total_zero = linalg.fill ins(%zero : f32) outs(%total_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %total = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, k) -> (b, s, k)>, affine_map<(b, s, k) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%share : tensor<?x?x?xf32>) outs(%total_zero : tensor<?x?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %next = arith.addf %partial, %value : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_expert_used) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, k) -> (b, s, k)>, affine_map<(b, s, k) -> (b, s)>,
        affine_map<(b, s, k) -> (b, s, k)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%share, %total : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %sum: f32, %unused: f32):
      %quotient = arith.divf %value, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
