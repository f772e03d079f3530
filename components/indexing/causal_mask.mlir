// causal_mask: scores of keys that a query may not see become very small.
//
//   p             = start[b] + s, the position of query s of sequence b
//   y[b, h, s, j] = score[b, h, s, j] where p - window < j <= p, -1e30 elsewhere
//
// -1e30 and not infinity: a row of nothing else does not become NaN in softmax. A
// window of ctx or more is a plain causal mask; it is at least 1.
//
// Source:  Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3;
//          window: Beltagy et al. 2020, arXiv:2004.05150, section 3.1.
// Exports: @causal_mask.forward
// Imports: none
// Dims:    batch, seq, ctx (dynamic), n_head (fixed by specialize)
// Types:   f32 in, i32 positions and window, f32 out
// Oracle:  oracles/indexing.py causal_mask
// Try:     iree-opt components/indexing/causal_mask.mlir
module @causal_mask {
  util.func public @forward(
      %score: tensor<?x?x?x?xf32>,  // [batch, n_head, seq, ctx]
      %start: tensor<?xi32>,        // [batch] position of the first query
      %window: i32                  // positions seen, the query's own included
  ) -> tensor<?x?x?x?xf32> {        // [batch, n_head, seq, ctx]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %unseen_score = arith.constant -1.0e30 : f32
    %batch = tensor.dim %score, %c0 : tensor<?x?x?x?xf32>
    %n_head = tensor.dim %score, %c1 : tensor<?x?x?x?xf32>
    %seq = tensor.dim %score, %c2 : tensor<?x?x?x?xf32>
    %ctx = tensor.dim %score, %c3 : tensor<?x?x?x?xf32>
    %y_init = tensor.empty(%batch, %n_head, %seq, %ctx) : tensor<?x?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, h, s, j) -> (b, h, s, j)>,
        affine_map<(b, h, s, j) -> (b)>,
        affine_map<(b, h, s, j) -> (b, h, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%score, %start : tensor<?x?x?x?xf32>, tensor<?xi32>)
      outs(%y_init : tensor<?x?x?x?xf32>) {
    ^bb0(%value: f32, %first: i32, %unused: f32):
      %s = linalg.index 2 : index
      %j = linalg.index 3 : index
      %offset = arith.index_cast %s : index to i32
      %key_position = arith.index_cast %j : index to i32
      %position = arith.addi %first, %offset : i32
      %before = arith.subi %position, %window : i32
      %is_past = arith.cmpi sle, %key_position, %position : i32
      %is_near = arith.cmpi sgt, %key_position, %before : i32
      %is_seen = arith.andi %is_past, %is_near : i1
      %masked = arith.select %is_seen, %value, %unseen_score : f32
      linalg.yield %masked : f32
    } -> tensor<?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?xf32>
  }
}
