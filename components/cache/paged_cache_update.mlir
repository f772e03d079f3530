// paged_cache_update: write the keys or values of new tokens into blocks of a pool.
//
//   p                                                     = start[b] + s
//   y[layer, block_table[b, p / block_size], p % block_size, j] = x[b, s, j]
//
// and y = cache everywhere else. All sequences share the pool; row b of the table lists
// the blocks of sequence b in the order of its positions. Block 0 belongs to none: what
// lies beyond the table goes there, and a table ends in zeros where a sequence has no
// block yet, so that padding and idle rows of a batch write to nobody's block. Of
// several rows for one place there any one stays, or numbers of several.
//
// In place where nothing else reads the cache: the scatter then writes seq rows of each
// sequence. start[b] is not negative; a block that the pool does not have, or that two
// sequences have, is undefined: rows of another sequence may be lost, never memory
// behind the pool.
//
// Source:  Kwon et al. 2023, arXiv:2309.06180, section 4.1 and 4.3.
// Exports: @paged_cache_update.forward
// Imports: none
// Dims:    n_layer, block_size, n_embd_kv (fixed by specialize),
//          batch, seq, n_block, n_block_seq (dynamic)
// Types:   f32 in, i32 blocks, positions and layer, f32 out, values are not changed
// Oracle:  oracles/paged.py paged_cache_update
// Try:     iree-opt components/cache/paged_cache_update.mlir
module @paged_cache_update {
  util.func public @forward(
      %cache: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_embd_kv]
      %x: tensor<?x?x?xf32>,        // [batch, seq, n_embd_kv] of the new tokens
      %block_table: tensor<?x?xi32>,  // [batch, n_block_seq] in [0, n_block)
      %start: tensor<?xi32>,        // [batch] first position, in [0, n_block_seq*block_size)
      %layer: i32                   // 0 to n_layer - 1
  ) -> tensor<?x?x?x?xf32> {        // [n_layer, n_block, block_size, n_embd_kv]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_layer = tensor.dim %cache, %c0 : tensor<?x?x?x?xf32>
    %n_block = tensor.dim %cache, %c1 : tensor<?x?x?x?xf32>
    %block_size = tensor.dim %cache, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %cache, %c3 : tensor<?x?x?x?xf32>
    %n_block_seq = tensor.dim %block_table, %c1 : tensor<?x?xi32>
    %n_block_i32 = arith.index_cast %n_block : index to i32
    %size = arith.index_cast %block_size : index to i32
    %n_block_seq_i32 = arith.index_cast %n_block_seq : index to i32
    %last_block = arith.subi %n_block_i32, %one_i32 : i32
    %first_block = arith.muli %layer, %n_block_i32 : i32
    %last_entry = arith.subi %n_block_seq_i32, %one_i32 : i32

    // Step 1: block and place in the block of each row, [batch, seq, 2]. Blocks are
    // counted through all layers.
    %place_init = tensor.empty(%batch, %seq) : tensor<?x?x2xi32>
    %place = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, i) -> (b)>, affine_map<(b, s, i) -> (b, s, i)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%start : tensor<?xi32>) outs(%place_init : tensor<?x?x2xi32>) {
    ^bb0(%first: i32, %unused: i32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %i = linalg.index 2 : index
      %offset = arith.index_cast %s : index to i32
      %position = arith.addi %first, %offset : i32
      %number = arith.divui %position, %size : i32
      %slot = arith.remui %position, %size : i32
      %entry = arith.minui %number, %last_entry : i32
      %entry_index = arith.index_cast %entry : i32 to index
      %listed = tensor.extract %block_table[%b, %entry_index] : tensor<?x?xi32>
      %from_zero = arith.maxsi %listed, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %last_block : i32
      %is_listed = arith.cmpi ule, %number, %last_entry : i32
      %block = arith.select %is_listed, %inside, %zero_i32 : i32
      %absolute = arith.addi %first_block, %block : i32
      %is_block = arith.cmpi eq, %i, %c0 : index
      %coordinate = arith.select %is_block, %absolute, %slot : i32
      linalg.yield %coordinate : i32
    } -> tensor<?x?x2xi32>

    // Step 2: a row to each place. Only rows of block 0 share one, and none is read.
    %rows = tensor.collapse_shape %x [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %places = tensor.collapse_shape %place [[0, 1], [2]]
        : tensor<?x?x2xi32> into tensor<?x2xi32>
    %blocks = tensor.collapse_shape %cache [[0, 1], [2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %written = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
        ins(%rows, %places : tensor<?x?xf32>, tensor<?x2xi32>)
        outs(%blocks : tensor<?x?x?xf32>) {
    ^bb0(%new: f32, %old: f32):
      iree_linalg_ext.yield %new : f32
    } -> tensor<?x?x?xf32>
    %y = tensor.expand_shape %written [[0, 1], [2], [3]]
        output_shape [%n_layer, %n_block, %block_size, %n_embd_kv]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
