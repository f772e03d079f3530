"""Measure how long build tools take for 1,000 actions with nothing to do.

    python benchmarks/noop_tools.py [--runs 7] [--tools FOLDER] [--only ingot,ninja]

Ten layers have a hundred actions each; every action reads two files of the layer above
and writes one. ninja and make come from the system, Snakemake and DVC from a scratch
environment (`python -m venv FOLDER; FOLDER/bin/pip install snakemake dvc`); a missing
tool is skipped with a message. Every tool builds once untimed; then the tools take
turns, so that the ratios hold on a noisy machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS, WIDTH = 10, 100
PATIENCE_S = 30.0

# The real front end, with a plan that does not come from the checkout's manifests.
DODO = """
import sys
import types
from pathlib import Path

sys.path.insert(0, {root!r})
from ingot.project.catalogue import read
from ingot.project.catalogue_values import Model, Settings
from ingot.cli.tasks import Checkout, task
from ingot.engine.actions import Action, Output, SourceFile

HERE = Path(__file__).parent
DOIT_CONFIG = {{"default_tasks": ["all"], "num_process": 2}}


def action(layer, place):
    names = [f"{{layer - 1}}_{{place}}", f"{{layer - 1}}_{{(place + 1) % {width}}}"]
    inputs = tuple(
        (name, Output(f"cat:{{name}}", name) if layer else SourceFile(HERE / name))
        for name in dict.fromkeys(names)
    )
    name = f"{{layer}}_{{place}}"
    words = f"cat ./{{names[0]}} ./{{names[1]}} | sha256sum > {{name}}"
    argv = ("sh", "-c", words)
    place = f"build/{{name}}"
    return Action(f"cat:{{name}}", argv, inputs, (name,), exported_to=(place,))


def plan_named(workspace, name):
    actions = tuple(action(i, p) for i in range({layers}) for p in range({width}))
    return Model(actions=actions)


def shared_settings(workspace):
    return Settings(models=("m",), targets={{"t": ""}}, unrunnable={{}}, aliases={{}},
                    default_model="m", default_target="t", shared_cache=("", "read"))


sys.modules["ingot.project.workspace"] = types.SimpleNamespace(
    load=lambda root: types.SimpleNamespace(broken={{}})
)
sys.modules["ingot.project.read_models"] = types.SimpleNamespace(
    plan_named=plan_named, shared_settings=shared_settings
)
CATALOGUE = read(HERE)
CHECKOUT = Checkout(HERE, lambda *_: CATALOGUE)


def task_cat():
    yield from map(task, CATALOGUE.plan.actions)


def task_all():
    return {{"actions": None,
            "task_dep": [f"cat:{last}_{{p}}" for p in range({width})]}}
