// softmax: the exponentials of each row, divided by their sum.
//
//   y[b, s, j] = exp(x[b, s, j] - m[b, s]) / sum_i(exp(x[b, s, i] - m[b, s]))
//
// where m[b, s] is the largest of the row: no exponential overflows.
//
// Source:  Bridle 1990, "Probabilistic Interpretation of Feedforward Classification
//          Network Outputs", eq. 1.
// Exports: @softmax.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation
// Oracle:  oracles/normalization.py softmax
// Try:     iree-opt components/normalization/softmax.mlir
module @softmax {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %per_row = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>

    // Step 1: largest number of each row, [batch, seq].
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %peak = linalg.reduce { arith.maximumf } ins(%x : tensor<?x?x?xf32>)
        outs(%peak_init : tensor<?x?xf32>) dimensions = [2]

    // Step 2: unnormalised weights, [batch, seq, n_embd].
    %weight = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %peak : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %highest: f32, %unused: f32):
      %distance = arith.subf %value, %highest : f32
      %exponential = math.exp %distance : f32
      linalg.yield %exponential : f32
    } -> tensor<?x?x?xf32>

    // Step 3: sum of the weights of each row, [batch, seq].
    %total_init = linalg.fill ins(%zero : f32) outs(%per_row : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %total = linalg.reduce { arith.addf } ins(%weight : tensor<?x?x?xf32>)
        outs(%total_init : tensor<?x?xf32>) dimensions = [2]

    // Step 4: divide by it, [batch, seq, n_embd].
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%weight, %total : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%share: f32, %sum: f32, %unused: f32):
      %quotient = arith.divf %share, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
