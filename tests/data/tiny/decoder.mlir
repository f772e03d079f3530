// The next token is (w + the sum of all tokens so far) mod 258; ids from 258 on, which
// no byte has, get a larger logit. The caches hold the tokens.
#row = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module @tiny_decoder {
  util.func private @write(%tokens: tensor<1x?xi32>, %start: tensor<1xi32>,
      %cache: tensor<1x1x?x2xf32>) -> tensor<1x1x?x2xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %seq = tensor.dim %tokens, %c1 : tensor<1x?xi32>
    %start_i32 = tensor.extract %start[%c0] : tensor<1xi32>
    %first = arith.index_cast %start_i32 : i32 to index
    %empty = tensor.empty(%seq) : tensor<1x1x?x2xf32>
    %rows = linalg.generic {
        indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2)>,
                         affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%tokens : tensor<1x?xi32>) outs(%empty : tensor<1x1x?x2xf32>) {
      ^bb0(%token: i32, %out: f32):
        %value = arith.sitofp %token : i32 to f32
        linalg.yield %value : f32
      } -> tensor<1x1x?x2xf32>
    %written = tensor.insert_slice %rows into %cache[0, 0, %first, 0] [1, 1, %seq, 2]
        [1, 1, 1, 1] : tensor<1x1x?x2xf32> into tensor<1x1x?x2xf32>
    util.return %written : tensor<1x1x?x2xf32>
  }

  util.func private @logits(%cache: tensor<1x1x?x2xf32>) -> tensor<1x1x300xf32> {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %w = flow.tensor.constant #flow.parameter.named<"model"::"w"> : tensor<1xf32>
    %sum_init = tensor.empty() : tensor<1xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<1xf32>)
        -> tensor<1xf32>
    %sum = linalg.generic {
        indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>,
                         affine_map<(d0, d1, d2, d3) -> (d0)>],
        iterator_types = ["parallel", "reduction", "reduction", "reduction"]
      } ins(%cache : tensor<1x1x?x2xf32>) outs(%sum_zero : tensor<1xf32>) {
      ^bb0(%value: f32, %out: f32):
        %added = arith.addf %out, %value : f32
        linalg.yield %added : f32
      } -> tensor<1xf32>
    %empty = tensor.empty() : tensor<1x1x300xf32>
    %scores = linalg.generic {
        indexing_maps = [affine_map<(d0, d1, d2) -> (d0)>,
                         affine_map<(d0, d1, d2) -> (d0)>, #row],
        iterator_types = ["parallel", "parallel", "parallel"]
      } ins(%sum, %w : tensor<1xf32>, tensor<1xf32>)
        outs(%empty : tensor<1x1x300xf32>) {
      ^bb0(%twice: f32, %more: f32, %out: f32):
        %half = arith.constant 0.5 : f32
        %one = arith.constant 1.0 : f32
        %large = arith.constant 9.0 : f32
        %n_known = arith.constant 258 : i32
        %once = arith.mulf %twice, %half : f32
        %total = arith.addf %once, %more : f32
        %whole = arith.fptosi %total : f32 to i32
        %next = arith.remsi %whole, %n_known : i32
        %place = linalg.index 2 : index
        %id = arith.index_cast %place : index to i32
        %chosen = arith.cmpi eq, %id, %next : i32
        %unknown = arith.cmpi sge, %id, %n_known : i32
        %score = arith.select %chosen, %one, %zero : f32
        %result = arith.select %unknown, %large, %score : f32
        linalg.yield %result : f32
      } -> tensor<1x1x300xf32>
    util.return %scores : tensor<1x1x300xf32>
  }

  func.func @prefill(%tokens: tensor<1x?xi32>, %start: tensor<1xi32>,
      %last: tensor<1xi32>,
      %cache: tensor<1x1x?x2xf32> {iree.abi.output = 1 : index})
      -> (tensor<1x1x300xf32>, tensor<1x1x?x2xf32>) {
    %written = util.call @write(%tokens, %start, %cache)
        : (tensor<1x?xi32>, tensor<1xi32>, tensor<1x1x?x2xf32>) -> tensor<1x1x?x2xf32>
    %scores = util.call @logits(%written) : (tensor<1x1x?x2xf32>) -> tensor<1x1x300xf32>
    return %scores, %written : tensor<1x1x300xf32>, tensor<1x1x?x2xf32>
  }

  func.func @decode(%tokens: tensor<1x1xi32>, %start: tensor<1xi32>,
      %cache: tensor<1x1x?x2xf32> {iree.abi.output = 1 : index})
      -> (tensor<1x1x300xf32>, tensor<1x1x?x2xf32>) {
    %any = tensor.cast %tokens : tensor<1x1xi32> to tensor<1x?xi32>
    %written = util.call @write(%any, %start, %cache)
        : (tensor<1x?xi32>, tensor<1xi32>, tensor<1x1x?x2xf32>) -> tensor<1x1x?x2xf32>
    %scores = util.call @logits(%written) : (tensor<1x1x?x2xf32>) -> tensor<1x1x300xf32>
    return %scores, %written : tensor<1x1x300xf32>, tensor<1x1x?x2xf32>
  }
}
