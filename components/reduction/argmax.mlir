// argmax: where each row is largest; of equal numbers the first.
//
//   y[b, s] = min{j : x[b, s, j] = max_i(x[b, s, i])}
//
// A row with a NaN gives a place that it has, whichever. Two passes, each of which is a
// plain reduction: one that carries number and place at once is no kernel that every
// target has.
//
// Source:  Array API standard 2023.12, argmax.
// Exports: @argmax.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 out
// Oracle:  oracles/reduction.py argmax
// Try:     iree-opt components/reduction/argmax.mlir
module @argmax {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?xi32> {     // [batch, seq]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %lowest = arith.constant 0xFF800000 : f32
    %end = arith.constant 2147483647 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %per_row_i32 = tensor.empty(%batch, %seq) : tensor<?x?xi32>

    // Step 1: the largest number of each row, [batch, seq].
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %peak = linalg.reduce { arith.maximumf } ins(%x : tensor<?x?x?xf32>)
        outs(%peak_init : tensor<?x?xf32>) dimensions = [2]

    // Step 2: the first place that is not below it, [batch, seq].
    %y_init = linalg.fill ins(%end : i32) outs(%per_row_i32 : tensor<?x?xi32>)
        -> tensor<?x?xi32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %peak : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%y_init : tensor<?x?xi32>) {
    ^bb0(%value: f32, %highest: f32, %first: i32):
      %j = linalg.index 2 : index
      %place = arith.index_cast %j : index to i32
      // Not below, and not equal: with a NaN every place is in question, and none lost.
      %is_peak = arith.cmpf uge, %value, %highest : f32
      %candidate = arith.select %is_peak, %place, %end : i32
      %next = arith.minsi %first, %candidate : i32
      linalg.yield %next : i32
    } -> tensor<?x?xi32>
    util.return %y : tensor<?x?xi32>
  }
}
