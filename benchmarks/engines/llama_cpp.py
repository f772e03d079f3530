"""Run llama.cpp through libllama, which llama-cpp-python compiles from its sdist."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.peer import BENCHMARKS, Checkpoint, Environment, Form, Peer

PACKAGE = "llama-cpp-python"


def gguf_file(model: str, element: str, path: Path) -> Sequence[str]:
    """Return the command that writes a model's weights in a type of GGUF.

    llama.cpp's own converter wants the model's real tokenizer.
    """
    return [sys.executable, str(BENCHMARKS / "gguf_file.py"), model, element, str(path)]


def _convert(_: Path, form: Form, checkpoint: Checkpoint, path: Path) -> Sequence[str]:
    return gguf_file(checkpoint.model, form.name, path)


def _peer(name: str, options: str) -> Peer:
    variables = {"CMAKE_ARGS": options}
    packages = (f"{PACKAGE}==0.3.36", "numpy==2.4.6")
    widths = {"f32": "f32", "bf16": "bf16", "i8": "q8_0", "i4": "q4_0"}
    return Peer(
        name,
        "llama_cpp",
        Environment(name, packages, PACKAGE, variables),
        tuple(Form(width, kind, f"{kind}.gguf") for width, kind in widths.items()),
        {},
        _convert,
    )


NATIVE = _peer("llama.cpp", "-DGGML_NATIVE=ON")
# llama.cpp's default for a processor that it does not know: AVX2, FMA and F16C.
FOR_AVX2 = _peer("llama.cpp-avx2", "-DGGML_NATIVE=OFF")


class Engine:
    """A context of libllama, with llama.cpp's defaults."""

    def __init__(
        self, model: Path, threads: int, positions: int, options: Mapping[str, str]
    ) -> None:
        """Load a GGUF file."""
        del options
        import llama_cpp as lib

        self._lib = lib
        lib.llama_backend_init()
        given = lib.llama_model_default_params()
        self._model = lib.llama_model_load_from_file(str(model).encode(), given)
        context = lib.llama_context_default_params()
        context.n_ctx = -(-positions // 256) * 256
        context.n_threads = context.n_threads_batch = threads
        self._context = lib.llama_init_from_model(self._model, context)
        if not self._context:
            raise SystemExit(f"{model}: llama.cpp cannot load it")
        vocabulary = lib.llama_model_get_vocab(self._model)
        self._n_vocab = lib.llama_vocab_n_tokens(vocabulary)

    def reset(self, positions: int) -> None:
        """Empty the cache, which has room for every size."""
        del positions
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), False)

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt."""
        return self._read(tokens)

    def decode(self, token: int) -> Any:
        """Read one more token."""
        return self._read((token,))

    def _read(self, tokens: Sequence[int]) -> Any:
        import numpy as np

        given = (self._lib.llama_token * len(tokens))(*tokens)
        batch = self._lib.llama_batch_get_one(given, len(tokens))
        if self._lib.llama_decode(self._context, batch):
            raise SystemExit("llama_decode failed")
        found = self._lib.llama_get_logits_ith(self._context, -1)
        shape = (self._n_vocab,)
        return np.ctypeslib.as_array(ctypes.cast(found, _FLOATS), shape).copy()


_FLOATS = ctypes.POINTER(ctypes.c_float)
