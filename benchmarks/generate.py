"""Compare the speed of a decoder with other engines: same weights, threads and turns.

    .venv/bin/python benchmarks/generate.py [--types f32 i8] [--turns 1 --tokens 4]

It installs llama.cpp, OpenVINO, ONNX Runtime GenAI and torch from the package
registries, converts the model's synthetic weights for each, and loads each engine in a
process of its own. All engines of a stored type are loaded at once, and take turns with
each other and with the measurement of the machine's limits; a process is stopped while
it is not its turn. What cannot be built is named with the reason.

A turn reads a prompt of each of the `--contexts`, and decodes `--tokens` after it,
token after token with the logits copied out. Each figure is the median of the turns. A
ratio is that of ingot to the fastest other engine, the median of the ratios of the
turns; above 1, ingot is faster. For decode, the share of the limit is the archive's
bytes read per token as a share of the memory's bandwidth; for prefill, the layers'
products as a share of the fastest instruction for the stored type.

Before an engine is measured, its logits are compared with those of ingot's first type:
for how many positions the likeliest token is the same, and how the logits correlate.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import limits
import numpy as np
import speed_table
from checkouts import ROOT, Checkout, copied, store_as
from engine_process import EngineProcess
from engines import llama_cpp, onnxruntime_genai, openvino_cpu, torch_eager
from engines.peer import CannotBuild, Checkpoint, Peer, run
from speed_table import Agreement, Measured, Report, Width

from ingot.codec import to_json
from ingot.engine.machine import machine
from ingot.model.manifest import Manifest, read_manifest

# Our stored types by the width of a weight, whose peers they are compared with.
OURS = {
    "f32": ("f32",),
    "bf16": ("bf16",),
    "i8": ("i8", "i8_block32"),
    "i4": ("i4_block32",),
}
PEERS = {
    "native": (
        llama_cpp.NATIVE,
        openvino_cpu.PEER,
        onnxruntime_genai.PEER,
        torch_eager.PEER,
    ),
    "avx2": (llama_cpp.FOR_AVX2, openvino_cpu.FOR_AVX2, torch_eager.FOR_AVX2),
}
TARGETS = {"native": "host", "avx2": "x86_64"}
LEFT_OUT = {
    "native": {},
    "avx2": {"ONNX Runtime GenAI": "no option keeps it from using AVX-512"},
}
# The logits that are compared: after a prompt, and after each of these tokens.
PROMPT, DECODED = tuple(range(3, 19)), (7, 5, 3)


@dataclass(frozen=True, slots=True)
class Contender:
    """A loaded engine."""

    name: str
    process: EngineProcess
    archive_bytes: int = 0  # of ingot's, 0 of others


class Preparation:
    """What is built of every engine below the cache, if it is not there yet."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Read the manifest."""
        self.arguments = arguments
        path = ROOT / "models" / f"{arguments.model}.yaml"
        self.manifest: Manifest = read_manifest(path, ROOT)
        self.cache: Path = arguments.cache.absolute()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        self.folder = self.cache / f"{arguments.model}-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.graph = self.folder / "graph.json"
        self.graph.write_text(to_json(self.manifest.graph), encoding="utf-8")

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Return the other engines for the processor that is asked for."""
        return PEERS[self.arguments.processor]

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint that the other engines' models are converted from.

        Raises: CannotBuild.
        """
        model, folder = self.manifest.model, self.folder / "checkpoint"
        gguf, part = self.folder / "f32.gguf", self.folder / "part-checkpoint"
        if not gguf.exists():
            written = self.folder / "part-f32.gguf"
            run(llama_cpp.gguf_file(model, "f32", written), self.folder / "f32.log")
            written.rename(gguf)
        if not folder.exists():
            python = torch_eager.PEER.environment.python(self.cache)
            script = str(ROOT / "benchmarks/hf_checkpoint.py")
            argv = [str(python), script, str(gguf), str(part)]
            run(argv, self.folder / "checkpoint.log")
            part.rename(folder)
        return Checkpoint(model, folder)

    def checkout(self, stored: str) -> Checkout:
        """Return a copy of the sources whose model has a stored type, built."""
        folder = self.cache / f"checkout-{self.manifest.model}-{stored}"
        target = self.arguments.target or TARGETS[self.arguments.processor]
        checkout = copied(folder, self.manifest.model, target)
        store_as(checkout, stored)
        checkout.build()
        return checkout

    def contenders(self, width: str) -> Iterator[Contender | tuple[str, str]]:
        """Yield every engine for a width, loaded, or its name and why it is not."""
        for stored in OURS[width]:
            checkout = self.checkout(stored)
            options = {"archive": str(checkout.irpa), "graph": str(self.graph)}
            process = self._process(
                f"ingot-{stored}",
                Path(sys.executable),
                "ingot_module",
                checkout.vmfb,
                options,
            )
            size = checkout.irpa.stat().st_size
            yield Contender(f"ingot {stored}", process, size)
        for peer in self.peers:
            if width in peer.lacks:
                yield f"{peer.name} {width}", peer.lacks[width]
            for form in (form for form in peer.forms if form.width == width):
                name = f"{peer.name} {form.name}"
                try:
                    model = peer.model(form, self.checkpoint(), self.cache)
                    process = self._process(
                        name.replace(" ", "-"),
                        peer.environment.python(self.cache),
                        peer.module,
                        model,
                        form.options,
                        form.variables,
                    )
                except CannotBuild as error:
                    yield name, str(error)
                else:
                    yield Contender(name, process)
        yield from LEFT_OUT[self.arguments.processor].items()

    def _process(
        self,
        label: str,
        python: Path,
        module: str,
        model: Path,
        options: dict[str, str],
        variables: dict[str, str] | None = None,
    ) -> EngineProcess:
        arguments = {
            "model": str(model),
            "threads": self.arguments.threads,
            "positions": max(self.arguments.contexts) + self.arguments.tokens,
            "options": dict(options),
        }
        log = self.folder / f"process-{label}.log"
        return EngineProcess(python, module, arguments, variables or {}, log)


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    prepared = Preparation(arguments)
    load = os.getloadavg()[0]
    report = Report(
        model=arguments.model,
        day=time.strftime("%Y-%m-%d"),
        machine=dict(machine()),
        processor=arguments.processor,
        threads=arguments.threads,
        tokens=arguments.tokens,
        load=load,
        layer_weights=layer_weights(prepared.manifest),
        widths=tuple(measured(prepared, width) for width in arguments.types),
    )
    print(speed_table.text(report))
    if arguments.write:
        speed_table.write(ROOT / "docs/performance.md", report)
    if arguments.json:
        arguments.json.write_text(to_json(report), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="gemma3-270m")
    parser.add_argument("--processor", choices=list(PEERS), default="native")
    parser.add_argument("--target", help="instead of the processor's own")
    parser.add_argument("--types", nargs="+", choices=list(OURS), default=list(OURS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=32, help="decoded in a turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cache", type=Path, default=ROOT / "build/.bench")
    parser.add_argument("--json", type=Path, metavar="FILE")
    write = "replace the table in docs/performance.md"
    parser.add_argument("--write", action="store_true", help=write)
    return parser.parse_args()


def measured(prepared: Preparation, width: str) -> Width:
    """Measure the engines of a width, and the machine's limits, in turns."""
    arguments = prepared.arguments
    program = limits.compiled(prepared.cache)
    with contextlib.ExitStack() as stack:
        engines: list[Contender] = []
        absent: dict[str, str] = {}
        for item in prepared.contenders(width):
            if isinstance(item, Contender):
                stack.callback(item.process.close)
                engines.append(item)
            else:
                absent[item[0]] = item[1]
                print(f"  {item[0]}: not measured: {item[1]}", file=sys.stderr)
        agreements = [agreement(item, prepared.folder) for item in engines]
        for item in engines:
            item.process.speeds(arguments.contexts, 1)
        ceilings, turns = [], []
        for _ in range(arguments.turns):
            ceilings.append(limits.measure(program, arguments.threads))
            turns.append(
                [
                    item.process.speeds(arguments.contexts, arguments.tokens)
                    for item in engines
                ]
            )
    found = zip(engines, agreements, zip(*turns, strict=True), strict=True)
    return Width(
        width,
        tuple(Measured(e.name, e.archive_bytes, a, t) for e, a, t in found),
        tuple(ceilings),
        absent,
    )


def agreement(engine: Contender, folder: Path) -> Agreement:
    """Compare an engine's logits with those of ingot's f32.

    Those are computed in the first run and stay in the folder.
    """
    path, reference = folder / "logits.npy", folder / "logits-f32.npy"
    engine.process.logits(PROMPT, DECODED, path)
    if engine.name == "ingot f32":
        path.replace(reference)
        path = reference
    theirs, ours = np.load(path), np.load(reference)
    same = int((theirs.argmax(1) == ours.argmax(1)).sum())
    pairs = zip(theirs, ours, strict=True)
    least = min(float(np.corrcoef(a, b)[0, 1]) for a, b in pairs)
    return Agreement(same, len(ours), least)


def layer_weights(manifest: Manifest) -> int:
    """Return the number of weights that a token of a prompt is multiplied with.

    Look-ups are left out, and so are the logits of the last token.
    """
    return sum(
        math.prod(map(int, parameter.type.shape))
        for parameter in manifest.graph.parameters
        if parameter.name.startswith("blk.") and len(parameter.type.shape) == 2
    )


if __name__ == "__main__":
    sys.exit(main())
