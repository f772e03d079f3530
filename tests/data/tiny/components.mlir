  // What the check calls: each instance.
  util.func public @component.count__n_vocab_30522(
      %tokens: tensor<?x?xi32>, %mask: tensor<?x?xi32>, %unit: f32)
      -> tensor<?x2xf32> {
    %y = util.call @count(%tokens, %mask, %unit)
        : (tensor<?x?xi32>, tensor<?x?xi32>, f32) -> tensor<?x2xf32>
    util.return %y : tensor<?x2xf32>
  }
  util.func public @component.scale__n_2(%x: tensor<?x2xf32>, %weight: tensor<2xf32>)
      -> tensor<?x2xf32> {
    %y = util.call @scale(%x, %weight)
        : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
    util.return %y : tensor<?x2xf32>
  }
