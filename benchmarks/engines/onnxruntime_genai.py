"""Run ONNX Runtime GenAI on models that its own builder makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.peer import Checkpoint, Environment, Form, Peer

# The builder reads an attribute that transformers 5 took from the configuration.
BUILDER = """
import runpy
import transformers

transformers.Gemma3TextConfig.rope_local_base_freq = property(
    lambda config: config.rope_parameters["sliding_attention"]["rope_theta"]
)
runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")
"""


def _convert(
    python: Path, form: Form, checkpoint: Checkpoint, path: Path
) -> Sequence[str]:
    builder = [str(python), "-c", BUILDER, "-e", "cpu", "-p", form.name]
    places = ["-i", str(checkpoint.folder), "-o", str(path), "-c", f"{path}.cache"]
    return [*builder, *places, "--extra_options", "prune_lm_head=true"]


PEER = Peer(
    "ONNX Runtime GenAI",
    "onnxruntime_genai",
    Environment(
        "onnxruntime-genai",
        (
            "onnxruntime-genai==0.18.0",
            "onnxruntime==1.32.0",
            "onnx==1.23.2",
            "onnx-ir==1.1.0",
            "torch==2.13.0",
            "transformers==5.23.0",
        ),
    ),
    tuple(
        Form(width, name, f"onnxruntime-genai-{name}")
        for width, name in (("f32", "fp32"), ("i8", "int8"), ("i4", "int4"))
    ),
    {"bf16": "its builder makes no bf16 model for a CPU"},
    _convert,
)
# Its cache must not be smaller than the sliding window of Gemma 3.
LEAST_POSITIONS = 512


class Engine:
    """A model of ONNX Runtime GenAI."""

    def __init__(
        self, model: Path, threads: int, positions: int, options: Mapping[str, str]
    ) -> None:
        """Load a folder of the builder."""
        del positions, options
        import onnxruntime_genai

        self._lib = onnxruntime_genai
        config = onnxruntime_genai.Config(str(model))
        session = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
        self._model = onnxruntime_genai.Model(config)

    def reset(self, positions: int) -> None:
        """Begin with a new generator."""
        given = self._lib.GeneratorParams(self._model)
        given.set_search_options(max_length=max(positions, LEAST_POSITIONS))
        self._generator = self._lib.Generator(self._model, given)

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt."""
        return self._read(tokens)

    def decode(self, token: int) -> Any:
        """Read one more token."""
        return self._read((token,))

    def _read(self, tokens: Sequence[int]) -> Any:
        import numpy as np

        self._generator.append_tokens(np.array([tokens], np.int32))
        return self._generator.get_logits()[0, -1].copy()
