// swiglu: a tensor gated by the sigmoid linear unit of another.
//
//   y = silu(gate) * up,  silu(g) = g / (1 + exp(-g))
//
// Source:  Shazeer 2020, arXiv:2002.05202, eq. 5 and 6 (Swish_1).
// Exports: @swiglu.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py swiglu
// Try:     iree-opt components/activation/swiglu.mlir
module @swiglu {
  util.func public @forward(
      %gate: tensor<?x?x?xf32>,  // [batch, seq, n_ff]
      %up: tensor<?x?x?xf32>     // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {       // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %one = arith.constant 1.0 : f32
    %batch = tensor.dim %gate, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %gate, %c1 : tensor<?x?x?xf32>
    %n_ff = tensor.dim %gate, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_ff) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%gate, %up : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%g: f32, %factor: f32, %unused: f32):
      %opposite = arith.negf %g : f32
      %exponential = math.exp %opposite : f32
      %divisor = arith.addf %one, %exponential : f32
      %silu = arith.divf %g, %divisor : f32
      %gated = arith.mulf %silu, %factor : f32
      linalg.yield %gated : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
