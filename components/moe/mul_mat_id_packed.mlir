// mul_mat_id_packed: each row times the matrices of its experts, stored in tiles.
//
//   y[b, s, (k*n_tile + t)*tile_n + v]
//       = sum_i(x[b, s, i] * weight[ids[b, s, k], t, i, v])
//
// Output o of an expert is in row o % tile_n of tile o / tile_n. It reads the tiles of
// the chosen experts, once for each row that has one. An id must be in [0, n_expert): it
// is used as an address and not checked here. For llvm-cpu only.
//
// Source:  Shazeer et al. 2017, arXiv:1701.06538, eq. 1 (the sum only where G > 0);
//          Goto & van de Geijn 2008, doi:10.1145/1356052.1356053 (packed panels).
// Exports: @mul_mat_id_packed.forward
// Imports: none
// Dims:    n_expert, n_expert_used, n_tile, n_in, tile_n (fixed by specialize),
//          batch, seq (dynamic)
// Types:   f32 in, i32 ids, weight in {f32, bf16, f16}, f32 out, f32 accumulation
// Oracle:  oracles/moe.py mul_mat_id_packed
// Try:     iree-opt components/moe/mul_mat_id_packed.mlir
!weight = bf16
module @mul_mat_id_packed {
  util.func public @forward(
      %weight: tensor<?x?x?x?x!weight>,  // [n_expert, n_tile, n_in, tile_n]
      %ids: tensor<?x?x?xi32>,           // [batch, seq, n_expert_used] in [0, n_expert)
      %x: tensor<?x?x?xf32>              // [batch, seq, n_in]
  ) -> tensor<?x?x?xf32> {               // [batch, seq, n_expert_used*n_tile*tile_n]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %ids, %c0 : tensor<?x?x?xi32>
    %seq = tensor.dim %ids, %c1 : tensor<?x?x?xi32>
    %n_expert_used = tensor.dim %ids, %c2 : tensor<?x?x?xi32>
    %n_tile = tensor.dim %weight, %c1 : tensor<?x?x?x?x!weight>
    %n_in = tensor.dim %weight, %c2 : tensor<?x?x?x?x!weight>
    %tile_n = tensor.dim %weight, %c3 : tensor<?x?x?x?x!weight>
    %positions = arith.muli %batch, %seq : index
    %rows = arith.muli %positions, %n_expert_used : index

    // Step 1: a row for each expert that is to have one, [rows, n_in].
    %x_joined = tensor.collapse_shape %x [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %x_init = tensor.empty(%positions, %n_expert_used, %n_in) : tensor<?x?x?xf32>
    %x_split = linalg.generic {
      indexing_maps = [
        affine_map<(p, k, i) -> (p, i)>, affine_map<(p, k, i) -> (p, k, i)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x_joined : tensor<?x?xf32>) outs(%x_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      linalg.yield %value : f32
    } -> tensor<?x?x?xf32>
    %x_rows = tensor.collapse_shape %x_split [[0, 1], [2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %id_rows = tensor.collapse_shape %ids [[0, 1, 2]]
        : tensor<?x?x?xi32> into tensor<?xi32>

    // Step 2: the products, [rows, n_tile, tile_n]. One region, so that tiles are read
    // where they are: outside of it IREE 3.13 would copy the chosen experts' first, and
    // take 20 times as long.
    %product = flow.dispatch.region -> (tensor<?x?x?xf32>{%rows, %n_tile, %tile_n}) {
      %tiles_init = tensor.empty(%rows, %n_tile, %n_in, %tile_n)
          : tensor<?x?x?x?x!weight>
      %tiles = iree_linalg_ext.gather dimension_map = [0]
          ins(%weight, %id_rows : tensor<?x?x?x?x!weight>, tensor<?xi32>)
          outs(%tiles_init : tensor<?x?x?x?x!weight>) -> tensor<?x?x?x?x!weight>
      %sum_init = tensor.empty(%rows, %n_tile, %tile_n) : tensor<?x?x?xf32>
      %sum_zero = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?x?x?xf32>)
          -> tensor<?x?x?xf32>
      %sum = linalg.generic {
        indexing_maps = [
          affine_map<(r, t, v, i) -> (r, i)>, affine_map<(r, t, v, i) -> (r, t, i, v)>,
          affine_map<(r, t, v, i) -> (r, t, v)>
        ],
        iterator_types = ["parallel", "parallel", "parallel", "reduction"]
      } ins(%x_rows, %tiles : tensor<?x?xf32>, tensor<?x?x?x?x!weight>)
        outs(%sum_zero : tensor<?x?x?xf32>) {
      ^bb0(%value: f32, %factor: !weight, %partial: f32):
        %wide = arith.extf %factor : !weight to f32
        %term = arith.mulf %value, %wide : f32
        %next = arith.addf %partial, %term : f32
        linalg.yield %next : f32
      } -> tensor<?x?x?xf32>
      flow.return %sum : tensor<?x?x?xf32>
    }
    %y_rows = tensor.collapse_shape %product [[0], [1, 2]]
        : tensor<?x?x?xf32> into tensor<?x?xf32>
    %n_out = arith.muli %n_tile, %tile_n : index
    %y_experts = tensor.expand_shape %y_rows [[0, 1, 2], [3]]
        output_shape [%batch, %seq, %n_expert_used, %n_out]
        : tensor<?x?xf32> into tensor<?x?x?x?xf32>
    %y = tensor.collapse_shape %y_experts [[0], [1], [2, 3]]
        : tensor<?x?x?x?xf32> into tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
