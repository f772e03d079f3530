"""Time every entry point of a target's module.

The speed of an emulator says nothing about the device, so the report marks such times,
and an emulator is only timed on inputs of a few tokens.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.codec import from_json, to_json
from ingot.errors import IngotError, counted
from ingot.programs.bench.spec import BenchCase, BenchSpec

if TYPE_CHECKING:
    from ingot.model.graph import Graph
    from ingot.model.runner import Runner
    from ingot.runtime.invoke import Module

SCHEMA = "ingot.bench.v1"

REPETITIONS = 10
REPETITION_S = 0.2
WARMUP_S = 0.2

EMULATED_REPETITIONS = 3
# An emulated processor needs 0.1 to 0.5 s per token.
EMULATED_TOKENS = 16


def main() -> None:
    """Run the benchmark of the specification in `argv[1]`."""
    specification = from_json(BenchSpec, Path(sys.argv[1]).read_bytes())
    try:
        report = bench(specification)
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    text = to_json(report, indent=True) + "\n"
    Path("bench.json").write_text(text, encoding="utf-8")
    print(report_text(specification.task, report))


def bench(specification: BenchSpec) -> dict[str, Any]:
    """Return the report.

    Raises: IngotError if an entry point fails.
    """
    from ingot.model.graph import Graph
    from ingot.runtime.invoke import Module

    graph = from_json(Graph, Path("graph.json").read_text(encoding="utf-8"))
    runner = specification.runner
    module = Module(Path("model.vmfb"), Path("model.irpa"), specification.scope)
    runs, skipped = [], []
    load_before = round(os.getloadavg()[0], 2)
    for case in specification.cases:
        tokens = case.sizes.get("batch", 1) * case.sizes.get("seq", 1)
        if runner.emulated and tokens > EMULATED_TOKENS:
            reason = f"emulated, and more than {EMULATED_TOKENS} tokens"
            skipped.append({**_described(case), "reason": reason})
        else:
            runs.append(_run(graph, runner, module, case))
    return {
        "schema": SCHEMA,
        "model": specification.model,
        "target": specification.target,
        "weights": specification.weights,
        "machine": specification.machine,
        "load_before": load_before,
        "emulated": runner.emulated,
        "device": runner.device,
        "threads": threads(runner),
        "runs": runs,
        "skipped": skipped,
    }


def threads(runner: Runner) -> int:
    """Return the number of threads that compute on the device."""
    return 1 if runner.device == "local-sync" else len(os.sched_getaffinity(0))


def _described(case: BenchCase) -> dict[str, Any]:
    return {"entry_point": case.entry_point, "sizes": case.sizes}


def _run(
    graph: Graph, runner: Runner, module: Module, case: BenchCase
) -> dict[str, Any]:
    """Return the times of one entry point for one size of its inputs."""
    from ingot.runtime.invoke import module_argv, run

    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        argv = [
            *module_argv(runner, "iree-benchmark-module", module),
            f"--function={case.entry_point}",
            *input_flags(graph, case, folder),
            f"--benchmark_out={folder / 'times.json'}",
            "--benchmark_out_format=json",
        ]
        if runner.emulated:
            argv += [
                f"--benchmark_repetitions={EMULATED_REPETITIONS}",
                "--benchmark_min_time=1x",
            ]
        else:
            argv += [
                f"--benchmark_repetitions={REPETITIONS}",
                f"--benchmark_min_time={REPETITION_S}s",
                f"--benchmark_min_warmup_time={WARMUP_S}",
            ]
        if runner.device == "local-task":
            # By default it uses one thread per physical core, which the report cannot
            # know.
            argv.append(f"--task_topology_group_count={threads(runner)}")
        run(tuple(argv), runner, Path.cwd())
        times = json.loads((folder / "times.json").read_text(encoding="utf-8"))
    return {**_described(case), **measured(times["benchmarks"], case.sizes)}


def measured(benchmarks: list[dict[str, Any]], sizes: dict[str, int]) -> dict[str, Any]:
    """Return median, minimum and spread of the times of iree-benchmark-module.

    Units: its times are in `time_unit`; ours are milliseconds.
    Raises: IngotError if a repetition failed, or there is none.
    """
    repetitions = [item for item in benchmarks if item["run_type"] == "iteration"]
    failed = [item for item in repetitions if item.get("error_occurred")]
    if failed or not repetitions:
        why = failed[0].get("error_message", "") if failed else "it ran no repetition"
        raise IngotError(f"iree-benchmark-module failed: {why}")
    scale = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    wall = [item["real_time"] * scale[item["time_unit"]] for item in repetitions]
    cpu = [item["cpu_time"] * scale[item["time_unit"]] for item in repetitions]
    low, middle, high = quartiles(wall)
    tokens = sizes.get("batch", 1) * sizes.get("seq", 1)
    return {
        "latency_ms": {
            "median": round(middle, 4),
            "min": round(min(wall), 4),
            "iqr": round(high - low, 4),
        },
        "cpu_ms": round(statistics.median(cpu), 4),
        "tokens_per_s": round(tokens / middle * 1e3, 1),
        "repetitions_ms": [round(time, 4) for time in wall],
        "iterations_per_repetition": repetitions[0]["iterations"],
    }


def quartiles(times: list[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile of some times."""
    if len(times) == 1:
        return times[0], times[0], times[0]
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, middle, high


def report_text(task: str, report: dict[str, Any]) -> str:
    """Return the text that the program prints: the machine, and one line per size."""
    facts = report["machine"]
    cores = counted(int(facts["cores"]), "core")
    machine = f"{facts['cpu']}, {cores}, {facts['memory']}"
    kind = "EMULATED, says nothing about the device; " if report["emulated"] else ""
    kind += f"{report['weights']}; " if report["weights"] else ""
    lines = [f"{task}: {kind}{counted(report['threads'], 'thread')} on {machine}"]
    for run in report["runs"]:
        sizes = " ".join(f"{name} {size}" for name, size in run["sizes"].items())
        latency = run["latency_ms"]
        lines.append(
            f"  {run['entry_point']} {sizes}: median {latency['median']:.2f} ms, "
            f"min {latency['min']:.2f}, iqr {latency['iqr']:.2f}, "
            f"{run['tokens_per_s']:.0f} tokens/s"
        )
    for case in report["skipped"]:
        sizes = " ".join(f"{name} {size}" for name, size in case["sizes"].items())
        lines.append(f"  {case['entry_point']} {sizes}: not timed: {case['reason']}")
    return "\n".join(lines)


def input_flags(graph: Graph, case: BenchCase, folder: Path) -> list[str]:
    """Write an input file for each argument, without padding, and return the flags."""
    import numpy as np

    from ingot.checks.cases import Case, entry_inputs

    entry = next(e for e in graph.entry_points if e.name == case.entry_point)
    sizes = case.sizes
    batch, seq = sizes.get("batch", 1), sizes.get("seq", 1)
    ctx = sizes.get("ctx", 0) or sizes.get("n_block_seq", 0) * entry.block_size
    flags = []
    tensors = entry_inputs(graph, entry, Case(batch, seq, (seq,) * batch, ctx))
    for index, tensor in enumerate(tensors):
        np.save(folder / f"in{index}.npy", tensor)
        flags.append(f"--input=@{folder}/in{index}.npy")
    return flags


if __name__ == "__main__":
    main()
