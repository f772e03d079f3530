// broken: a component whose header and signature are wrong in several ways.
//
// Source:  none, for tests of the readers.
// Exports: @other.forward
// Imports: none
// Dims:    batch (sometimes)
// Types:   f32 in, f32 out
// Oracle:  oracles/toy broken
module @broken {
  util.func public @forward(
      %x: tensor<?x?xf32>,  // [batch]
      %ids: tensor<?xi64>,  // [batch]
      %bias: tensor<?xf32>,
      %n_head: index, %eps: f32
  ) -> tensor<?xf32> {      // batch
    util.return %bias : tensor<?xf32>
  }
}
