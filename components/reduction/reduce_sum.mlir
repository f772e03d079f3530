// reduce_sum: the sum of each row.
//
//   y[b, s] = sum_j(x[b, s, j])
//
// Source:  Array API standard 2023.12, sum.
// Exports: @reduce_sum.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/reduction.py reduce_sum
// Try:     iree-opt components/reduction/reduce_sum.mlir
module @reduce_sum {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?xf32> {     // [batch, seq]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %y_init = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %y = linalg.reduce { arith.addf } ins(%x : tensor<?x?x?xf32>)
        outs(%y_init : tensor<?x?xf32>) dimensions = [2]
    util.return %y : tensor<?x?xf32>
  }
}
