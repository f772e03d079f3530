"""Compare the speed of a decoder with llama.cpp: same dims, types and threads, one run.

    .venv/bin/pip install -e '.[bench]' --constraint constraints.txt
    .venv/bin/python benchmarks/generate.py [--model gemma3-270m] [--types f32 i8]

It measures prefill of each of the `--contexts`, and decode after them, in tokens/s.
ingot is measured in this process by the calls that `doit generate` makes, token after
token with the logits copied out, after the module is loaded and every size has run
once: the steady state. llama.cpp is measured by its llama-bench, which also leaves out
start and loading and warms up by itself; its cache is f16, its default. Both run with
random weights.

The engines and the measurements of the machine's limits take turns, so that ratios hold
on a noisy machine: each figure is the median of `--runs` turns, and each ratio the
median of the ratios of the turns. For decode, "of limit" is the archive's bytes read
per token as a share of the memory's bandwidth; for prefill, the layers' products as a
share of the f32 multiply-adds in registers.

The first run builds what it needs below build/.bench, which takes minutes each: a copy
of the sources for every type, llama-bench (or name one with `--llama-bench`), and GGUF
files.

`--load` instead measures the time from a process's start to its first token, and from a
checkpoint (a GGUF file of bf16) to a runnable artifact with an empty store.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import limits
import llama
from decoding import Engine, Speeds
from loading import measure_loads
from prepared import PEERS, PLACE, Prepared, prepare

from ingot.engine.machine import machine


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    prepared = prepare(arguments)
    facts = dict(machine())
    print(
        f"{arguments.model}, {arguments.threads} threads on {facts['cpu']}, "
        f"{facts['cores']} cores, {facts['memory']}; load {os.getloadavg()[0]:.1f}\n"
    )
    measured = measure_loads if arguments.load else measure_speeds
    report = {
        "model": arguments.model,
        "target": arguments.target,
        "threads": arguments.threads,
        "machine": facts,
        "llama.cpp": llama.SDIST,
        **measured(prepared, arguments),
    }
    if arguments.json:
        text = json.dumps(report, indent=1) + "\n"
        arguments.json.write_text(text, encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="gemma3-270m")
    parser.add_argument("--target", default="host")
    parser.add_argument("--types", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=32, help="decoded in a turn")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="2 turns of 4 tokens")
    parser.add_argument("--load", action="store_true", help="loads and builds instead")
    parser.add_argument("--llama-bench", type=Path, help="a program that is there")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.tokens = 2, 4
    return arguments


def measure_speeds(prepared: Prepared, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure in turns; print the limits and the table, return both with each turn."""
    contexts, tokens = tuple(arguments.contexts), arguments.tokens
    entries = prepared.manifest.graph.entry_points
    engines = {
        stored: Engine(checkout.vmfb, checkout.irpa, entries, arguments.threads)
        for stored, checkout in prepared.checkouts.items()
    }
    for engine in engines.values():
        engine.speeds(contexts, 1)
    program = limits.compiled(PLACE)
    turns: dict[str, list[Speeds]] = {}
    ceilings: dict[int, list[limits.Limits]] = {}
    for _ in range(arguments.runs):
        for threads in sorted({1, arguments.threads}):
            if program is not None:
                measured = limits.measure(program, threads)
                ceilings.setdefault(threads, []).append(measured)
        for element, path in prepared.gguf.items():
            theirs = llama.speeds(
                prepared.program, path, arguments.threads, contexts, tokens
            )
            turns.setdefault(element_key(element), []).append(theirs)
            for stored in (s for s in engines if PEERS[s] == element):
                ours = engines[stored].speeds(contexts, tokens)
                turns.setdefault(stored, []).append(ours)
    best = print_limits(ceilings)
    rows = [
        row(stored, phase, context, turns, ceiling(prepared, stored, phase, best))
        for phase in ("decode", "prefill")
        for context in contexts
        for stored in engines
    ]
    print_rows(rows)
    every = {str(t): [asdict(one) for one in all_] for t, all_ in ceilings.items()}
    return {"runs": arguments.runs, "tokens": tokens, "limits": every, "rows": rows}


def element_key(element: str) -> str:
    """Return the name under which llama.cpp's turns of a type are recorded."""
    return f"llama.cpp {element}"


def print_limits(ceilings: Mapping[int, list[limits.Limits]]) -> limits.Limits | None:
    """Print a line for each limit; return those of all threads."""
    best = None
    for threads, measured in ceilings.items():
        best = limits.Limits(
            statistics.median(one.read_gb_per_s for one in measured),
            statistics.median(one.fma_gflop_per_s for one in measured),
        )
        name = f"limit, {threads} thread{'s' * (threads != 1)}"
        print(f"{name}: memory read {best.read_gb_per_s:.1f} GB/s")
        print(f"{name}: f32 multiply-adds {best.fma_gflop_per_s:.0f} GFLOP/s")
    if best is None:
        print("limits: not measured, there is no C compiler")
    print()
    return best


def ceiling(
    prepared: Prepared, stored: str, phase: str, best: limits.Limits | None
) -> float | None:
    """Return the tokens/s that the machine's limit allows; None if it is not known.

    Lookups are left out of prefill, and so are the logits of its last token.
    """
    if best is None:
        return None
    if phase == "decode":
        read = prepared.checkouts[stored].irpa.stat().st_size
        return best.read_gb_per_s * 1e9 / read
    products = sum(
        math.prod(map(int, parameter.type.shape))
        for parameter in prepared.manifest.graph.parameters
        if parameter.name.startswith("blk.") and len(parameter.type.shape) == 2
    )
    return best.fma_gflop_per_s * 1e9 / (2 * products)


def row(
    stored: str,
    phase: str,
    context: int,
    turns: Mapping[str, list[Speeds]],
    limit: float | None,
) -> dict[str, Any]:
    """Return a line of the table, with the samples that it is based on."""
    key, peer = (phase, context), PEERS[stored]
    ours = [turn[key] for turn in turns[stored]]
    theirs = [turn[key] for turn in turns[element_key(peer)]]
    median = statistics.median(ours)
    return {
        "phase": phase,
        "context": context,
        "stored": stored,
        "peer": peer,
        "tokens_per_s": median,
        "peer_tokens_per_s": statistics.median(theirs),
        "ratio": statistics.median(
            mine / other for mine, other in zip(ours, theirs, strict=True)
        ),
        "of_limit": None if limit is None else median / limit,
        "samples": ours,
        "peer_samples": theirs,
    }


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    print(
        f"{'phase':8} {'context':>7}  {'ingot':10} {'llama.cpp':10}"
        f" {'ingot t/s':>10} {'llama t/s':>10} {'ratio':>6} {'of limit':>9}"
    )
    for item in rows:
        share = item["of_limit"]
        print(
            f"{item['phase']:8} {item['context']:7}  {item['stored']:10}"
            f" {item['peer']:10} {item['tokens_per_s']:10.1f}"
            f" {item['peer_tokens_per_s']:10.1f} {item['ratio']:6.2f}"
            f" {'-' if share is None else f'{share:.0%}':>9}"
        )


if __name__ == "__main__":
    sys.exit(main())
