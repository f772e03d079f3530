"""Measure the cost of loading a model and of building it."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llama
from checkouts import ROOT, Cost, copied, cost, read_from, store_as
from prepared import PLACE, Prepared

from ingot.codec import to_json

# The number of processes of each kind to time; they are quick compared with a build.
LOADS = 5


def measure_loads(prepared: Prepared, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure loads in turns, then builds; print a line each and return them."""
    commands = first_token_commands(prepared, arguments.threads)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range((1 if arguments.quick else LOADS) + 1):
        for name, argv in commands.items():
            measured = cost(argv, ROOT)
            # The first of each kind loads the files into memory.
            costs[name] += [measured] if turn else []
    for stored in arguments.types:
        name = f"cold build, bf16 checkpoint to {stored}"
        costs[name] = [cold_build(prepared, stored, arguments)]
    width = max(map(len, costs))
    print(f"{'':{width}} {'median s':>9} {'runs':>5} {'peak RSS MB':>12}")
    for name, each in costs.items():
        wall = statistics.median(item.wall_s for item in each)
        peak = max(item.peak_bytes for item in each) / 1e6
        print(f"{name:{width}} {wall:9.2f} {len(each):5} {peak:12.0f}")
    return {"loads": {n: [asdict(item) for item in each] for n, each in costs.items()}}


def first_token_commands(prepared: Prepared, threads: int) -> dict[str, list[str]]:
    """Return, by name, the commands that load a model and compute one token."""
    graph = PLACE / f"{prepared.manifest.model}.graph.json"
    graph.write_text(to_json(prepared.manifest.graph), encoding="utf-8")
    script = str(ROOT / "benchmarks/decoding.py")
    commands = {}
    for stored, checkout in prepared.checkouts.items():
        files = [str(checkout.vmfb), str(checkout.irpa), str(graph)]
        argv = [sys.executable, script, *files, str(threads)]
        commands[f"process to first token, ingot {stored}"] = argv
    for element, path in prepared.gguf.items():
        start = llama.command(prepared.program, path, threads)
        one = ["-p", "1", "-n", "0", "-r", "1", "--no-warmup"]
        commands[f"process to first token, llama.cpp {element}"] = [*start, *one]
    return commands


def cold_build(prepared: Prepared, stored: str, arguments: argparse.Namespace) -> Cost:
    """Return the cost of a build of which no result is in a store."""
    model = arguments.model
    source = ROOT / "models" / f"{model}.yaml"
    path = PLACE / f"{model}-bf16.gguf"
    gguf = llama.model(prepared.manifest, source, "bf16", path)
    with tempfile.TemporaryDirectory(dir=PLACE, prefix="cold-") as name:
        checkout = copied(Path(name) / "checkout", model, arguments.target)
        store_as(checkout, stored)
        read_from(checkout, gguf)
        try:
            return checkout.build(Path(name) / "store")
        finally:
            shutil.rmtree(checkout.root / "build", ignore_errors=True)
