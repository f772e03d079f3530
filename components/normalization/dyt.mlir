// dyt: dynamic tanh, which stands in the place of a norm and takes no statistics.
//
//   y[b, s, j] = weight[j] * tanh(alpha[0] * x[b, s, j]) + bias[j]
//
// Source:  Zhu et al. 2025, arXiv:2503.10622, eq. 1 and algorithm 1.
// Exports: @dyt.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/normalization.py dyt
// Try:     iree-opt components/normalization/dyt.mlir
module @dyt {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_embd]
      %alpha: tensor<1xf32>,   // [1] learned, of the inverse unit of x
      %weight: tensor<?xf32>,  // [n_embd]
      %bias: tensor<?xf32>     // [n_embd]
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    // Beyond it tanh is 1 in f32. A GPU may compute sinh / cosh, inf / inf from 89 up.
    %flat = arith.constant 10.0 : f32
    %flat_low = arith.constant -10.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (0)>,
        affine_map<(b, s, j) -> (j)>, affine_map<(b, s, j) -> (j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x, %alpha, %weight, %bias
          : tensor<?x?x?xf32>, tensor<1xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %steepness: f32, %scale: f32, %shift: f32, %unused: f32):
      %steep = arith.mulf %value, %steepness : f32
      %is_high = arith.cmpf ogt, %steep, %flat : f32
      %lowered = arith.select %is_high, %flat, %steep : f32
      %is_low = arith.cmpf olt, %lowered, %flat_low : f32
      %near = arith.select %is_low, %flat_low, %lowered : f32
      %bounded = math.tanh %near : f32
      %scaled = arith.mulf %bounded, %scale : f32
      %shifted = arith.addf %scaled, %shift : f32
      linalg.yield %shifted : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
