// attention_bidirectional: every position attends to all real positions.
//
//   score[b, h, s, t] = sum_d(q[b, s, h, d] * k[b, t, h, d]) / sqrt(head_dim)
//   score[b, h, s, t] = -1e30 where mask[b, t] = 0
//   y[b, s, h, d]     = sum_t(softmax_t(score)[b, h, s, t] * v[b, t, h, d])
//
// where head_dim = n_embd / n_head, and head h is columns h*head_dim up to
// (h+1)*head_dim. What k and v are at positions of padding does not matter, NaN included.
// The masked score is finite, so that a sequence without any real position gives 0 and
// not NaN. One head alone does not compile for
// more than a few positions (tests/test_compiler_limits.py). All scores are in memory at
// once, and what is made of them: 8 bytes for each head, query and key, 32 MiB for 16
// heads and 512 positions.
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, eq. 1 and section 3.2.2;
//          mask: Devlin et al. 2018, arXiv:1810.04805.
// Exports: @attention_bidirectional.forward
// Imports: none
// Dims:    batch, seq (dynamic),
//          n_embd multiple of n_head, n_head >= 2 (fixed by specialize)
// Types:   f32 in, i32 mask, f32 out, f32 accumulation
// Oracle:  oracles/attention.py attention_bidirectional
// Try:     iree-opt components/attention/attention_bidirectional.mlir
module @attention_bidirectional {
  util.func public @forward(
      %q: tensor<?x?x?xf32>,   // [batch, seq, n_embd] queries
      %k: tensor<?x?x?xf32>,   // [batch, seq, n_embd] keys
      %v: tensor<?x?x?xf32>,   // [batch, seq, n_embd] values
      %mask: tensor<?x?xi32>,  // [batch, seq] 0 = padding, else a real position
      %n_head: index           // n_head
  ) -> tensor<?x?x?xf32> {     // [batch, seq, n_embd]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %masked_score = arith.constant -1.0e30 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %zero_i32 = arith.constant 0 : i32
    %block = arith.constant 8 : index
    %batch = tensor.dim %q, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %q, %c1 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %q, %c2 : tensor<?x?x?xf32>
    %head_dim = arith.divui %n_embd, %n_head : index
    %head_dim_i32 = arith.index_cast %head_dim : index to i32
    %head_dim_f32 = arith.uitofp %head_dim_i32 : i32 to f32
    %head_dim_sqrt = math.sqrt %head_dim_f32 : f32
    %scale = arith.divf %one, %head_dim_sqrt : f32

    // Step 1: values of padding become 0, because zero times a value need not be zero.
    %known_init = tensor.empty(%batch, %seq, %n_embd) : tensor<?x?x?xf32>
    %v_known = linalg.generic {
      indexing_maps = [
        affine_map<(b, t, j) -> (b, t, j)>,
        affine_map<(b, t, j) -> (b, t)>,
        affine_map<(b, t, j) -> (b, t, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%v, %mask : tensor<?x?x?xf32>, tensor<?x?xi32>)
      outs(%known_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %real: i32, %unused: f32):
      %is_padding = arith.cmpi eq, %real, %zero_i32 : i32
      %known = arith.select %is_padding, %zero, %value : f32
      linalg.yield %known : f32
    } -> tensor<?x?x?xf32>

    // Step 2: fill seq up to whole blocks of 8. A last block that is not whole runs as
    // scalar code: 61 positions took 3 times as long as 64.
    %n_block = arith.ceildivui %seq, %block : index
    %length = arith.muli %n_block, %block : index
    %filler = arith.subi %length, %seq : index
    %q_blocks = tensor.pad %q low[0, 0, 0] high[0, %filler, 0] {
    ^bb0(%b: index, %s: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %k_blocks = tensor.pad %k low[0, 0, 0] high[0, %filler, 0] {
    ^bb0(%b: index, %s: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %v_blocks = tensor.pad %v_known low[0, 0, 0] high[0, %filler, 0] {
    ^bb0(%b: index, %s: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %mask_blocks = tensor.pad %mask low[0, 0] high[0, %filler] {
    ^bb0(%b: index, %s: index):
      tensor.yield %zero_i32 : i32
    } : tensor<?x?xi32> to tensor<?x?xi32>

    // Step 3: split the columns into heads, [batch, length, n_head, head_dim].
    %q_heads = tensor.expand_shape %q_blocks [[0], [1], [2, 3]]
        output_shape [%batch, %length, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    %k_heads = tensor.expand_shape %k_blocks [[0], [1], [2, 3]]
        output_shape [%batch, %length, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>
    %v_heads = tensor.expand_shape %v_blocks [[0], [1], [2, 3]]
        output_shape [%batch, %length, %n_head, %head_dim]
        : tensor<?x?x?xf32> into tensor<?x?x?x?xf32>

    // Step 4: products of queries and keys, [batch, n_head, length, length].
    %score_init = tensor.empty(%batch, %n_head, %length, %length) : tensor<?x?x?x?xf32>
    %product_zero = linalg.fill ins(%zero : f32) outs(%score_init : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %product = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, t, d) -> (b, s, h, d)>,
        affine_map<(b, h, s, t, d) -> (b, t, h, d)>,
        affine_map<(b, h, s, t, d) -> (b, h, s, t)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%q_heads, %k_heads : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%product_zero : tensor<?x?x?x?xf32>) {
    ^bb0(%query: f32, %key: f32, %partial: f32):
      %term = arith.mulf %query, %key : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>

    // Step 5: scaled and masked scores, [batch, n_head, length, length]. The filler has
    // no share even where nothing else is real.
    %score = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, t) -> (b, h, s, t)>,
        affine_map<(b, h, s, t) -> (b, t)>,
        affine_map<(b, h, s, t) -> (b, h, s, t)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%product, %mask_blocks : tensor<?x?x?x?xf32>, tensor<?x?xi32>)
      outs(%score_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %real: i32, %unused: f32):
      %scaled = arith.mulf %value, %scale : f32
      %is_padding = arith.cmpi eq, %real, %zero_i32 : i32
      %masked = arith.select %is_padding, %masked_score, %scaled : f32
      %t = linalg.index 3 : index
      %is_position = arith.cmpi ult, %t, %seq : index
      %counted = arith.select %is_position, %masked, %lowest : f32
      linalg.yield %counted : f32
    } -> tensor<?x?x?x?xf32>

    // Step 6: largest score of each query, [batch, n_head, length].
    %per_query = tensor.empty(%batch, %n_head, %length) : tensor<?x?x?xf32>
    %peak_init = linalg.fill ins(%lowest : f32) outs(%per_query : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %peak = linalg.reduce { arith.maximumf } ins(%score : tensor<?x?x?x?xf32>)
        outs(%peak_init : tensor<?x?x?xf32>) dimensions = [3]

    // Step 7: unnormalised weights, [batch, n_head, length, length].
    %weight = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, t) -> (b, h, s, t)>,
        affine_map<(b, h, s, t) -> (b, h, s)>,
        affine_map<(b, h, s, t) -> (b, h, s, t)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%score, %peak : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%score_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %highest: f32, %unused: f32):
      %distance = arith.subf %value, %highest : f32
      %exponential = math.exp %distance : f32
      linalg.yield %exponential : f32
    } -> tensor<?x?x?x?xf32>

    // Step 8: sum of the weights of each query, [batch, n_head, length].
    %total_zero = linalg.fill ins(%zero : f32) outs(%per_query : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %total = linalg.reduce { arith.addf } ins(%weight : tensor<?x?x?x?xf32>)
        outs(%total_zero : tensor<?x?x?xf32>) dimensions = [3]

    // Step 9: weighted sum of the values, [batch, length, n_head, head_dim].
    %mix_init = tensor.empty(%batch, %length, %n_head, %head_dim) : tensor<?x?x?x?xf32>
    %mix_zero = linalg.fill ins(%zero : f32) outs(%mix_init : tensor<?x?x?x?xf32>)
        -> tensor<?x?x?x?xf32>
    %mix = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, d, t) -> (b, h, s, t)>,
        affine_map<(b, h, s, d, t) -> (b, t, h, d)>,
        affine_map<(b, h, s, d, t) -> (b, s, h, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
    } ins(%weight, %v_heads : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>)
      outs(%mix_zero : tensor<?x?x?x?xf32>) {
    ^bb0(%share: f32, %value: f32, %partial: f32):
      %term = arith.mulf %share, %value : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?x?xf32>

    // Step 10: divide by the sum of the weights, [batch, length, n_head, head_dim].
    %mean = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, h, d) -> (b, s, h, d)>,
        affine_map<(b, s, h, d) -> (b, h, s)>,
        affine_map<(b, s, h, d) -> (b, s, h, d)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%mix, %total : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%mix_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %sum: f32, %unused: f32):
      %quotient = arith.divf %value, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?x?xf32>

    // Step 11: join the heads, drop the filler, [batch, seq, n_embd].
    %joined = tensor.collapse_shape %mean [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    %y = tensor.extract_slice %joined[0, 0, 0] [%batch, %seq, %n_embd] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