"""


def edges() -> list[tuple[str, tuple[str, str]]]:
    """Return every output file, with the two files that it is built from."""
    return [
        (
            f"{layer}_{place}",
            (f"{layer - 1}_{place}", f"{layer - 1}_{(place + 1) % WIDTH}"),
        )
        for layer in range(LAYERS)
        for place in range(WIDTH)
    ]


def sources(folder: Path) -> None:
    """Write the files that the first layer reads."""
    folder.mkdir()
    for place in range(WIDTH):
        (folder / f"-1_{place}").write_text(f"source {place}\n", encoding="utf-8")


def command(name: str, needed: tuple[str, str]) -> str:
    """Return the command of an action, the same for every tool."""
    return f"cat ./{needed[0]} ./{needed[1]} | sha256sum > {name}"


def ingot(folder: Path, tools: Path) -> list[str] | None:
    """Write a checkout that plans the actions."""
    for name in ("models", "targets", "components", "ingot"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    values = {"root": str(ROOT), "layers": LAYERS, "width": WIDTH, "last": LAYERS - 1}
    (folder / "dodo.py").write_text(DODO.format(**values), encoding="utf-8")
    return [sys.executable, "-m", "doit"]


def ninja(folder: Path, tools: Path) -> list[str] | None:
    """Write build.ninja."""
    lines = ["rule cat", "  command = $words"]
    for name, needed in edges():
        lines += [f"build {name}: cat {' '.join(needed)}"]
        lines += [f"  words = {command(name, needed)}"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["ninja"] if shutil.which("ninja") else None


def make(folder: Path, tools: Path) -> list[str] | None:
    """Write Makefile."""
    lines = ["all: " + " ".join(f"{LAYERS - 1}_{p}" for p in range(WIDTH))]
    for name, needed in edges():
        lines += [f"{name}: {' '.join(needed)}", f"\t{command(name, needed)}"]
    (folder / "Makefile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["make"] if shutil.which("make") else None


def snakemake(folder: Path, tools: Path) -> list[str] | None:
    """Write Snakefile, with a rule per action."""
    last = [f"{LAYERS - 1}_{place}" for place in range(WIDTH)]
    lines = ["rule all:", f"    input: {last!r}"]
    for name, needed in edges():
        lines += [f"rule cat_{name}:", f"    input: {list(needed)!r}"]
        lines += [f"    output: {name!r}", f"    shell: {command(name, needed)!r}"]
    (folder / "Snakefile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    program = tools / "bin/snakemake"
    return [str(program), "--cores", "2", "--quiet"] if program.exists() else None


def dvc(folder: Path, tools: Path) -> list[str] | None:
    """Write dvc.yaml, with a stage per action, and the files of its first build.

    That build would take many minutes, because DVC rewrites its lock file for every
    stage.
    """
    program = tools / "bin/dvc"
    if not program.exists():
        return None
    stages, locked = {}, {}
    for name, needed in edges():
        parts = [(folder / part).read_bytes() for part in needed]
        digest = hashlib.sha256(b"".join(parts)).hexdigest()
        (folder / name).write_text(f"{digest}  -\n", encoding="utf-8")
        words = command(name, needed)
        outs = [{name: {"cache": False}}]
        stages[f"cat{name}"] = {"cmd": words, "deps": list(needed), "outs": outs}
        locked[f"cat{name}"] = {
            "cmd": words,
            # In DVC's order, because it compares them literally.
            "deps": [seen(folder, part) for part in sorted(set(needed))],
            "outs": [seen(folder, name)],
        }
    # JSON is YAML.
    (folder / "dvc.yaml").write_text(json.dumps({"stages": stages}), encoding="utf-8")
    lock = {"schema": "2.0", "stages": locked}
    (folder / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    subprocess.run([str(program), "init", "--no-scm", "-q"], cwd=folder, check=True)
    return [str(program), "repro", "-q"]


def seen(folder: Path, name: str) -> dict[str, object]:
    """Return a file's entry in DVC's lock file."""
    content = (folder / name).read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {"path": name, "hash": "md5", "md5": md5, "size": len(content)}


TOOLS: dict[str, Callable[[Path, Path], list[str] | None]] = {
    "ingot": ingot,
    "ninja": ninja,
    "make": make,
    "snakemake": snakemake,
    "dvc": dvc,
}


def main() -> int:
    """Build with every tool, time every tool, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tools", type=Path, default=Path(sys.prefix))
    parser.add_argument("--only", default=",".join(TOOLS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        env = {
            **os.environ,
            "INGOT_CACHE": str(base / "store"),
            "DVC_NO_ANALYTICS": "1",
        }
        commands: dict[str, list[str]] = {}
        for tool in arguments.only.split(","):
            sources(base / tool)
            words = TOOLS[tool](base / tool, arguments.tools)
            if words is None:
                print(f"{tool}: not installed, left out", file=sys.stderr)
                continue
            start = time.perf_counter()
            once(words, base / tool, env)
            print(
                f"{tool}: first build {time.perf_counter() - start:.1f} s", flush=True
            )
            commands[tool] = words
        refuse_other_results(base, list(commands))
        before = changed(base, list(commands))
        times = measure(commands, base, env, arguments.runs)
        if changed(base, list(commands)) != before:
            raise SystemExit("a tool had something to do")
    print(table(times))
    return 0


def once(words: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run a tool; show its output if it fails."""
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words[0]} failed\n{(done.stdout + done.stderr)[-2000:]}")


def outputs(base: Path, tool: str) -> list[Path]:
    """Return every file that the tool wrote."""
    folder = base / tool / ("build" if tool == "ingot" else ".")
    return [folder / name for name, _ in edges()]


def refuse_other_results(base: Path, tools: list[str]) -> None:
    """Stop if the tools did not all produce the same files."""
    for paths in zip(*(outputs(base, tool) for tool in tools), strict=True):
        if len({path.read_bytes() for path in paths}) != 1:
            raise SystemExit(f"{paths[0].name}: not the same from all tools")


def changed(base: Path, tools: list[str]) -> list[int]:
    """Return the modification time of each file."""
    return [path.stat().st_mtime_ns for tool in tools for path in outputs(base, tool)]


def measure(
    commands: dict[str, list[str]], base: Path, env: dict[str, str], runs: int
) -> dict[str, list[float]]:
    """Return the wall seconds of each tool, in turn after one warm-up.

    A tool that takes PATIENCE_S in one turn does not run again, because its noise is
    small in comparison.
    """
    times: dict[str, list[float]] = {tool: [] for tool in commands}
    for turn in range(runs + 1):
        for tool, words in commands.items():
            if max(times[tool], default=0.0) > PATIENCE_S:
                continue
            start = time.perf_counter()
            once(words, base / tool, env)
            taken = time.perf_counter() - start
            if turn or taken > PATIENCE_S:
                times[tool].append(taken)
    return times


def table(times: dict[str, list[float]]) -> str:
    """Return a line per tool: median, minimum, maximum, and the ratio to ingot."""
    ours = statistics.median(times.get("ingot", [1.0]))
    lines = [
        f"{'nothing to do':12} {'median s':>9} {'min':>7} {'max':>7} {'of ours':>8}"
    ]
    for tool, values in times.items():
        median = statistics.median(values)
        lines.append(
            f"{tool:12} {median:9.3f} {min(values):7.3f} {max(values):7.3f}"
            f" {median / ours:8.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
