"""Run OpenVINO on models that optimum-intel exports, with their own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.peer import Checkpoint, Environment, Form, Peer


def _convert(
    python: Path, form: Form, checkpoint: Checkpoint, path: Path
) -> Sequence[str]:
    stored = form.model.removeprefix("openvino-")
    cli = [str(python), "-m", "optimum.commands.optimum_cli", "export", "openvino"]
    task = ["--task", "text-generation-with-past", "--weight-format", stored]
    return [*cli, "--model", str(checkpoint.folder), *task, str(path)]


PACKAGES = (
    "optimum-intel[openvino]==2.2.0",
    "openvino==2026.4.1",
    "nncf==3.4.0",
    "torch==2.13.0",
    # The exporter refuses Gemma 3 with a newer one.
    "transformers==4.57.6",
)
# By width: the exporter's stored type and what OpenVINO computes with.
FORMS = (
    ("f32", "fp32", "f32"),
    ("bf16", "fp32", "bf16"),
    ("i8", "int8", "bf16"),
    ("i8", "int8", "f32"),
    ("i4", "int4", "bf16"),
    ("i4", "int4", "f32"),
)


def _peer(variables: Mapping[str, str]) -> Peer:
    forms = tuple(
        Form(
            width,
            f"{stored}, {compute} compute",
            f"openvino-{stored}",
            {"compute": compute},
            variables,
        )
        for width, stored, compute in FORMS
    )
    # torchvision fails without torch's GPU build, and no model of text needs it.
    environment = Environment("openvino", PACKAGES, unwanted="torchvision")
    return Peer("OpenVINO", "openvino_cpu", environment, forms, {}, _convert)


PEER = _peer({})
FOR_AVX2 = _peer({"ONEDNN_MAX_CPU_ISA": "AVX2"})


class Engine:
    """A compiled model with its state."""

    def __init__(
        self, model: Path, threads: int, positions: int, options: Mapping[str, str]
    ) -> None:
        """Load and compile an exported model."""
        del positions
        import openvino

        core = openvino.Core()
        read = core.read_model(model / "openvino_model.xml")
        _keep_last_logits(read)
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": options["compute"],
            "PERFORMANCE_HINT": "LATENCY",
        }
        self._names = {name for port in read.inputs for name in port.names}
        self._request = core.compile_model(read, "CPU", settings).create_infer_request()
        self._length = 0

    def reset(self, positions: int) -> None:
        """Empty the state, which grows."""
        del positions
        self._request.reset_state()
        self._length = 0

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt."""
        return self._read(tokens)

    def decode(self, token: int) -> Any:
        """Read one more token."""
        return self._read((token,))

    def _read(self, tokens: Sequence[int]) -> Any:
        import numpy as np

        start, self._length = self._length, self._length + len(tokens)
        given = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, self._length), np.int64),
            "position_ids": np.arange(start, self._length, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self._request.infer(
            {name: value for name, value in given.items() if name in self._names}
        )
        return self._request.get_tensor("logits").data[0, -1].copy()


def _keep_last_logits(model: Any) -> None:
    """Compute the logits of the last position only, as OpenVINO GenAI changes a model.

    The exported model computes them for every position of a prompt.
    """
    import numpy as np
    import openvino.opset13 as ops

    node = model.output("logits").get_node()
    while node.get_type_name() != "MatMul":
        node = node.input_value(0).get_node()
    first, last, axis = (ops.constant(np.array([v], np.int64)) for v in (-1, 2**31, 1))
    step = ops.constant(np.array([1], np.int64))
    hidden = ops.slice(node.input_value(0), first, last, step, axis)
    node.input(0).replace_source_output(hidden.output(0))
    model.validate_nodes_and_infer_types()
