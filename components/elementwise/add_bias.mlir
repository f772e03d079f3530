// add_bias: adds one vector to every row.
//
//   y[b, s, j] = x[b, s, j] + bias[j]
//
// Source:  torch.nn.Linear (its bias).
// Exports: @add_bias.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/elementwise.py add_bias
// Try:     iree-opt components/elementwise/add_bias.mlir
module @add_bias {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,  // [batch, seq, n_embd]
      %bias: tensor<?xf32>    // [n_embd]
  ) -> tensor<?x?x?xf32> {    // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %sum_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %bias : tensor<?x?x?xf32>, tensor<?xf32>)
      outs(%sum_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %shift: f32, %unused: f32):
      %added = arith.addf %value, %shift : f32
      linalg.yield %added : f32
    } -> tensor<?x?x?xf32>
    util.return %sum : tensor<?x?x?xf32>
  }
}
