// attention_paged_decode: attention_paged of one query a sequence, without a copy.
//
//   score[b, h, j] = scale * sum_d(q[b, 0, h, d] * k[b, j, h / group, d])
//   score[b, h, j] = cap * tanh(score[b, h, j] / cap) where cap > 0
//   score[b, h, j] = -1e30 unless start[b] - window < j <= start[b]
//   y[b, 0, h, d]  = sum_j(softmax_j(score)[b, h, j] * v[b, j, h / group, d])
//
// where k[b] and v[b] are the blocks of the layer that row b of the table lists, one
// behind the other, head h of q is columns h*head_dim up to (h+1)*head_dim, and group =
// n_head / n_head_kv heads of q read one head of k and v: each where it lies, once. The
// pool holds the new token already; what it holds behind it does not matter, NaN
// included. A window of the table's positions or more is plain causal attention; it is at least 1. A block that the pool does not have, and a
// query behind the table's last position, are undefined: numbers are wrong, no other
// memory is read.
//
// Source:  Kwon et al. 2023, arXiv:2309.06180, section 4.1, eq. 4;
//          groups: Ainslie et al. 2023, arXiv:2305.13245, section 2.2;
//          window: Beltagy et al. 2020, arXiv:2004.05150, section 3.1;
//          cap: Gemma Team 2024, arXiv:2408.00118, section 2.
// Exports: @attention_paged_decode.forward
// Imports: none
// Dims:    n_layer, block_size, n_head, n_head_kv, head_dim (fixed by specialize),
//          batch, n_block, n_block_seq (dynamic)
// Types:   f32 in, i32 blocks, positions, layer and window, f32 out, f32 accumulation
// Oracle:  oracles/paged.py attention_paged_decode
// Try:     iree-opt components/attention/attention_paged_decode.mlir
module @attention_paged_decode {
  util.func public @forward(
      %q: tensor<?x1x?xf32>,       // [batch, 1, n_head*head_dim] queries
      %keys: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_head_kv*head_dim]
      %values: tensor<?x?x?x?xf32>,  // [n_layer, n_block, block_size, n_head_kv*head_dim]
      %block_table: tensor<?x?xi32>,  // [batch, n_block_seq] in [0, n_block)
      %start: tensor<?xi32>,          // [batch] position of the query
      %layer: i32,                    // 0 to n_layer - 1
      %window: i32,                   // positions seen, the query's own included
      %scale: f32,                    // dimensionless
      %cap: f32,                      // bound of scores, 0 where they have none
      %n_head: index,                 // n_head
      %n_head_kv: index               // n_head_kv
  ) -> tensor<?x1x?xf32> {           // [batch, 1, n_head*head_dim]
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
    %batch = tensor.dim %q, %c0 : tensor<?x1x?xf32>
    %n_layer = tensor.dim %keys, %c0 : tensor<?x?x?x?xf32>
    %n_block = tensor.dim %keys, %c1 : tensor<?x?x?x?xf32>
    %block_size = tensor.dim %keys, %c2 : tensor<?x?x?x?xf32>
    %n_embd_kv = tensor.dim %keys, %c3 : tensor<?x?x?x?xf32>
    %n_block_seq = tensor.dim %block_table, %c1 : tensor<?x?xi32>
    %head_dim = arith.divui %n_embd_kv, %n_head_kv : index
    %group = arith.divui %n_head, %n_head_kv : index
    %n_block_i32 = arith.index_cast %n_block : index to i32
    %ctx = arith.muli %n_block_seq, %block_size : index
    %last_block = arith.subi %n_block_i32, %one_i32 : i32
    %layer_index = arith.index_cast %layer : i32 to index

    // Step 1: heads; and of queries the columns of a group side by side, scaled,
    // [batch, n_head_kv, head_dim, group]: step 2 multiplies a group at once.
    %keys_heads = tensor.expand_shape %keys [[0], [1], [2], [3, 4]]
        output_shape [%n_layer, %n_block, %block_size, %n_head_kv, %head_dim]
        : tensor<?x?x?x?xf32> into tensor<?x?x?x?x?xf32>
    %values_heads = tensor.expand_shape %values [[0], [1], [2], [3, 4]]
        output_shape [%n_layer, %n_block, %block_size, %n_head_kv, %head_dim]
        : tensor<?x?x?x?xf32> into tensor<?x?x?x?x?xf32>
    %q_rows = tensor.collapse_shape %q [[0], [1, 2]]
        : tensor<?x1x?xf32> into tensor<?x?xf32>
    %q_heads = tensor.expand_shape %q_rows [[0], [1, 2, 3]]
        output_shape [%batch, %n_head_kv, %group, %head_dim]
        : tensor<?x?xf32> into tensor<?x?x?x?xf32>
    %columns_init = tensor.empty(%batch, %n_head_kv, %head_dim, %group)
        : tensor<?x?x?x?xf32>
    %columns = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, d, g) -> (b, h, g, d)>,
        affine_map<(b, h, d, g) -> (b, h, d, g)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%q_heads : tensor<?x?x?x?xf32>) outs(%columns_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %column = arith.mulf %value, %scale : f32
      linalg.yield %column : f32
    } -> tensor<?x?x?x?xf32>

    // Step 2: capped and masked scores, [batch, n_head_kv, group, ctx]. Left to itself
    // the compiler makes a kernel of the look-up alone, which writes all that it finds:
    // the copy. In a region of their own each tile is looked up where it is multiplied.
    %found_init = tensor.empty(%batch, %ctx, %n_head_kv, %head_dim)
        : tensor<?x?x?x?xf32>
    %product_init = tensor.empty(%batch, %n_head_kv, %ctx, %group)
        : tensor<?x?x?x?xf32>
    %score_init = tensor.empty(%batch, %n_head_kv, %group, %ctx) : tensor<?x?x?x?xf32>
    %is_capped = arith.cmpf ogt, %cap, %zero : f32
    %divisor = arith.select %is_capped, %cap, %one : f32
    %score = flow.dispatch.region
        -> (tensor<?x?x?x?xf32>{%batch, %n_head_kv, %group, %ctx}) {
      %found_keys = linalg.generic {
        indexing_maps = [affine_map<(b, j, h, d) -> (b, j, h, d)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } outs(%found_init : tensor<?x?x?x?xf32>) {
      ^bb0(%unused: f32):
        %b = linalg.index 0 : index
        %j = linalg.index 1 : index
        %h = linalg.index 2 : index
        %d = linalg.index 3 : index
        %n = arith.divui %j, %block_size : index
        %i = arith.remui %j, %block_size : index
        %block = tensor.extract %block_table[%b, %n] : tensor<?x?xi32>
        %from_zero = arith.maxsi %block, %zero_i32 : i32
        %inside = arith.minsi %from_zero, %last_block : i32
        %number = arith.index_cast %inside : i32 to index
        %value = tensor.extract %keys_heads[%layer_index, %number, %i, %h, %d]
            : tensor<?x?x?x?x?xf32>
        linalg.yield %value : f32
      } -> tensor<?x?x?x?xf32>
      %product_zero = linalg.fill ins(%zero : f32)
          outs(%product_init : tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
      %product = linalg.generic {
        indexing_maps = [
          affine_map<(b, h, j, g, d) -> (b, j, h, d)>,
          affine_map<(b, h, j, g, d) -> (b, h, d, g)>,
          affine_map<(b, h, j, g, d) -> (b, h, j, g)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
      } ins(%found_keys, %columns : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>)
        outs(%product_zero : tensor<?x?x?x?xf32>) {
      ^bb0(%key: f32, %query: f32, %partial: f32):
        %term = arith.mulf %query, %key : f32
        %next = arith.addf %partial, %term : f32
        linalg.yield %next : f32
      } -> tensor<?x?x?x?xf32>
      %masked_score = linalg.generic {
        indexing_maps = [
          affine_map<(b, h, g, j) -> (b, h, j, g)>,
          affine_map<(b, h, g, j) -> (b)>,
          affine_map<(b, h, g, j) -> (b, h, g, j)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%product, %start : tensor<?x?x?x?xf32>, tensor<?xi32>)
        outs(%score_init : tensor<?x?x?x?xf32>) {
      ^bb0(%sum: f32, %position: i32, %unused: f32):
        %j = linalg.index 3 : index
        %key_position = arith.index_cast %j : index to i32
        %before = arith.subi %position, %window : i32
        %is_past = arith.cmpi sle, %key_position, %position : i32
        %is_near = arith.cmpi sgt, %key_position, %before : i32
        %is_seen = arith.andi %is_past, %is_near : i1
        %share = arith.divf %sum, %divisor : f32
        %is_high = arith.cmpf ogt, %share, %flat : f32
        %lowered = arith.select %is_high, %flat, %share : f32
        %is_low = arith.cmpf olt, %lowered, %flat_low : f32
        %near = arith.select %is_low, %flat_low, %lowered : f32
        %bounded = math.tanh %near : f32
        %capped = arith.mulf %bounded, %cap : f32
        %limited = arith.select %is_capped, %capped, %sum : f32
        %masked = arith.select %is_seen, %limited, %unseen_score : f32
        linalg.yield %masked : f32
      } -> tensor<?x?x?x?xf32>
      flow.return %masked_score : tensor<?x?x?x?xf32>
    }

    // Step 3: largest score of each head, [batch, n_head_kv, group].
    %per_head = tensor.empty(%batch, %n_head_kv, %group) : tensor<?x?x?xf32>
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_head : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %peak = linalg.reduce { arith.maximumf } ins(%score : tensor<?x?x?x?xf32>)
        outs(%peak_init : tensor<?x?x?xf32>) dimensions = [3]

    // Step 4: unnormalised weights, [batch, n_head_kv, group, ctx].
    %weight = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, j) -> (b, h, g, j)>,
        affine_map<(b, h, g, j) -> (b, h, g)>,
        affine_map<(b, h, g, j) -> (b, h, g, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%score, %peak : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%score_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %highest: f32, %unused: f32):
      %distance = arith.subf %value, %highest : f32
      %exponential = math.exp %distance : f32
      linalg.yield %exponential : f32
    } -> tensor<?x?x?x?xf32>

    // Step 5: sum of the weights of each head, [batch, n_head_kv, group].
    %total_zero = linalg.fill ins(%zero : f32) outs(%per_head : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %total = linalg.reduce { arith.addf } ins(%weight : tensor<?x?x?x?xf32>)
        outs(%total_zero : tensor<?x?x?xf32>) dimensions = [3]

    // Step 6: weighted sum of the values, [batch, n_head_kv, group, head_dim]. Zero times
    // what is behind the new token need not be zero, so it is not looked up.
    %mix_init = tensor.empty(%batch, %n_head_kv, %group, %head_dim)
        : tensor<?x?x?x?xf32>
    %mix = flow.dispatch.region
        -> (tensor<?x?x?x?xf32>{%batch, %n_head_kv, %group, %head_dim}) {
      %found_values = linalg.generic {
        indexing_maps = [
          affine_map<(b, j, h, d) -> (b)>, affine_map<(b, j, h, d) -> (b, j, h, d)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%start : tensor<?xi32>) outs(%found_init : tensor<?x?x?x?xf32>) {
      ^bb0(%position: i32, %unused: f32):
        %b = linalg.index 0 : index
        %j = linalg.index 1 : index
        %h = linalg.index 2 : index
        %d = linalg.index 3 : index
        %n = arith.divui %j, %block_size : index
        %i = arith.remui %j, %block_size : index
        %block = tensor.extract %block_table[%b, %n] : tensor<?x?xi32>
        %from_zero = arith.maxsi %block, %zero_i32 : i32
        %inside = arith.minsi %from_zero, %last_block : i32
        %number = arith.index_cast %inside : i32 to index
        %value = tensor.extract %values_heads[%layer_index, %number, %i, %h, %d]
            : tensor<?x?x?x?x?xf32>
        %key_position = arith.index_cast %j : index to i32
        %is_written = arith.cmpi sle, %key_position, %position : i32
        %known = arith.select %is_written, %value, %zero : f32
        linalg.yield %known : f32
      } -> tensor<?x?x?x?xf32>
      %mix_zero = linalg.fill ins(%zero : f32) outs(%mix_init : tensor<?x?x?x?xf32>)
          -> tensor<?x?x?x?xf32>
      %sum = linalg.generic {
        indexing_maps = [
          affine_map<(b, h, g, d, j) -> (b, h, g, j)>,
          affine_map<(b, h, g, d, j) -> (b, j, h, d)>,
          affine_map<(b, h, g, d, j) -> (b, h, g, d)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
      } ins(%weight, %found_values : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>)
        outs(%mix_zero : tensor<?x?x?x?xf32>) {
      ^bb0(%share: f32, %value: f32, %partial: f32):
        %term = arith.mulf %share, %value : f32
        %next = arith.addf %partial, %term : f32
        linalg.yield %next : f32
      } -> tensor<?x?x?x?xf32>
      flow.return %sum : tensor<?x?x?x?xf32>
    }

    // Step 7: divide by the sum of the weights, and join the heads.
    %mean = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, g, d) -> (b, h, g, d)>,
        affine_map<(b, h, g, d) -> (b, h, g)>,
        affine_map<(b, h, g, d) -> (b, h, g, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%mix, %total : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%mix_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %sum: f32, %unused: f32):
      %quotient = arith.divf %value, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?x?xf32>
    %rows = tensor.collapse_shape %mean [[0], [1, 2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?xf32>
    %n_embd = arith.muli %n_head, %head_dim : index
    %y = tensor.expand_shape %rows [[0], [1, 2]] output_shape [%batch, 1, %n_embd]
        : tensor<?x?xf32> into tensor<?x1x?xf32>
    util.return %y : tensor<?x1x?xf32>
  }
}
