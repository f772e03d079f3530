// paged_cache_gather: the blocks of each sequence, one behind the other.
//
//   y[b, n, i, j] = cache[layer, block_table[b, n], i, j]
//
// Position p of sequence b is then row p of y[b]; rows behind a sequence's end hold
// whatever its blocks held before. A block that the pool does not have is read as the
// nearest that it has.
//
// Source:  Kwon et al. 2023, arXiv:2309.06180, section 4.1.
// Exports: @paged_cache_gather.forward
// Imports: none
// Dims:    n_layer, block_size, n_embd_kv (fixed by specialize),
//          batch, n_block, n_block_seq (dynamic)
// Types:   f32 in, i32 blocks and layer, f32 out, values are not changed
// Oracle:  oracles/paged.py paged_cache_gather
// Try:     iree-opt components/cache/paged_cache_gather.mlir
module @paged_cache_gather {
  util.func public @forward(
      %cache: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_embd_kv]
      %block_table: tensor<?x?xi32>,  // [batch, n_block_seq] in [0, n_block)
      %layer: i32                   // 0 to n_layer - 1
  ) -> tensor<?x?x?x?xf32> {        // [batch, n_block_seq, block_size, n_embd_kv]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %batch = tensor.dim %block_table, %c0 : tensor<?x?xi32>
    %n_block_seq = tensor.dim %block_table, %c1 : tensor<?x?xi32>
    %n_block = tensor.dim %cache, %c1 : tensor<?x?x?x?xf32>
    %block_size = tensor.dim %cache, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %cache, %c3 : tensor<?x?x?x?xf32>
    %n_block_i32 = arith.index_cast %n_block : index to i32
    %last_block = arith.subi %n_block_i32, %one_i32 : i32
    %layer_index = arith.index_cast %layer : i32 to index

    %y_init = tensor.empty(%batch, %n_block_seq, %block_size, %n_embd_kv)
        : tensor<?x?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, n, i, j) -> (b, n)>, affine_map<(b, n, i, j) -> (b, n, i, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%block_table : tensor<?x?xi32>) outs(%y_init : tensor<?x?x?x?xf32>) {
    ^bb0(%block: i32, %unused: f32):
      %i = linalg.index 2 : index
      %j = linalg.index 3 : index
      %from_zero = arith.maxsi %block, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %last_block : i32
      %number = arith.index_cast %inside : i32 to index
      %value = tensor.extract %cache[%layer_index, %number, %i, %j]
          : tensor<?x?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
