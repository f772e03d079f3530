"""Define what components/audio must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def stft(
    x: Floats, window: Floats, n_hop: int, n_frame: int, n_bin: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the spectra of short, overlapping frames: real and imaginary parts.

    Shapes: x [batch, n_sample], window [n_window]
        -> [batch, n_frame, n_bin] real parts, and imaginary ones.
    Raises: ValueError if the signal is too short, or there are no such bins.
    Source: Allen & Rabiner 1977, "A Unified Approach to Short-Time Fourier Analysis and
        Synthesis", eq. 1.
    """
    n_window, n_sample = window.size, x.shape[1]
    if (n_frame - 1) * n_hop + n_window > n_sample or n_bin > n_window // 2 + 1:
        found = f"{n_frame} frames of {n_bin} bins of {n_sample} samples"
        raise ValueError(f"expected frames within the signal, found {found}")
    first = n_hop * np.arange(n_frame)[:, None]
    frames = x.astype(np.float64)[:, first + np.arange(n_window)] * window
    spectrum = np.fft.rfft(frames, axis=-1)[..., :n_bin]
    return spectrum.real, spectrum.imag
