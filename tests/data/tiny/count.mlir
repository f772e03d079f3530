  // count: the sum of real tokens, times a unit, and their number.
  util.func private @count(%tokens: tensor<?x?xi32>, %mask: tensor<?x?xi32>, %unit: f32)
      -> tensor<?x2xf32> {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %tokens, %c0 : tensor<?x?xi32>
    %empty = tensor.empty(%batch) : tensor<?x2xf32>
    %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x2xf32>)
        -> tensor<?x2xf32>
    %sums = linalg.generic {
      indexing_maps = [
        affine_map<(b, c, s) -> (b, s)>,
        affine_map<(b, c, s) -> (b, s)>,
        affine_map<(b, c, s) -> (b, c)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%tokens, %mask : tensor<?x?xi32>, tensor<?x?xi32>)
      outs(%start : tensor<?x2xf32>) {
    ^bb0(%token: i32, %real: i32, %sum: f32):
      %column = linalg.index 1 : index
      %first = arith.cmpi eq, %column, %c0 : index
      %product = arith.muli %token, %real : i32
      %product_f32 = arith.sitofp %product : i32 to f32
      %scaled = arith.mulf %product_f32, %unit : f32
      %real_f32 = arith.sitofp %real : i32 to f32
      %value = arith.select %first, %scaled, %real_f32 : f32
      %next = arith.addf %sum, %value : f32
      linalg.yield %next : f32
    } -> tensor<?x2xf32>
    util.return %sums : tensor<?x2xf32>
  }
