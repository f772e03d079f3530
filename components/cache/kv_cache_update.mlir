// kv_cache_update: write the keys or values of new tokens into one layer of a cache.
//
//   y[layer, b, start[b] + s, j] = x[b, s, j], and y = cache everywhere else
//
// In place where nothing else reads the cache: the scatter then writes seq rows of each
// sequence, and the rest of the cache is not touched. start[b] + seq is at most ctx; a
// caller that breaks this loses the row at the end, not memory behind it.
//
// Source:  Shazeer 2019, arXiv:1911.02150, section 2.3.1.
// Exports: @kv_cache_update.forward
// Imports: none
// Dims:    n_layer, n_embd_kv (fixed by specialize), batch, seq, ctx (dynamic)
// Types:   f32 in, i32 positions and layer, f32 out, values are not changed
// Oracle:  oracles/cache.py kv_cache_update
// Try:     iree-opt components/cache/kv_cache_update.mlir
module @kv_cache_update {
  util.func public @forward(
      %cache: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_embd_kv]
      %x: tensor<?x?x?xf32>,        // [batch, seq, n_embd_kv] of the new tokens
      %start: tensor<?xi32>,        // [batch] first position, in [0, ctx - seq]
      %layer: i32                   // 0 to n_layer - 1
  ) -> tensor<?x?x?x?xf32> {        // [n_layer, batch, ctx, n_embd_kv]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %ctx = tensor.dim %cache, %c2 : tensor<?x?x?x?xf32>
    %ctx_i32 = arith.index_cast %ctx : index to i32
    %end = arith.subi %ctx_i32, %one_i32 : i32

    // Step 1: layer, sequence and position of each row, [batch, seq, 3].
    %place_init = tensor.empty(%batch, %seq) : tensor<?x?x3xi32>
    %place = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, i) -> (b)>, affine_map<(b, s, i) -> (b, s, i)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%start : tensor<?xi32>) outs(%place_init : tensor<?x?x3xi32>) {
    ^bb0(%first: i32, %unused: i32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %i = linalg.index 2 : index
      %sequence = arith.index_cast %b : index to i32
      %offset = arith.index_cast %s : index to i32
      %position = arith.addi %first, %offset : i32
      %from_zero = arith.maxsi %position, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %end : i32
      %is_layer = arith.cmpi eq, %i, %c0 : index
      %is_sequence = arith.cmpi eq, %i, %c1 : index
      %later = arith.select %is_sequence, %sequence, %inside : i32
      %number = arith.select %is_layer, %layer, %later : i32
      linalg.yield %number : i32
    } -> tensor<?x?x3xi32>

    // Step 2: a row to each place.
    %rows = tensor.collapse_shape %x [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %places = tensor.collapse_shape %place [[0, 1], [2]]
        : tensor<?x?x3xi32> into tensor<?x3xi32>
    %y = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(true)
        ins(%rows, %places : tensor<?x?xf32>, tensor<?x3xi32>)
        outs(%cache : tensor<?x?x?x?xf32>) {
    ^bb0(%new: f32, %old: f32):
      iree_linalg_ext.yield %new : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
