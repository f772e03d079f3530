  // scale: each column by its weight, and by a factor that tests make wrong.
  util.func private @scale(%x: tensor<?x2xf32>, %weight: tensor<2xf32>)
      -> tensor<?x2xf32> {
    %c0 = arith.constant 0 : index
    %factor = arith.constant FACTOR : f32
    %batch = tensor.dim %x, %c0 : tensor<?x2xf32>
    %empty = tensor.empty(%batch) : tensor<?x2xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, c) -> (b, c)>, affine_map<(b, c) -> (c)>,
        affine_map<(b, c) -> (b, c)>
      ],
      iterator_types = ["parallel", "parallel"]
    } ins(%x, %weight : tensor<?x2xf32>, tensor<2xf32>)
      outs(%empty : tensor<?x2xf32>) {
    ^bb0(%value: f32, %w: f32, %unused: f32):
      %product = arith.mulf %value, %w : f32
      %scaled = arith.mulf %product, %factor : f32
      linalg.yield %scaled : f32
    } -> tensor<?x2xf32>
    util.return %y : tensor<?x2xf32>
  }
