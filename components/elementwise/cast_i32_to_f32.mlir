// cast_i32_to_f32: the float next to each integer; exact up to 2^24.
//
//   y[b, s, j] = x[b, s, j], rounded to the nearest, ties to even
//
// Source:  IEEE 754-2019, section 5.4.1 (convertFromInt).
// Exports: @cast_i32_to_f32.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   i32 in, f32 out
// Oracle:  oracles/elementwise.py cast_i32_to_f32
// Try:     iree-opt components/elementwise/cast_i32_to_f32.mlir
module @cast_i32_to_f32 {
  util.func public @forward(
      %x: tensor<?x?x?xi32>  // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xi32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xi32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xi32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xi32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: i32, %unused: f32):
      %converted = arith.sitofp %value : i32 to f32
      linalg.yield %converted : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
