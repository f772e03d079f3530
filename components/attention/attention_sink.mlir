// attention_sink: causal attention over a cache, where a query may also see nothing.
//
//   p                 = start[b] + s, the position of query s of sequence b
//   score[b, h, s, j] = scale * sum_d(q[b, s, h, d] * k[b, j, h / group, d])
//                       for p - window < j <= p
//   total[b, h, s]    = exp(sink[h]) + sum_j(exp(score[b, h, s, j]))
//   y[b, s, h, d]     = sum_j(exp(score[b, h, s, j]) * v[b, j, h / group, d])
//                       / total[b, h, s]
//
// The sink is a score that every query of a head sees and that has no value. All else
// is as in attention_causal: the halves of heads, the window (ctx or more of it is plain
// causal attention), and what a cache may hold where nothing is seen. head_dim is as
// there; start[b] + seq is at most ctx. All scores are in memory at once, with what they
// are made of and what is made of them: 16 bytes for each head, query and position, 576
// MiB for 9 heads, 2048 and 2048.
//
// Source:  Xiao et al. 2023, arXiv:2309.17453, section 3.3 (zero sink); a learned sink
//          a head: OpenAI 2025, arXiv:2508.10925, section 2.2; the rest as
//          attention_causal.
// Exports: @attention_sink.forward
// Imports: none
// Dims:    n_layer, n_head, n_head_kv, even head_dim >= 4 (fixed by specialize),
//          batch, seq, ctx (dynamic)
// Types:   f32 in, i32 positions, layer and window, f32 out, f32 accumulation
// Oracle:  oracles/attention.py attention_sink
// Try:     iree-opt components/attention/attention_sink.mlir
module @attention_sink {
  util.func public @forward(
      %q: tensor<?x?x?xf32>,          // [batch, seq, n_head*head_dim] queries
      %cache_k: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_head_kv*head_dim]
      %cache_v: tensor<?x?x?x?xf32>,  // [n_layer, batch, ctx, n_head_kv*head_dim]
      %start: tensor<?xi32>,          // [batch] position of the first query
      %sink: tensor<?xf32>,           // [n_head] score of seeing nothing
      %layer: i32,                    // 0 to n_layer - 1
      %window: i32,                   // positions seen, the query's own included
      %scale: f32,                    // dimensionless
      %n_head: index,                 // n_head
      %n_head_kv: index               // n_head_kv
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
    %ctx = tensor.dim %cache_k, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %cache_k, %c3 : tensor<?x?x?x?xf32>
    %head_dim = arith.divui %n_embd_kv, %n_head_kv : index
    %group = arith.divui %n_head, %n_head_kv : index
    %half = arith.divui %head_dim, %c2 : index
    %layer_index = arith.index_cast %layer : i32 to index

    // Step 1: the layer of the caches; heads, and halves of heads: q is then [batch,
    // seq, n_head_kv, group, 2, half], k and v [batch, ctx, n_head_kv, 2, half]. The
    // halves lie apart in what steps 2 and 7 compute: it keeps keys and values with one
    // head out of --iree-opt-data-tiling, which would pack the layer at each call.
    %k = tensor.extract_slice
        %cache_k[%layer_index, 0, 0, 0] [1, %batch, %ctx, %n_embd_kv] [1, 1, 1, 1]
        : tensor<?x?x?x?xf32> to tensor<?x?x?xf32>
    %v = tensor.extract_slice
        %cache_v[%layer_index, 0, 0, 0] [1, %batch, %ctx, %n_embd_kv] [1, 1, 1, 1]
        : tensor<?x?x?x?xf32> to tensor<?x?x?xf32>
    %q_halves = tensor.expand_shape %q [[0], [1], [2, 3, 4, 5]]
        output_shape [%batch, %seq, %n_head_kv, %group, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x?x2x?xf32>
    %k_halves = tensor.expand_shape %k [[0], [1], [2, 3, 4]]
        output_shape [%batch, %ctx, %n_head_kv, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>
    %v_halves = tensor.expand_shape %v [[0], [1], [2, 3, 4]]
        output_shape [%batch, %ctx, %n_head_kv, 2, %half]
        : tensor<?x?x?xf32> into tensor<?x?x?x2x?xf32>

    %sink_groups = tensor.expand_shape %sink [[0, 1]] output_shape [%n_head_kv, %group]
        : tensor<?xf32> into tensor<?x?xf32>

    // Step 2: products of queries and keys, [2, batch, n_head_kv, group, seq, ctx].
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

    // Step 3: scaled and masked scores, [batch, n_head_kv, group, seq, ctx].
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
      %masked = arith.select %is_seen, %scaled, %unseen_score : f32
      linalg.yield %masked : f32
    } -> tensor<?x?x?x?x?xf32>

    // Step 4: largest score of each query, the sink's included,
    // [batch, n_head_kv, group, seq].
    %per_query = tensor.empty(%batch, %n_head_kv, %group, %seq) : tensor<?x?x?x?xf32>
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_query : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %seen_peak = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%score : tensor<?x?x?x?x?xf32>) outs(%peak_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %next = arith.maximumf %partial, %value : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>
    %peak = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, s) -> (b, h, g, s)>,
        affine_map<(b, h, g, s) -> (h, g)>,
        affine_map<(b, h, g, s) -> (b, h, g, s)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%seen_peak, %sink_groups : tensor<?x?x?x?xf32>, tensor<?x?xf32>)
      outs(%per_query : tensor<?x?x?x?xf32>) {
    ^bb0(%highest: f32, %nothing: f32, %unused: f32):
      %higher = arith.maximumf %highest, %nothing : f32
      linalg.yield %higher : f32
    } -> tensor<?x?x?x?xf32>

    // Step 5: unnormalised weights, [batch, n_head_kv, group, seq, ctx].
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

    // Step 6: sum of the weights of each query, [batch, n_head_kv, group, seq].
    %total_zero = linalg.fill ins(%zero : f32) outs(%per_query : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %total = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, s, j) -> (b, h, g, s, j)>,
        affine_map<(b, h, g, s, j) -> (b, h, g, s)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%weight : tensor<?x?x?x?x?xf32>) outs(%total_zero : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %partial: f32):
      %next = arith.addf %partial, %value : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>

    // Step 7: weighted sum of the values, [2, batch, n_head_kv, group, seq, half].
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

    // Step 8: divide by the sum of the weights and the sink's, and join the heads.
    %mean_init = tensor.empty(%batch, %seq, %n_head_kv, %group, %half)
        : tensor<?x?x?x?x2x?xf32>
    %mean = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, g, n, d) -> (n, b, h, g, s, d)>,
        affine_map<(b, s, h, g, n, d) -> (b, h, g, s)>,
        affine_map<(b, s, h, g, n, d) -> (b, h, g, s)>,
        affine_map<(b, s, h, g, n, d) -> (h, g)>,
        affine_map<(b, s, h, g, n, d) -> (b, s, h, g, n, d)>
      ],
      iterator_types =
          ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%mix, %total, %peak, %sink_groups : tensor<2x?x?x?x?x?xf32>,
          tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?xf32>)
      outs(%mean_init : tensor<?x?x?x?x2x?xf32>) {
    ^bb0(%value: f32, %sum: f32, %highest: f32, %nothing: f32, %unused: f32):
      %distance = arith.subf %nothing, %highest : f32
      %unspent = math.exp %distance : f32
      %all = arith.addf %sum, %unspent : f32
      %quotient = arith.divf %value, %all : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?x?x2x?xf32>
    %y = tensor.collapse_shape %mean [[0], [1], [2, 3, 4, 5]]
        : tensor<?x?x?x?x2x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
