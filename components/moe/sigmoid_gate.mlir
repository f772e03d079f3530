// sigmoid_gate: each row times the sigmoid of one number.
//
//   y[b, s, j] = x[b, s, j] / (1 + exp(-gate[b, s, 0]))
//
// Source:  Qwen Team 2024, Qwen1.5-MoE (modeling_qwen2_moe.py, shared_expert_gate).
// Exports: @sigmoid_gate.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/moe.py sigmoid_gate
// Try:     iree-opt components/moe/sigmoid_gate.mlir
module @sigmoid_gate {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_embd]
      %gate: tensor<?x?x1xf32>  // [batch, seq, 1]
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %gate_rows = tensor.collapse_shape %gate [[0], [1, 2]]
        : tensor<?x?x1xf32> into tensor<?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %gate_rows : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %opening: f32, %unused: f32):
      %opposite = arith.negf %opening : f32
      %exponential = math.exp %opposite : f32
      %divisor = arith.addf %one, %exponential : f32
      %gated = arith.divf %value, %divisor : f32
      linalg.yield %gated : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
