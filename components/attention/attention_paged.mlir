// attention_paged: causal attention over the blocks of a pool, scores capped or not.
//
//   p                 = start[b] + s, the position of query s of sequence b
//   score[b, h, s, j] = scale * sum_d(q[b, s, h, d] * k[b, j, h / group, d])
//   score[b, h, s, j] = cap * tanh(score[b, h, s, j] / cap) where cap > 0
//   score[b, h, s, j] = -1e30 unless p - window < j <= p
//   y[b, s, h, d]     = sum_j(softmax_j(score)[b, h, s, j] * v[b, j, h / group, d])
//
// where k[b] and v[b] are the blocks of the layer that row b of the table lists, one
// behind the other, head h of q is columns h*head_dim up to (h+1)*head_dim, and group =
// n_head / n_head_kv heads of q read one head of k and v. The pool holds the new tokens
// already; what it holds behind them does not matter, NaN included. A window of the
// table's positions or more is plain causal attention; it is at least 1. head_dim is
// even. A block that the pool does not have, and a query behind the table's last
// position, are undefined: numbers are wrong, no other memory is read.
// All scores are in memory at once, 16 bytes for each head, query and position; and so is
// a copy of the blocks.
//
// Source:  Kwon et al. 2023, arXiv:2309.06180, section 4.1; Vaswani et al. 2017,
//          arXiv:1706.03762, eq. 1 and section 3.2.3;
//          groups: Ainslie et al. 2023, arXiv:2305.13245, section 2.2;
//          window: Beltagy et al. 2020, arXiv:2004.05150, section 3.1;
//          cap: Gemma Team 2024, arXiv:2408.00118, section 2.
// Exports: @attention_paged.forward
// Imports: none
// Dims:    n_layer, block_size, n_head, n_head_kv, even head_dim (fixed by specialize),
//          batch, seq, n_block, n_block_seq (dynamic)
// Types:   f32 in, i32 blocks, positions, layer and window, f32 out, f32 accumulation
// Oracle:  oracles/paged.py attention_paged
// Try:     iree-opt components/attention/attention_paged.mlir
module @attention_paged {
  util.func public @forward(
      %q: tensor<?x?x?xf32>,          // [batch, seq, n_head*head_dim] queries
      %keys: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_head_kv*head_dim]
      %values: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_head_kv*head_dim]
      %block_table: tensor<?x?xi32>,  // [batch, n_block_seq] in [0, n_block)
      %start: tensor<?xi32>,          // [batch] position of the first query
      %layer: i32,                    // 0 to n_layer - 1
      %window: i32,                   // positions seen, the query's own included
      %scale: f32,                    // dimensionless
      %cap: f32,                      // bound of scores, 0 where they have none
      %n_head: index,                 // n_head
      %n_head_kv: index               // n_head_kv
  ) -> tensor<?x?x?xf32> {           // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    // Beyond it tanh is 1 in f32. A GPU may compute sinh / cosh, inf / inf from 89 up.
    %flat = arith.constant 10.0 : f32
    %flat_low = arith.constant -10.0 : f32
    %unseen_score = arith.constant -1.0e30 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %batch = tensor.dim %q, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %q, %c1 : tensor<?x?x?xf32>
    %n_block = tensor.dim %keys, %c1 : tensor<?x?x?x?xf32>
    %block_size = tensor.dim %keys, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %keys, %c3 : tensor<?x?x?x?xf32>
    %n_block_seq = tensor.dim %block_table, %c1 : tensor<?x?xi32>
    %ctx = arith.muli %n_block_seq, %block_size : index
    %head_dim = arith.divui %n_embd_kv, %n_head_kv : index
    %group = arith.divui %n_head, %n_head_kv : index
    %half = arith.divui %head_dim, %c2 : index
    %n_block_i32 = arith.index_cast %n_block : index to i32
    %last_block = arith.subi %n_block_i32, %one_i32 : i32
    %layer_index = arith.index_cast %layer : i32 to index

    // Step 1: a copy of the blocks, [batch, n_block_seq, block_size, n_head_kv*head_dim].
    // It is then read n_head / n_head_kv times, and in the order of its rows; without the
    // barriers each product would look every number up by itself.
    %found_init = tensor.empty(%batch, %n_block_seq, %block_size, %n_embd_kv)
        : tensor<?x?x?x?xf32>
    %found_k = linalg.generic {
      indexing_maps = [
        affine_map<(b, n, i, j) -> (b, n)>, affine_map<(b, n, i, j) -> (b, n, i, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%block_table : tensor<?x?xi32>) outs(%found_init : tensor<?x?x?x?xf32>) {
    ^bb0(%block: i32, %unused: f32):
      %i = linalg.index 2 : index
      %j = linalg.index 3 : index
      %from_zero = arith.maxsi %block, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %last_block : i32
      %number = arith.index_cast %inside : i32 to index
      %value = tensor.extract %keys[%layer_index, %number, %i, %j]
          : tensor<?x?x?x?xf32>
      linalg.yield %value : f32
    } -> tensor<?x?x?x?xf32>
    %ready_k = iree_tensor_ext.compute_barrier.start %found_k
        : tensor<?x?x?x?xf32>{%batch, %n_block_seq, %block_size, %n_embd_kv}
        -> tensor<?x?x?x?xf32>
    // Zero times what is behind the new tokens need not be zero, so it is not copied.
    %n_new = arith.index_cast %seq : index to i32
    %found_v = linalg.generic {
      indexing_maps = [
        affine_map<(b, n, i, j) -> (b, n)>, affine_map<(b, n, i, j) -> (b)>,
        affine_map<(b, n, i, j) -> (b, n, i, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%block_table, %start : tensor<?x?xi32>, tensor<?xi32>)
      outs(%found_init : tensor<?x?x?x?xf32>) {
    ^bb0(%block: i32, %first: i32, %unused: f32):
      %n = linalg.index 1 : index
      %i = linalg.index 2 : index
      %j = linalg.index 3 : index
      %from_zero = arith.maxsi %block, %zero_i32 : i32
      %inside = arith.minsi %from_zero, %last_block : i32
      %number = arith.index_cast %inside : i32 to index
      %value = tensor.extract %values[%layer_index, %number, %i, %j]
          : tensor<?x?x?x?xf32>
      %before = arith.muli %n, %block_size : index
      %place = arith.addi %before, %i : index
      %position = arith.index_cast %place : index to i32
      %end = arith.addi %first, %n_new : i32
      %is_written = arith.cmpi slt, %position, %end : i32
      %known = arith.select %is_written, %value, %zero : f32
      linalg.yield %known : f32
    } -> tensor<?x?x?x?xf32>
    %ready_v = iree_tensor_ext.compute_barrier.start %found_v
        : tensor<?x?x?x?xf32>{%batch, %n_block_seq, %block_size, %n_embd_kv}
        -> tensor<?x?x?x?xf32>

    // Step 2: heads, and halves of heads: q is then [batch, seq, n_head_kv, group, 2,
    // half], k and v [batch, n_block_seq*block_size, n_head_kv, 2, half]. The
    // halves lie apart in what steps 3 and 8 compute: it keeps keys and values with one
    // head out of --iree-opt-data-tiling, which would pack them at each call.
    %rows_k = tensor.collapse_shape %ready_k [[0], [1, 2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %rows_v = tensor.collapse_shape %ready_v [[0], [1, 2], [3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %q_halves = tensor.expand_shape %q [[0], [1], [2, 3, 4, 5]]
        output_shape [%batch, %seq, %n_head_kv, %group, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x?x2x?xf32>
    %k_halves = tensor.expand_shape %rows_k [[0], [1], [2, 3, 4]]
        output_shape [%batch, %ctx, %n_head_kv, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>
    %v_halves = tensor.expand_shape %rows_v [[0], [1], [2, 3, 4]]
        output_shape [%batch, %ctx, %n_head_kv, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>

    // Step 3: products of queries and keys, [2, batch, n_head_kv, group, seq, ctx].
    %product_init = tensor.empty(%batch, %n_head_kv, %group, %seq, %ctx)
        : tensor<2x?x?x?x?x?xf32>
    %product_zero = linalg.fill ins(%zero : f32)
        outs(%product_init : tensor<2x?x?x?x?x?xf32>) -> tensor<2x?x?x?x?x?xf32>
    %product = linalg.generic {
      indexing_maps = [
        affine_map<(n, b, h, g, s, j, d) -> (b, s, h, g, n, d)>,
        affine_map<(n, b, h, g, s, j, d) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, j, d) -> (n, b, h, g, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "parallel", "reduction"]
    } ins(%q_halves, %k_halves : tensor<?x?x?x?x2x?xf32>, tensor<?x?x?x2x?xf32>)
      outs(%product_zero : tensor<2x?x?x?x?x?xf32>) {
    ^bb0(%query: f32, %key: f32, %partial: f32):
      %term = arith.mulf %query, %key : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<2x?x?x?x?x?xf32>
    %product_low = tensor.extract_slice %product[0, 0, 0, 0, 0, 0]
        [1, %batch, %n_head_kv, %group, %seq, %ctx] [1, 1, 1, 1, 1, 1]
        : tensor<2x?x?x?x?x?xf32> to tensor<?x?x?x?x?xf32>
    %product_high = tensor.extract_slice %product[1, 0, 0, 0, 0, 0]
        [1, %batch, %n_head_kv, %group, %seq, %ctx] [1, 1, 1, 1, 1, 1]
        : tensor<2x?x?x?x?x?xf32> to tensor<?x?x?x?x?xf32>

    // Step 4: scaled, capped and masked scores, [batch, n_head_kv, group, seq, ctx].
    %is_capped = arith.cmpf ogt, %cap, %zero : f32
    %divisor = arith.select %is_capped, %cap, %one : f32
    %score_init = tensor.empty(%batch, %n_head_kv, %group, %seq, %ctx)
        : tensor<?x?x?x?x?xf32>
    %score = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>,
        affine_map<(b, h, g, s, j) -> (b)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%product_low, %product_high, %start
          : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?x?xf32>, tensor<?xi32>)
      outs(%score_init : tensor<?x?x?x?x?xf32>) {
    ^bb0(%low: f32, %high: f32, %first: i32, %unused: f32):
      %s = linalg.index 3 : index
      %j = linalg.index 4 : index
      %offset = arith.index_cast %s : index to i32
      %key_position = arith.index_cast %j : index to i32
      %position = arith.addi %first, %offset : i32
      %before = arith.subi %position, %window : i32
      %is_past = arith.cmpi sle, %key_position, %position : i32
      %is_near = arith.cmpi sgt, %key_position, %before : i32
      %is_seen = arith.andi %is_past, %is_near : i1
      %sum = arith.addf %low, %high : f32
      %scaled = arith.mulf %sum, %scale : f32
      %share = arith.divf %scaled, %divisor : f32
      %is_high = arith.cmpf ogt, %share, %flat : f32
      %lowered = arith.select %is_high, %flat, %share : f32
      %is_low = arith.cmpf olt, %lowered, %flat_low : f32
      %near = arith.select %is_low, %flat_low, %lowered : f32
      %bounded = math.tanh %near : f32
      %capped = arith.mulf %bounded, %cap : f32
      %limited = arith.select %is_capped, %capped, %scaled : f32
      %masked = arith.select %is_seen, %limited, %unseen_score : f32
      linalg.yield %masked : f32
    } -> tensor<?x?x?x?x?xf32>

    // Step 5: largest score of each query, [batch, n_head_kv, group, seq].
    %per_query = tensor.empty(%batch, %n_head_kv, %group, %seq) : tensor<?x?x?x?xf32>
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_query : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %peak = linalg.reduce { arith.maximumf } ins(%score : tensor<?x?x?x?x?xf32>)
        outs(%peak_init : tensor<?x?x?x?xf32>) dimensions = [4]

    // Step 6: unnormalised weights, [batch, n_head_kv, group, seq, ctx].
    %weight = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%score, %peak : tensor<?x?x?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%score_init : tensor<?x?x?x?x?xf32>) {
    ^bb0(%value: f32, %highest: f32, %unused: f32):
      %distance = arith.subf %value, %highest : f32
      %exponential = math.exp %distance : f32
      linalg.yield %exponential : f32
    } -> tensor<?x?x?x?x?xf32>

    // Step 7: sum of the weights of each query, [batch, n_head_kv, group, seq].
    %total_zero = linalg.fill ins(%zero : f32) outs(%per_query : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %total = linalg.reduce { arith.addf } ins(%weight : tensor<?x?x?x?x?xf32>)
        outs(%total_zero : tensor<?x?x?x?xf32>) dimensions = [4]

    // Step 8: weighted sum of the values, [2, batch, n_head_kv, group, seq, half].
    %mix_init = tensor.empty(%batch, %n_head_kv, %group, %seq, %half)
        : tensor<2x?x?x?x?x?xf32>
    %mix_zero = linalg.fill ins(%zero : f32) outs(%mix_init : tensor<2x?x?x?x?x?xf32>)
        -> tensor<2x?x?x?x?x?xf32>
    %mix = linalg.generic {
      indexing_maps = [
        affine_map<(n, b, h, g, s, d, j) -> (b, h, g, s, j)>,
        affine_map<(n, b, h, g, s, d, j) -> (b, j, h, n, d)>,
        affine_map<(n, b, h, g, s, d, j) -> (n, b, h, g, s, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                        "parallel", "reduction"]
    } ins(%weight, %v_halves : tensor<?x?x?x?x?xf32>, tensor<?x?x?x2x?xf32>)
      outs(%mix_zero : tensor<2x?x?x?x?x?xf32>) {
    ^bb0(%share: f32, %value: f32, %partial: f32):
      %term = arith.mulf %share, %value : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<2x?x?x?x?x?xf32>

    // Step 9: divide by the sum of the weights, and join the heads.
    %mean_init = tensor.empty(%batch, %seq, %n_head_kv, %group, %half)
        : tensor<?x?x?x?x2x?xf32>
    %mean = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, g, n, d) -> (n, b, h, g, s, d)>,
        affine_map<(b, s, h, g, n, d) -> (b, h, g, s)>,
        affine_map<(b, s, h, g, n, d) -> (b, s, h, g, n, d)>
      ],
      iterator_types =
          ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%mix, %total : tensor<2x?x?x?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%mean_init : tensor<?x?x?x?x2x?xf32>) {
    ^bb0(%value: f32, %sum: f32, %unused: f32):
      %quotient = arith.divf %value, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?x?x2x?xf32>
    %y = tensor.collapse_shape %mean [[0], [1], [2, 3, 4, 5]]
        : tensor<?x?x?x?x2x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
