// mean_pool: the mean of the real positions of each sequence.
//
//   y[b, j] = sum_s(x[b, s, j] where mask[b, s] != 0)
//             / max(sum_s(1 where mask[b, s] != 0), 1e-9)
//
// A sequence without any real position gives zeros. The mask selects: written as a
// factor it makes a matrix product, which took 18 times as long at 128 positions.
//
// Source:  Reimers & Gurevych 2019, arXiv:1908.10084, section 3 (MEAN strategy).
// Exports: @mean_pool.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_embd (fixed by specialize)
// Types:   f32 in, i32 mask, f32 out, f32 accumulation
// Oracle:  oracles/pooling.py mean_pool
// Try:     iree-opt components/pooling/mean_pool.mlir
module @mean_pool {
  util.func public @forward(
      %x: tensor<?x?x?xf32>,   // [batch, seq, n_embd]
      %mask: tensor<?x?xi32>   // [batch, seq] 0 = padding, else a real position
  ) -> tensor<?x?xf32> {       // [batch, n_embd]
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %zero_i32 = arith.constant 0 : i32
    %least_count = arith.constant 1.0e-9 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %n_embd = tensor.dim %x, %c2 : tensor<?x?x?xf32>

    // Step 1: number of real positions, [batch].
    %count_init = tensor.empty(%batch) : tensor<?xf32>
    %count_zero = linalg.fill ins(%zero : f32) outs(%count_init : tensor<?xf32>)
        -> tensor<?xf32>
    %count = linalg.generic {
      indexing_maps = [
        affine_map<(b, s) -> (b, s)>,
        affine_map<(b, s) -> (b)>
      ],
      iterator_types = ["parallel", "reduction"]
    } ins(%mask : tensor<?x?xi32>) outs(%count_zero : tensor<?xf32>) {
    ^bb0(%real: i32, %partial: f32):
      %is_padding = arith.cmpi eq, %real, %zero_i32 : i32
      %counted = arith.select %is_padding, %zero, %one : f32
      %next = arith.addf %partial, %counted : f32
      linalg.yield %next : f32
    } -> tensor<?xf32>

    // Step 2: sum over the real positions, [batch, n_embd].
    %sum_init = tensor.empty(%batch, %n_embd) : tensor<?x?xf32>
    %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x?xf32>)
        -> tensor<?x?xf32>
    %sum = linalg.generic {
      indexing_maps = [
        affine_map<(b, j, s) -> (b, s, j)>,
        affine_map<(b, j, s) -> (b, s)>,
        affine_map<(b, j, s) -> (b, j)>
      ],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %mask : tensor<?x?x?xf32>, tensor<?x?xi32>)
      outs(%sum_zero : tensor<?x?xf32>) {
    ^bb0(%value: f32, %real: i32, %partial: f32):
      %is_padding = arith.cmpi eq, %real, %zero_i32 : i32
      %counted = arith.select %is_padding, %zero, %value : f32
      %next = arith.addf %partial, %counted : f32
      linalg.yield %next : f32
    } -> tensor<?x?xf32>

    // Step 3: the mean, [batch, n_embd].
    %mean = linalg.generic {
      indexing_maps = [
        affine_map<(b, j) -> (b, j)>,
        affine_map<(b, j) -> (b)>,
        affine_map<(b, j) -> (b, j)>
      ],
      iterator_types = ["parallel", "parallel"]
    } ins(%sum, %count : tensor<?x?xf32>, tensor<?xf32>)
      outs(%sum_init : tensor<?x?xf32>) {
    ^bb0(%total: f32, %real_count: f32, %unused: f32):
      %divisor = arith.maximumf %real_count, %least_count : f32
      %quotient = arith.divf %total, %divisor : f32
      linalg.yield %quotient : f32
    } -> tensor<?x?xf32>
    util.return %mean : tensor<?x?xf32>
  }
}
