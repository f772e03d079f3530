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
      %block_table: tensor<?x?xi32>,  // [batch, n_block_seq] blocks of each sequence
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
    %first_block = arith.muli %layer, %n_block_i32 : i32

    // Step 1: the blocks of all layers as one list, and the wanted ones' numbers there.
    %blocks = tensor.collapse_shape %cache [[0, 1], [2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %listed = tensor.collapse_shape %block_table [[0, 1]] : tensor<?x?xi32> into tensor<?xi32>
    %count = tensor.dim %listed, %c0 : tensor<?xi32>
    %number_init = tensor.empty(%count) : tensor<?xi32>
    %number = linalg.generic {
      indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>],
      iterator_types = ["parallel"]
    } ins(%listed : tensor<?xi32>) outs(%number_init : tensor<?xi32>) {
    ^bb0(%block: i32, %unused: i32):
      %from_zero = arith.maxsi %block, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %last_block : i32
      %absolute = arith.addi %first_block, %inside : i32
      linalg.yield %absolute : i32
    } -> tensor<?xi32>

    // Step 2: the blocks, [batch*n_block_seq, block_size, n_embd_kv].
    %found_init = tensor.empty(%count, %block_size, %n_embd_kv) : tensor<?x?x?xf32>
    %found = iree_linalg_ext.gather dimension_map = [0]
        ins(%blocks, %number : tensor<?x?x?xf32>, tensor<?xi32>)
        outs(%found_init : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %y = tensor.expand_shape %found [[0, 1], [2], [3]]
        output_shape [%batch, %n_block_seq, %block_size, %n_embd_kv]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
