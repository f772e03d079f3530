"""Run torch through transformers, eager, with a cache that grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.peer import Environment, Form, Peer

# The last two are for the checkpoint that all engines get, which begins as GGUF.
PACKAGES = (
    "torch==2.13.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "gguf==0.19.0",
)
_NO_TYPE = "transformers has no weights of that type for a CPU"


def _peer(variables: Mapping[str, str]) -> Peer:
    return Peer(
        "torch",
        "torch_eager",
        Environment("torch", PACKAGES),
        tuple(
            # The checkpoint is the model.
            Form(kind, kind, "checkpoint", {"dtype": kind}, variables)
            for kind in ("f32", "bf16")
        ),
        {"i8": _NO_TYPE, "i4": _NO_TYPE},
        lambda *_: (),
    )


PEER = _peer({})
# For torch's own kernels, those of oneDNN, and those of MKL.
FOR_AVX2 = _peer(
    {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }
)
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


class Engine:
    """A model of transformers."""

    def __init__(
        self, model: Path, threads: int, positions: int, options: Mapping[str, str]
    ) -> None:
        """Load a checkpoint."""
        del positions
        import torch
        import transformers

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._torch = torch
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, DTYPES[options["dtype"]])
        ).eval()
        self._new_cache = lambda: transformers.DynamicCache(config=self._model.config)

    def reset(self, positions: int) -> None:
        """Begin with an empty cache, which grows."""
        del positions
        self._cache = self._new_cache()

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt."""
        return self._read(tokens)

    def decode(self, token: int) -> Any:
        """Read one more token."""
        return self._read((token,))

    def _read(self, tokens: Sequence[int]) -> Any:
        output = self._model(
            self._torch.tensor([tokens]),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[0, -1].float().numpy()
