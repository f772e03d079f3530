// relu: the rectified linear unit.
//
//   y = max(x, 0)
//
// Source:  Nair & Hinton 2010, "Rectified Linear Units Improve Restricted
//          Boltzmann Machines", section 2.
// Exports: @relu.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/activation.py relu
// Try:     iree-opt components/activation/relu.mlir
module @relu {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_ff = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_ff) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      // A comparison and a select: a NaN stays one.
      %is_negative = arith.cmpf olt, %value, %zero : f32
      %relu = arith.select %is_negative, %zero, %value : f32
      linalg.yield %relu : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
