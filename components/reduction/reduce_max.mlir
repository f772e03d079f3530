// reduce_max: the largest number of each row.
//
//   y[b, s] = max_j(x[b, s, j])
//
// Source:  Array API standard 2023.12, max.
// Exports: @reduce_max.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/reduction.py reduce_max
// Try:     iree-opt components/reduction/reduce_max.mlir
module @reduce_max {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?xf32> {     // [batch, seq]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %lowest = arith.constant 0xFF800000 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %y_init = linalg.fill ins(%lowest : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %y = linalg.reduce { arith.maximumf } ins(%x : tensor<?x?x?xf32>)
        outs(%y_init : tensor<?x?xf32>) dimensions = [2]
    util.return %y : tensor<?x?xf32>
  }
}
