// cast_f32_to_i32: each number without its fraction.
//
//   y[b, s, j] = x[b, s, j], rounded towards 0
//
// |x| is below 2^31: what a larger one becomes differs between targets.
//
// Source:  IEEE 754-2019, section 5.8 (convertToIntegerTowardZero).
// Exports: @cast_f32_to_i32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 out
// Oracle:  oracles/elementwise.py cast_f32_to_i32
// Try:     iree-opt components/elementwise/cast_f32_to_i32.mlir
module @cast_f32_to_i32 {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xi32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xi32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xi32>) {
    ^bb0(%value: f32, %unused: i32):
      %converted = arith.fptosi %value : f32 to i32
      linalg.yield %converted : i32
    } -> tensor<?x?x?xi32>
    util.return %y : tensor<?x?x?xi32>
  }
}
