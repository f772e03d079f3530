// mean: the mean of each row.
//
//   y[b, s] = sum_j(x[b, s, j]) / n_embd
//
// Source:  Array API standard 2023.12, mean.
// Exports: @mean.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/reduction.py mean
// Try:     iree-opt components/reduction/mean.mlir
module @mean {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?xf32> {     // [batch, seq]
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

    // Step 1: sum of each row, [batch, seq].
    %sum_init = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %sum = linalg.reduce { arith.addf } ins(%x : tensor<?x?x?xf32>)
        outs(%sum_init : tensor<?x?xf32>) dimensions = [2]

    // Step 2: divide by the length, [batch, seq].
    %y = linalg.generic {
      indexing_maps = [affine_map<(b, s) -> (b, s)>, affine_map<(b, s) -> (b, s)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%sum : tensor<?x?xf32>) outs(%per_row : tensor<?x?xf32>) {
    ^bb0(%total: f32, %unused: f32):
      %quotient = arith.divf %total, %n_embd_f32 : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?xf32>
    util.return %y : tensor<?x?xf32>
  }
}
