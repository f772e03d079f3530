// stft: the spectra of short, overlapping frames of sound.
//
//   real[b, f, k]      =  sum_n(part[n] * cos(2 * pi * k * n / N))
//   imaginary[b, f, k] = -sum_n(part[n] * sin(2 * pi * k * n / N))
//
// with part[n] = window[n] * x[b, f*n_hop + n] and N = n_window. Frames start at the
// first sample, and no sample is made up: (n_frame - 1) * n_hop + n_window is at most
// n_sample. n_bin is N / 2 + 1 for all that a real signal has. As a product with a
// matrix: frames are short, and every target is good at products. The angles are whole
// parts of a turn, so that quarters of it are taken off in integers, and the series of
// Taylor does the rest: Vulkan's sine is only good to 2^-11. (n_bin - 1) * (N - 1) is
// below 2^28.
//
// Source:  Allen & Rabiner 1977, "A Unified Approach to Short-Time Fourier Analysis and
//          Synthesis", eq. 1; the reduction: Cody & Waite 1980, chapter 8.
// Exports: @stft.forward
// Imports: none
// Dims:    batch (dynamic),
//          n_sample, n_window, n_hop, n_frame, n_bin (fixed by specialize)
// Types:   f32 in, f32 out, f32 accumulation, i32 angles
// Oracle:  oracles/audio.py stft
// Try:     iree-opt components/audio/stft.mlir
module @stft {
  util.func public @forward(
      %x: tensor<?x?xf32>,     // [batch, n_sample]
      %window: tensor<?xf32>,  // [n_window] factor of each sample of a frame
      %n_hop: index,           // n_hop
      %n_frame: index,         // n_frame
      %n_bin: index            // n_bin
  ) -> (
      tensor<?x?x?xf32>,       // [batch, n_frame, n_bin] real parts
      tensor<?x?x?xf32>        // [batch, n_frame, n_bin] imaginary parts
  ) {
    %c0 = arith.constant 0 : index
    %zero_i32 = arith.constant 0 : i32
    %one_i32 = arith.constant 1 : i32
    %two_i32 = arith.constant 2 : i32
    %four_i32 = arith.constant 4 : i32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %minus_half = arith.constant -0.5 : f32
    %half_pi = arith.constant 1.57079633 : f32
    // 1 / 3!, 5!, 7!, 9! and 4!, 6!, 8!, 10!, with the signs of the series.
    %s3 = arith.constant -0.166666667 : f32
    %s5 = arith.constant 0.00833333333 : f32
    %s7 = arith.constant -1.98412698e-4 : f32
    %s9 = arith.constant 2.75573192e-6 : f32
    %c4 = arith.constant 0.0416666667 : f32
    %c6 = arith.constant -0.00138888889 : f32
    %c8 = arith.constant 2.48015873e-5 : f32
    %c10 = arith.constant -2.75573192e-7 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?xf32>
    %n_window = tensor.dim %window, %c0 : tensor<?xf32>
    %n_window_i32 = arith.index_cast %n_window : index to i32
    %n_window_f32 = arith.sitofp %n_window_i32 : i32 to f32
    %n_window_twice = arith.muli %n_window_i32, %two_i32 : i32

    // Step 1: cosines and negative sines of all angles, [n_bin, n_window] each. q is
    // the quarter of a turn that is nearest to the angle, r the rest, at most pi / 4.
    %matrix_init = tensor.empty(%n_bin, %n_window) : tensor<?x?xf32>
    %cosines, %sines = linalg.generic {
      indexing_maps = [affine_map<(k, n) -> (k, n)>, affine_map<(k, n) -> (k, n)>],
      iterator_types = ["parallel", "parallel"]
    } outs(%matrix_init, %matrix_init : tensor<?x?xf32>, tensor<?x?xf32>) {
    ^bb0(%unused_cosine: f32, %unused_sine: f32):
      %k_index = linalg.index 0 : index
      %n_index = linalg.index 1 : index
      %k = arith.index_cast %k_index : index to i32
      %n = arith.index_cast %n_index : index to i32
      %turns = arith.muli %k, %n : i32
      %part = arith.remui %turns, %n_window_i32 : i32
      %quarters = arith.muli %part, %four_i32 : i32
      %quarters_twice = arith.muli %quarters, %two_i32 : i32
      %rounded = arith.addi %quarters_twice, %n_window_i32 : i32
      %q = arith.divui %rounded, %n_window_twice : i32
      %whole = arith.muli %q, %n_window_i32 : i32
      %rest = arith.subi %quarters, %whole : i32
      %rest_f32 = arith.sitofp %rest : i32 to f32
      %share = arith.divf %rest_f32, %n_window_f32 : f32
      %r = arith.mulf %share, %half_pi : f32
      %square = arith.mulf %r, %r : f32
      %sine_term_9 = arith.mulf %s9, %square : f32
      %sine_sum_7 = arith.addf %sine_term_9, %s7 : f32
      %sine_term_7 = arith.mulf %sine_sum_7, %square : f32
      %sine_sum_5 = arith.addf %sine_term_7, %s5 : f32
      %sine_term_5 = arith.mulf %sine_sum_5, %square : f32
      %sine_sum_3 = arith.addf %sine_term_5, %s3 : f32
      %cube = arith.mulf %square, %r : f32
      %sine_tail = arith.mulf %sine_sum_3, %cube : f32
      %sine = arith.addf %r, %sine_tail : f32
      %cosine_term_10 = arith.mulf %c10, %square : f32
      %cosine_sum_8 = arith.addf %cosine_term_10, %c8 : f32
      %cosine_term_8 = arith.mulf %cosine_sum_8, %square : f32
      %cosine_sum_6 = arith.addf %cosine_term_8, %c6 : f32
      %cosine_term_6 = arith.mulf %cosine_sum_6, %square : f32
      %cosine_sum_4 = arith.addf %cosine_term_6, %c4 : f32
      %cosine_term_4 = arith.mulf %cosine_sum_4, %square : f32
      %cosine_sum_2 = arith.addf %cosine_term_4, %minus_half : f32
      %cosine_tail = arith.mulf %cosine_sum_2, %square : f32
      %cosine = arith.addf %cosine_tail, %one : f32

      // cos is (cos r, -sin r, -cos r, sin r) at q mod 4, and -sin is cos a quarter on.
      %q_next = arith.addi %q, %one_i32 : i32
      %q_odd = arith.andi %q, %one_i32 : i32
      %is_odd = arith.cmpi ne, %q_odd, %zero_i32 : i32
      %q_half = arith.andi %q, %two_i32 : i32
      %q_next_half = arith.andi %q_next, %two_i32 : i32
      %is_behind = arith.cmpi ne, %q_half, %zero_i32 : i32
      %is_left = arith.cmpi ne, %q_next_half, %zero_i32 : i32
      %across = arith.select %is_odd, %sine, %cosine : f32
      %along = arith.select %is_odd, %cosine, %sine : f32
      %across_opposite = arith.negf %across : f32
      %along_opposite = arith.negf %along : f32
      %cosine_here = arith.select %is_left, %across_opposite, %across : f32
      %sine_opposite = arith.select %is_behind, %along, %along_opposite : f32
      linalg.yield %cosine_here, %sine_opposite : f32, f32
    } -> (tensor<?x?xf32>, tensor<?x?xf32>)

    // Step 2: the frames, [batch, n_frame, n_window].
    %frames_init = tensor.empty(%batch, %n_frame, %n_window) : tensor<?x?x?xf32>
    %frames = linalg.generic {
      indexing_maps = [
        affine_map<(b, f, n) -> (n)>, affine_map<(b, f, n) -> (b, f, n)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%window : tensor<?xf32>) outs(%frames_init : tensor<?x?x?xf32>) {
    ^bb0(%factor: f32, %unused: f32):
      %b = linalg.index 0 : index
      %f = linalg.index 1 : index
      %n = linalg.index 2 : index
      %frame_start = arith.muli %f, %n_hop : index
      %position = arith.addi %frame_start, %n : index
      %sample = tensor.extract %x[%b, %position] : tensor<?x?xf32>
      %windowed = arith.mulf %sample, %factor : f32
      linalg.yield %windowed : f32
    } -> tensor<?x?x?xf32>

    // Step 3: their products with both, [batch, n_frame, n_bin].
    %part_init = tensor.empty(%batch, %n_frame, %n_bin) : tensor<?x?x?xf32>
    %part_zero = linalg.fill ins(%zero : f32) outs(%part_init : tensor<?x?x?xf32>)
        -> tensor<?x?x?xf32>
    %real = linalg.generic {
      indexing_maps = [
        affine_map<(b, f, k, n) -> (b, f, n)>,
        affine_map<(b, f, k, n) -> (k, n)>,
        affine_map<(b, f, k, n) -> (b, f, k)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%frames, %cosines : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%part_zero : tensor<?x?x?xf32>) {
    ^bb0(%sample: f32, %factor: f32, %partial: f32):
      %term = arith.mulf %sample, %factor : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    %imaginary = linalg.generic {
      indexing_maps = [
        affine_map<(b, f, k, n) -> (b, f, n)>,
        affine_map<(b, f, k, n) -> (k, n)>,
        affine_map<(b, f, k, n) -> (b, f, k)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%frames, %sines : tensor<?x?x?xf32>, tensor<?x?xf32>)
      outs(%part_zero : tensor<?x?x?xf32>) {
    ^bb0(%sample: f32, %factor: f32, %partial: f32):
      %term = arith.mulf %sample, %factor : f32
      %next = arith.addf %partial, %term : f32
      linalg.yield %next : f32
    } -> tensor<?x?x?xf32>
    util.return %real, %imaginary : tensor<?x?x?xf32>, tensor<?x?x?xf32>
  }
}
