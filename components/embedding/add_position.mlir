// add_position: adds the learned vector of each position.
//
//   y[b, s, j] = x[b, s, j] + weight[s, j]
//
// Positions count from 0 in every sequence; seq must be at most n_ctx.
//
// Source:  Devlin et al. 2018, arXiv:1810.04805, figure 2 (position embeddings).
// Exports: @add_position.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ctx, n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/embedding.py add_position
// Try:     iree-opt components/embedding/add_position.mlir
module @add_position {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,    // [batch, seq, n_embd]
      %weight: tensor<?x?xf32>  // [n_ctx, n_embd] one row per position
  ) -> tensor<?x?x?xf32> {      // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %positions = tensor.extract_slice %weight[0, 0] [%seq, %n_embd] [1, 1]
        : tensor<?x?xf32> to tensor<?x?xf32>
    %sum_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %positions : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%sum_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %position: f32, %unused: f32):
      %added = arith.addf %value, %position : f32
      linalg.yield %added : f32
    } -> tensor<?x?x?xf32>
    util.return %sum : tensor<?x?x?xf32>
  }
}
