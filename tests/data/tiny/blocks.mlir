  // What the check calls: each block.
  util.func public @block.encode.counting(
      %tokens: tensor<?x?xi32>, %mask: tensor<?x?xi32>) -> tensor<?x2xf32> {
    %unit = arith.constant 0.001 : f32
    %y = util.call @count(%tokens, %mask, %unit)
        : (tensor<?x?xi32>, tensor<?x?xi32>, f32) -> tensor<?x2xf32>
    util.return %y : tensor<?x2xf32>
  }
  util.func public @block.encode.scaling(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %w = flow.tensor.constant PARAMETER
    %y = util.call @scale(%x, %w)
        : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
    util.return %y : tensor<?x2xf32>
  }
