"""Write the README.md of a bundle: how to call it, how to run it, what was checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

CONTENTS = {
    "LICENSE": "the licence of the weights",
    "README.md": "this page",
    "bundle.json": "the contract and the provenance; it has the digest of every file",
    "chat_template.jinja": "how a conversation becomes a prompt",
    "check.json": "every comparison of the check",
    "golden.json": "inputs and what the model must compute from them",
    "model.h": "the contract for C and C++",
    "model.irpa": "the weights, in IREE's parameter format",
    "model.vmfb": "the compiled module",
    "run.py": "runs the model with iree-base-runtime and NumPy",
    "run_text.py": "its part for texts, which needs the tokenizer",
    "tokenizer.json": "the tokenizer, in the format of Hugging Face tokenizers",
}


def readme(contract: dict[str, Any], files: Iterable[str]) -> str:
    """Return the page of a bundle with these files."""
    target = contract["target"]
    parts = [
        f"# {contract['model']} for {target['name']}",
        f"A model compiled with IREE for {target['summary'] or target['name']}."
        f" Weights: {contract['weights']}. Licence: {contract['licence']}"
        " ([LICENSE](LICENSE)).",
        "## Running it",
        *_running(contract),
        "## Entry points",
        *_entry_points(contract),
        "## What was checked",
        *_checked(contract["check"]),
        "## Files",
        table(
            ("file", "content"),
            ((f"`{name}`", CONTENTS.get(name, "")) for name in sorted(files)),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    # A bar would end the cell.
    cells = ((str(cell).replace("|", "\\|") for cell in row) for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _running(contract: dict[str, Any]) -> Iterator[str]:
    runtime, text = contract["runtime"], contract["text"]
    lines = [f"pip install {runtime['package']}=={runtime['version']} numpy"]
    if contract["generation"]:
        lines.append("python run.py --ids 1,2,3 --tokens 16   # the ids that follow")
    elif _roles(contract) >= {"tokens", "embedding"}:
        lines.append("python run.py --ids 101,7592,102   # the vector, as JSON")
    else:
        entry = contract["entry_points"][0]
        files = " ".join(f"{port['name']}.npy" for port in entry["inputs"])
        lines.append(f"python run.py --entry {entry['name']} --npy {files}")
    if text:
        lines += [
            "",
            f"pip install {' '.join(text['packages'])}",
            'python run.py --text "Hello"',
        ]
    yield "```sh\n" + "\n".join(lines) + "\n```"
    machine = contract["target"]["machine"]
    features = contract["target"]["cpu_features"]
    if machine:
        needs = f" with {', '.join(features)}" if features else ""
        yield f"It needs an {machine} processor{needs}; `run.py` says what is missing."
    yield (
        "Callers in other languages find everything that they need in `bundle.json`,"
        " callers in C and C++ in `model.h` too. `ingot verify bundle=FOLDER` compares"
        " every file with its digest and runs the cases of `golden.json` in a sandbox."
    )


def _roles(contract: dict[str, Any]) -> set[str]:
    entries = contract["entry_points"]
    kinds = ("inputs", "outputs")
    return {port["role"] for e in entries for kind in kinds for port in e[kind]}


def _entry_points(contract: dict[str, Any]) -> Iterator[str]:
    for entry in contract["entry_points"]:
        taken = {pair["output"]: pair["input"] for pair in entry["in_place"]}
        rows = [("input", *_cells(port, "")) for port in entry["inputs"]]
        rows += [
            ("output", *_cells(port, taken.get(port["name"], "")))
            for port in entry["outputs"]
        ]
        yield f"`{entry['name']}`:"
        yield table(("", "name", "role", "type", "note"), rows)
    if contract["dynamic_dims"]:
        yield "A call chooses these sizes; the module rejects others:"
        yield table(
            ("dim", "least", "most"),
            ((k, v["min"], v["max"]) for k, v in contract["dynamic_dims"].items()),
        )


def _cells(port: dict[str, Any], overwrites: str) -> tuple[str, ...]:
    type_ = f"{port['element']} [{', '.join(map(str, port['shape']))}]"
    notes = [f"overwrites the input `{overwrites}`"] if overwrites else []
    if limits := port.get("range"):
        most = " and ".join(map(str, limits["max"]))
        notes.append(f"each number from {limits['min']} to {most}")
    if port.get("unwritten"):
        notes.append(f"where nothing was written: {port['unwritten']}")
    return f"`{port['name']}`", port["role"], type_, "; ".join(notes)


def _checked(check: dict[str, Any]) -> Iterator[str]:
    judge = check["judge"]
    where = "under an emulator" if check["emulated"] else "on its own kind of device"
    independent = f"Its independent judge is {judge}."
    if judge.startswith("no "):
        independent = "No independent judge: oracle and model share one import."
    yield f"This module was compared with oracles in float64, {where}. {independent}"
    rows = [
        (name, level["rows"], level["max_abs_error"], level["tolerance"])
        for name, level in check["levels"].items()
    ]
    if rows:
        yield table(("level", "comparisons", "worst error", "its limit"), rows)
    if quality := check["quality"]:
        costs = [(key, value) for key, value in quality.items() if key != "schema"]
        yield "What the rounded weights cost, against the source's in float32:"
        yield table(("quantity", "value"), costs)
