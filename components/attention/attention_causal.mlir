// attention_causal: each position attends to itself and to those before it, in a cache.
//
//   p                 = start[b] + s, the position of query s of sequence b
//   score[b, h, s, j] = scale * sum_d(q[b, s, h, d] * k[b, j, h / group, d])
//   score[b, h, s, j] = -1e30 unless p - window < j <= p
//   total[b, h, s]    = exp(sink[h]) + sum_j(exp(score[b, h, s, j]))
//   y[b, s, h, d]     = sum_j(exp(score[b, h, s, j]) * v[b, j, h / group, d])
//                       / total[b, h, s]
//
// where k and v are the layer of the caches, head h of q is columns h*head_dim up to
// (h+1)*head_dim, and group = n_head / n_head_kv heads of q read one head of k and v.
// The cache holds the new tokens already; what it holds behind them does not matter, NaN
// included. start[b] + seq is at most ctx.
//
// A sink is a score that every query of a head sees and that has no value; without sinks
// exp(sink[h]) is 0, and this is a softmax. A window of ctx or more is plain causal
// attention; it is at least 1. head_dim is even, as heads are read in halves, and 4 or
// more: 2 compiles for a short ctx alone (tests/test_compiler_limits.py).
//
// Queries are read block_size at a time: in memory are the scores of one block with the
// keys that it may see, 16 bytes for each head, query and position, and the result twice:
// of 9 heads, blocks of 64 and 2048 positions 18 MiB, and 576 MiB were it not so. A query
// stands at a position of its own number at least, and ctx - seq behind it at most, so
// that a block of first query f reads the keys from f - window + 1 to ctx - seq + f +
// block_size - 1: of a whole prompt about half, and less with a window. The keys of a
// block are read at once: the sums that Dao et al. carry from some keys to the next are
// of the kind that IREE 3.13 gets wrong (tests/test_compiler_loops.py). One query is one
// block, and no loop.
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, eq. 1 and section 3.2.3;
//          groups: Ainslie et al. 2023, arXiv:2305.13245, section 2.2;
//          window: Beltagy et al. 2020, arXiv:2004.05150, section 3.1;
//          sink: Xiao et al. 2023, arXiv:2309.17453, section 3.3 (zero sink), a learned
//          one: OpenAI 2025, arXiv:2508.10925, section 2.2;
//          blocks: Rabe & Staats 2021, arXiv:2112.05682, section 4;
//          Dao et al. 2022, arXiv:2205.14135, section 3.1.
// Exports: @attention_causal.forward
// Imports: none
// Dims:    n_layer, n_head, n_head_kv, even head_dim >= 4,
//          block_size (fixed by specialize), batch, seq, ctx (dynamic)
// Types:   f32 in, i32 positions, layer and window, f32 out, f32 accumulation
// Oracle:  oracles/attention.py attention_causal
// Try:     iree-opt components/attention/attention_causal.mlir
module @attention_causal {
  util.func public @forward(
      %q: tensor<?x?x?xf32>,          // [batch, seq, n_head*head_dim] queries
      %cache_k: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_head_kv*head_dim]
      %cache_v: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_head_kv*head_dim]
      %start: tensor<?xi32>,          // [batch] position of the first query
      %layer: i32,                    // 0 to n_layer - 1
      %window: i32,                   // positions seen, the query's own included
      %scale: f32,                    // dimensionless
      %n_head: index,                 // n_head
      %n_head_kv: index,              // n_head_kv
      %block_size: index,             // block_size of queries, or 64
      %sink: tensor<?xf32>            // [n_head] score of seeing nothing, or none
  ) -> tensor<?x?x?xf32> {            // [batch, seq, n_head*head_dim]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %unseen_score = arith.constant -1.0e30 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %batch = tensor.dim %q, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %q, %c1 : tensor<?x?x?xf32>
    %width = tensor.dim %q, %c2 : tensor<?x?x?xf32>
    %ctx = tensor.dim %cache_k, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %cache_k, %c3 : tensor<?x?x?x?xf32>
    %head_dim = arith.divui %n_embd_kv, %n_head_kv : index
    %group = arith.divui %n_head, %n_head_kv : index
    %half = arith.divui %head_dim, %c2 : index
    %layer_index = arith.index_cast %layer : i32 to index
    %window_index = arith.index_cast %window : i32 to index
    %n_sink = tensor.dim %sink, %c0 : tensor<?xf32>
    %n_sink_kv = arith.divui %n_sink, %group : index
    %sink_groups = tensor.expand_shape %sink [[0, 1]] output_shape [%n_sink_kv, %group]
        : tensor<?xf32> into tensor<?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %width) : tensor<?x?x?xf32>

    %y = scf.for %first_query = %c0 to %seq step %block_size
        iter_args(%y_before = %y_init) -> tensor<?x?x?xf32> {
      // Step 1: a block of queries, the last is what is left; the keys that one of them
      // may see, wherever its sequence starts.
      %left = arith.subi %seq, %first_query : index
      %length = arith.minsi %left, %block_size : index
      %room = arith.subi %ctx, %left : index
      %end_key = arith.addi %room, %length : index
      %next_query = arith.addi %first_query, %c1 : index
      %from = arith.subi %next_query, %window_index : index
      %first_key = arith.maxsi %from, %c0 : index
      %n_key = arith.subi %end_key, %first_key : index

      %q_block = tensor.extract_slice %q[0, %first_query, 0]
          [%batch, %length, %width] [1, 1, 1]
          : tensor<?x?x?xf32> to tensor<?x?x?xf32>
      %k = tensor.extract_slice %cache_k[%layer_index, 0, %first_key, 0]
          [1, %batch, %n_key, %n_embd_kv] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> to tensor<?x?x?xf32>
      %v = tensor.extract_slice %cache_v[%layer_index, 0, %first_key, 0]
          [1, %batch, %n_key, %n_embd_kv] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> to tensor<?x?x?xf32>

      // Step 2: heads, and halves of heads: q is then [batch, block, n_head_kv, group, 2,
      // half], k and v [batch, n_key, n_head_kv, 2, half]. The halves lie apart in what
      // steps 3 and 8 compute: it keeps keys and values with one head out of
      // --iree-opt-data-tiling, which would pack the layer at each call.
      %q_halves = tensor.expand_shape %q_block [[0], [1], [2, 3, 4, 5]]
          output_shape [%batch, %length, %n_head_kv, %group, 2, %half]
          : tensor<?x?x?xf32> into tensor<?x?x?x?x2x?xf32>
      %k_halves = tensor.expand_shape %k [[0], [1], [2, 3, 4]]
          output_shape [%batch, %n_key, %n_head_kv, 2, %half]
          : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>
      %v_halves = tensor.expand_shape %v [[0], [1], [2, 3, 4]]
          output_shape [%batch, %n_key, %n_head_kv, 2, %half]
          : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>

      // Step 3: products, [2, batch, n_head_kv, group, block, n_key].
      %product_init = tensor.empty(%batch, %n_head_kv, %group, %length, %n_key)
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
          [1, %batch, %n_head_kv, %group, %length, %n_key] [1, 1, 1, 1, 1, 1]
          : tensor<2x?x?x?x?x?xf32> to tensor<?x?x?x?x?xf32>
      %product_high = tensor.extract_slice %product[1, 0, 0, 0, 0, 0]
          [1, %batch, %n_head_kv, %group, %length, %n_key] [1, 1, 1, 1, 1, 1]
          : tensor<2x?x?x?x?x?xf32> to tensor<?x?x?x?x?xf32>

      // Step 4: scaled and masked scores, [batch, n_head_kv, group, block, n_key].
      %score_init = tensor.empty(%batch, %n_head_kv, %group, %length, %n_key)
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
        %query_place = arith.addi %first_query, %s : index
        %offset = arith.index_cast %query_place : index to i32
        %key_place = arith.addi %first_key, %j : index
        %key_position = arith.index_cast %key_place : index to i32
        %position = arith.addi %first, %offset : i32
        %before = arith.subi %position, %window : i32
        %is_past = arith.cmpi sle, %key_position, %position : i32
        %is_near = arith.cmpi sgt, %key_position, %before : i32
        %is_seen = arith.andi %is_past, %is_near : i1
        %sum = arith.addf %low, %high : f32
        %scaled = arith.mulf %sum, %scale : f32
        %masked = arith.select %is_seen, %scaled, %unseen_score : f32
        linalg.yield %masked : f32
      } -> tensor<?x?x?x?x?xf32>

      // Step 5: largest score of each query, [batch, n_head_kv, group, block]; the sink's
      // included, in the heads that have one: all or none.
      %per_query = tensor.empty(%batch, %n_head_kv, %group, %length)
          : tensor<?x?x?x?xf32>
      %peak_init = linalg.fill ins(%lowest : f32) outs(%per_query : tensor<?x?x?x?xf32>)
          -> tensor<?x?x?x?xf32>
      %seen_peak = linalg.reduce { arith.maximumf } ins(%score : tensor<?x?x?x?x?xf32>)
          outs(%peak_init : tensor<?x?x?x?xf32>) dimensions = [4]
      %sink_init = tensor.empty(%batch, %n_sink_kv, %group, %length)
          : tensor<?x?x?x?xf32>
      %seen_slice = tensor.extract_slice %seen_peak[0, 0, 0, 0]
          [%batch, %n_sink_kv, %group, %length] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> to tensor<?x?x?x?xf32>
      %sink_peak = linalg.generic {
        indexing_maps = [
          affine_map<(b, h, g, s) -> (b, h, g, s)>,
          affine_map<(b, h, g, s) -> (h, g)>,
          affine_map<(b, h, g, s) -> (b, h, g, s)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%seen_slice, %sink_groups : tensor<?x?x?x?xf32>, tensor<?x?xf32>)
        outs(%sink_init : tensor<?x?x?x?xf32>) {
      ^bb0(%highest: f32, %nothing: f32, %unused: f32):
        %higher = arith.maximumf %highest, %nothing : f32
        linalg.yield %higher : f32
      } -> tensor<?x?x?x?xf32>
      %peak = tensor.insert_slice %sink_peak into %seen_peak[0, 0, 0, 0]
          [%batch, %n_sink_kv, %group, %length] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> into tensor<?x?x?x?xf32>

      // Step 6: unnormalised weights, [batch, n_head_kv, group, block, n_key].
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

      // Step 7: sum of the weights of each query, the sink's included, in the same way,
      // [batch, n_head_kv, group, block].
      %total_zero = linalg.fill ins(%zero : f32) outs(%per_query : tensor<?x?x?x?xf32>)
          -> tensor<?x?x?x?xf32>
      %seen_total = linalg.reduce { arith.addf } ins(%weight : tensor<?x?x?x?x?xf32>)
          outs(%total_zero : tensor<?x?x?x?xf32>) dimensions = [4]
      %total_slice = tensor.extract_slice %seen_total[0, 0, 0, 0]
          [%batch, %n_sink_kv, %group, %length] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> to tensor<?x?x?x?xf32>
      %sink_total = linalg.generic {
        indexing_maps = [
          affine_map<(b, h, g, s) -> (b, h, g, s)>,
          affine_map<(b, h, g, s) -> (b, h, g, s)>,
          affine_map<(b, h, g, s) -> (h, g)>,
          affine_map<(b, h, g, s) -> (b, h, g, s)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%total_slice, %sink_peak, %sink_groups
            : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?xf32>)
        outs(%sink_init : tensor<?x?x?x?xf32>) {
      ^bb0(%sum: f32, %highest: f32, %nothing: f32, %unused: f32):
        %distance = arith.subf %nothing, %highest : f32
        %unspent = math.exp %distance : f32
        %all = arith.addf %sum, %unspent : f32
        linalg.yield %all : f32
      } -> tensor<?x?x?x?xf32>
      %total = tensor.insert_slice %sink_total into %seen_total[0, 0, 0, 0]
          [%batch, %n_sink_kv, %group, %length] [1, 1, 1, 1]
          : tensor<?x?x?x?xf32> into tensor<?x?x?x?xf32>

      // Step 8: weighted sum of the values, [2, batch, n_head_kv, group, block, half]. Zero
      // times what is behind the new tokens need not be zero: the region replaces it where
      // the product reads it, instead of in a copy.
      %written_init = tensor.empty(%batch, %n_key, %n_head_kv, %half)
          : tensor<?x?x?x2x?xf32>
      %mix_init = tensor.empty(%batch, %n_head_kv, %group, %length, %half)
          : tensor<2x?x?x?x?x?xf32>
      %mix = flow.dispatch.region -> (tensor<2x?x?x?x?x?xf32>
          {%batch, %n_head_kv, %group, %length, %half}) {
        %written = linalg.generic {
          indexing_maps = [
            affine_map<(b, j, h, n, d) -> (b, j, h, n, d)>,
            affine_map<(b, j, h, n, d) -> (b)>,
            affine_map<(b, j, h, n, d) -> (b, j, h, n, d)>
          ],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
        } ins(%v_halves, %start : tensor<?x?x?x2x?xf32>, tensor<?xi32>)
          outs(%written_init : tensor<?x?x?x2x?xf32>) {
        ^bb0(%value: f32, %first: i32, %unused: f32):
          %j = linalg.index 1 : index
          %key_place = arith.addi %first_key, %j : index
          %key_position = arith.index_cast %key_place : index to i32
          %n_new = arith.index_cast %seq : index to i32
          %end = arith.addi %first, %n_new : i32
          %is_written = arith.cmpi slt, %key_position, %end : i32
          %known = arith.select %is_written, %value, %zero : f32
          linalg.yield %known : f32
        } -> tensor<?x?x?x2x?xf32>
        %mix_zero = linalg.fill ins(%zero : f32)
            outs(%mix_init : tensor<2x?x?x?x?x?xf32>) -> tensor<2x?x?x?x?x?xf32>
        %sum = linalg.generic {
          indexing_maps = [
            affine_map<(n, b, h, g, s, d, j) -> (b, h, g, s, j)>,
            affine_map<(n, b, h, g, s, d, j) -> (b, j, h, n, d)>,
            affine_map<(n, b, h, g, s, d, j) -> (n, b, h, g, s, d)>
          ],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                            "parallel", "reduction"]
        } ins(%weight, %written : tensor<?x?x?x?x?xf32>, tensor<?x?x?x2x?xf32>)
          outs(%mix_zero : tensor<2x?x?x?x?x?xf32>) {
        ^bb0(%share: f32, %value: f32, %partial: f32):
          %term = arith.mulf %share, %value : f32
          %next = arith.addf %partial, %term : f32
          linalg.yield %next : f32
        } -> tensor<2x?x?x?x?x?xf32>
        flow.return %sum : tensor<2x?x?x?x?x?xf32>
      }

      // Step 9: divide by the sum of the weights, join the heads, and put the block where
      // its queries stand.
      %mean_init = tensor.empty(%batch, %length, %n_head_kv, %group, %half)
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
      %y_block = tensor.collapse_shape %mean [[0], [1], [2, 3, 4, 5]]
          : tensor<?x?x?x?x2x?xf32> into tensor<?x?x?xf32>
      %y_after = tensor.insert_slice %y_block into %y_before[0, %first_query, 0]
          [%batch, %length, %width] [1, 1, 1]
          : tensor<?x?x?xf32> into tensor<?x?x?xf32>
      scf.yield %y_after : tensor<?x?x?xf32>
    }
    util.return %y : tensor<?x?x?xf32>
  }
}
