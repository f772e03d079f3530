// expert_router: the experts with the largest logits, and their shares.
//
//   share[b, s, k] = softmax(logits[b, s])[ids[b, s, k]]
//
// where ids[b, s, k] is the expert with the k-th largest logit; of equal logits the
// lower number comes first. The softmax is over all experts: shares of the chosen ones
// add up to less than 1. Divided by their sum (moe/renormalize) they are the softmax
// over the chosen experts alone. Where logits are NaN the ids are experts nonetheless,
// not all of them different, and the shares say nothing.
//
// Source:  Shazeer et al. 2017, arXiv:1701.06538, section 2.1 (without its noise).
// Exports: @expert_router.forward
// Imports: none
// Dims:    n_expert, n_expert_used (fixed by specialize), batch, seq (dynamic)
// Types:   f32 in, i32 and f32 out, f32 accumulation
// Oracle:  oracles/moe.py expert_router
// Try:     iree-opt components/moe/expert_router.mlir
module @expert_router {
  util.func public @forward(
      %logits: tensor<?x?x?xf32>,  // [batch, seq, n_expert]
      %n_expert_used: index        // n_expert_used
  ) -> (
      tensor<?x?x?xi32>,  // [batch, seq, n_expert_used] experts, best first
      tensor<?x?x?xf32>   // [batch, seq, n_expert_used] shares
  ) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %lowest = arith.constant 0xFF800000 : f32
    %batch = tensor.dim %logits, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %logits, %c1 : tensor<?x?x?xf32>
    %n_expert = tensor.dim %logits, %c2 : tensor<?x?x?xf32>

    // Step 1: largest logit of each row, and the sum of the others relative to it.
    %row_init = tensor.empty(%batch, %seq) : tensor<?x?xf32>
    %row_lowest = linalg.fill ins(%lowest : f32) outs(%row_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %peak = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, e) -> (b, s, e)>, affine_map<(b, s, e) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%logits : tensor<?x?x?xf32>) outs(%row_lowest : tensor<?x?xf32>) {
    ^bb0(%logit: f32, %partial: f32):
      %next = arith.maximumf %partial, %logit : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>
    %row_zero = linalg.fill ins(%zero : f32) outs(%row_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %total = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, e) -> (b, s, e)>, affine_map<(b, s, e) -> (b, s)>,
        affine_map<(b, s, e) -> (b, s)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%logits, %peak : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%row_zero : tensor<?x?xf32>) {
    ^bb0(%logit: f32, %highest: f32, %partial: f32):
      %distance = arith.subf %logit, %highest : f32
      %exponential = math.exp %distance : f32
      %next = arith.addf %partial, %exponential : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>

    // Step 2: how many experts come before each one, [batch, seq, n_expert]. Comparing
    // logits is exact: no rounding of shares makes two of them equal.
    %rank_init = tensor.empty(%batch, %seq, %n_expert) : tensor<?x?x?xi32>
    %rank_zero = linalg.fill ins(%zero_i32 : i32) outs(%rank_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>
    %rank = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, e, f) -> (b, s, e)>, affine_map<(b, s, e, f) -> (b, s, f)>,
        affine_map<(b, s, e, f) -> (b, s, e)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%logits, %logits : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%rank_zero : tensor<?x?x?xi32>) {
    ^bb0(%own: f32, %other: f32, %partial: i32):
      %e = linalg.index 2 : index
      %f = linalg.index 3 : index
      %is_larger = arith.cmpf ogt, %other, %own : f32
      %is_equal = arith.cmpf oeq, %other, %own : f32
      %is_lower = arith.cmpi ult, %f, %e : index
      %wins_tie = arith.andi %is_equal, %is_lower : i1
      %is_before = arith.ori %is_larger, %wins_tie : i1
      %count = arith.select %is_before, %one_i32, %zero_i32 : i32
      %next = arith.addi %partial, %count : i32
      linalg.yield %next : i32
    } -> tensor<?x?x?xi32>

    // Step 3: the expert of each rank, [batch, seq, n_expert_used]. The largest number
    // of those that have it: it stays an expert's even where logits are no numbers.
    %ids_init = tensor.empty(%batch, %seq, %n_expert_used) : tensor<?x?x?xi32>
    %ids_zero = linalg.fill ins(%zero_i32 : i32) outs(%ids_init : tensor<?x?x?xi32>)
        -> tensor<?x?x?xi32>
    %ids = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, k, e) -> (b, s, e)>, affine_map<(b, s, k, e) -> (b, s, k)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%rank : tensor<?x?x?xi32>) outs(%ids_zero : tensor<?x?x?xi32>) {
    ^bb0(%place: i32, %partial: i32):
      %k = linalg.index 2 : index
      %e = linalg.index 3 : index
      %wanted = arith.index_cast %k : index to i32
      %number = arith.index_cast %e : index to i32
      %is_wanted = arith.cmpi eq, %place, %wanted : i32
      %candidate = arith.select %is_wanted, %number, %zero_i32 : i32
      %next = arith.maxsi %partial, %candidate : i32
      linalg.yield %next : i32
    } -> tensor<?x?x?xi32>

    // Step 4: its share, [batch, seq, n_expert_used].
    %share_init = tensor.empty(%batch, %seq, %n_expert_used) : tensor<?x?x?xf32>
    %share = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, k) -> (b, s, k)>, affine_map<(b, s, k) -> (b, s)>,
        affine_map<(b, s, k) -> (b, s)>, affine_map<(b, s, k) -> (b, s, k)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%ids, %peak, %total : tensor<?x?x?xi32>, tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%share_init : tensor<?x?x?xf32>) {
    ^bb0(%id: i32, %highest: f32, %sum: f32, %unused: f32):
      %b = linalg.index 0 : index
      %s = linalg.index 1 : index
      %expert = arith.index_cast %id : i32 to index
      %logit = tensor.extract %logits[%b, %s, %expert] : tensor<?x?x?xf32>
      %distance = arith.subf %logit, %highest : f32
      %exponential = math.exp %distance : f32
      %quotient = arith.divf %exponential, %sum : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?x?xf32>
    util.return %ids, %share : tensor<?x?x?xi32>, tensor<?x?x?xf32>
  }
}
