// gather: rows of each sequence, by position.
//
//   y[b, s, j] = x[b, positions[b, s], j]
//
// Positions must be in [0, ctx): they are used as addresses and not checked here.
//
// Source:  Harris et al. 2020, doi:10.1038/s41586-020-2649-2 (advanced indexing).
// Exports: @gather.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 positions, f32 out, values are not changed
// Oracle:  oracles/indexing.py gather
// Try:     iree-opt components/indexing/gather.mlir
module @gather {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,       // [batch, ctx, n_embd]
      %positions: tensor<?x?xi32>  // [batch, seq] rows, in [0, ctx)
  ) -> tensor<?x?x?xf32> {         // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %batch = tensor.dim %positions, %c0 : tensor<?x?xi32>
    %seq = tensor.dim %positions, %c1 : tensor<?x?xi32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %rows_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %rows = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%positions : tensor<?x?xi32>) outs(%rows_init : tensor<?x?x?xf32>) {
    ^bb0(%position: i32, %unused: f32):
      %b = linalg.index 0 : index
      %row = arith.index_cast %position : i32 to index
      %j = linalg.index 2 : index
      %value = tensor.extract %x[%b, %row, %j] : tensor<?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x?xf32>
    util.return %rows : tensor<?x?x?xf32>
  }
}
