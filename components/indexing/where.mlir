// where: each number from one tensor or the other, as a condition says.
//
//   y[b, s, j] = a[b, s, j] where condition[b, s, j] is not 0, b[b, s, j] elsewhere
//
// What the other tensor holds there does not matter: not even NaN passes.
//
// Source:  Iverson 1962, "A Programming Language", section 1.7 (mask and mesh).
// Exports: @where.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 condition, f32 out, values are not changed
// Oracle:  oracles/indexing.py where
// Try:     iree-opt components/indexing/where.mlir
module @where {
  util.func public @forward(
      %condition: tensor<?x?x?xi32>,  // [batch, seq, n_embd] not 0: take a
      %a: tensor<?x?x?xf32>,          // [batch, seq, n_embd]
      %b: tensor<?x?x?xf32>           // [batch, seq, n_embd]
  ) -> tensor<?x?x?xf32> {            // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %none = arith.constant 0 : i32
    %batch = tensor.dim %a, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %a, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %a, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>, affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%condition, %a, %b
          : tensor<?x?x?xi32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%flag: i32, %one: f32, %other: f32, %unused: f32):
      %is_one = arith.cmpi ne, %flag, %none : i32
      %taken = arith.select %is_one, %one, %other : f32
      linalg.yield %taken : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
