"""A target's modules and the archive in, a report of what it computes out.

Four levels (components, blocks alone, blocks in a chain, the model against the oracle
and the golden file), all run by the target's own program. A failing check fails the
build; what it printed is kept.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.errors import IngotError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingot.checks.compare import Row
    from ingot.checks.golden_logits_file import GoldenLogits
    from ingot.checks.golden_sentences_file import Golden
    from ingot.checks.levels import Item, Subject
    from ingot.engine.actions import Action
    from ingot.model.graph import Graph
    from ingot.model.manifest import Manifest
    from ingot.model.target import Target
    from ingot.model.tolerance import Tolerance

SCHEMA = "ingot.check.v1"

# What `main` imports, below the root of the checkout.
PROGRAM = (
    "ingot/__init__.py",
    "ingot/checks/__init__.py",
    "ingot/codec.py",
    "ingot/checks/archive_parameters.py",
    "ingot/checks/bundle_cases.py",
    "ingot/checks/cases.py",
    "ingot/checks/compare.py",
    "ingot/checks/golden_logits.py",
    "ingot/checks/golden_logits_file.py",
    "ingot/checks/golden_sentences.py",
    "ingot/checks/golden_sentences_file.py",
    "ingot/checks/levels.py",
    "ingot/checks/oracle_decoder.py",
    "ingot/checks/prompts.py",
    "ingot/engine/__init__.py",
    "ingot/engine/actions.py",
    "ingot/engine/process.py",
    "ingot/errors.py",
    "ingot/model/__init__.py",
    "ingot/model/graph.py",
    "ingot/model/oracle.py",
    "ingot/model/tolerance.py",
    "ingot/runtime/__init__.py",
    "ingot/runtime/calls.py",
    "ingot/runtime/decoder.py",
    "ingot/runtime/invoke.py",
    "ingot/runtime/session.py",
    "ingot/runtime/tokenizer.py",
    "ingot/stages/__init__.py",
    "ingot/stages/check.py",
    "ingot/weights/__init__.py",
    "ingot/weights/irpa.py",
)

ENV = (
    # Beside the other files: the driver's own place is read-only for an action, and
    # without it each call compiles all shaders again, 10 s and more of it.
    ("MESA_SHADER_CACHE_DIR", "shaders"),
    # Every processor works at a call of its own; and sums split over threads would
    # make the oracle depend on how many there are.
    ("OPENBLAS_NUM_THREADS", "1"),
)

OUTPUTS = ("check.json", "check.txt", "golden.json")


def plan_check(manifest: Manifest, target: Target, root: Path) -> Action:
    """Return the action that makes the reports, or fails.

    `golden.json` holds a few sentences or prompts that the model was right about.
    """
    from ingot.engine.actions import Action, InlineText, Output, Source, SourceFile
    from ingot.model.graph import to_json
    from ingot.model.weight_files import file_input

    graph = manifest.graph
    model, name = manifest.model, target.resolved
    inputs: dict[str, Source] = {
        "spec.json": InlineText(_dump(_specification(manifest, target))),
        "graph.json": InlineText(to_json(graph)),
        "model.vmfb": Output(f"compile:{model}@{name}", "model.vmfb"),
        "probe.vmfb": Output(f"compile-probe:{model}@{name}", "probe.vmfb"),
        "model.irpa": Output(f"bake:{model}@{target.layout.name}", "model.irpa"),
    }
    if manifest.golden:
        inputs["golden.npz"] = SourceFile(manifest.golden)
    if manifest.tokenizer:
        inputs["tokenizer.json"] = file_input(manifest.tokenizer)
    oracles = sorted({instance.oracle[0] for instance in graph.instances})
    for path in ("oracles/__init__.py", *oracles, *PROGRAM):
        inputs[path] = SourceFile(root / path)
    shown = f"build/{model}/{name}"
    return Action(
        task=f"check:{model}@{name}",
        argv=("python", "-m", "ingot.stages.check", "spec.json"),
        inputs=tuple(inputs.items()),
        outputs=OUTPUTS,
        tools=tuple(
            dict.fromkeys(
                ("python", "numpy", "ml_dtypes", "iree-base-runtime", *target.tools)
            )
        ),
        env=ENV,
        exported_to=tuple(f"{shown}/{output}" for output in OUTPUTS),
    )


def _specification(manifest: Manifest, target: Target) -> dict[str, Any]:
    from ingot.checks.tolerances import tolerances

    return {
        "task": f"check {manifest.model}@{target.resolved}",
        "model": manifest.model,
        "target": target.resolved,
        "runner": asdict(target.runner),
        "scope": "model",
        "tolerances": {
            level: asdict(item) for level, item in tolerances(manifest, target).items()
        },
        "golden": "golden.npz" if manifest.golden else None,
        "tokenizer": "tokenizer.json" if manifest.tokenizer else None,
        "n_vocab": dict(manifest.dims).get("n_vocab"),
    }


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Run the specification that `argv[1]` names; exit with 1 where it is wrong."""
    from ingot.checks.bundle_cases import golden_cases

    specification = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        rows, judged = check(specification)
    except IngotError as error:
        raise SystemExit(f"{specification['task']}: {error}") from None
    report = report_json(specification, rows)
    printed = report_text(specification, rows)
    Path("check.json").write_text(_dump(report), encoding="utf-8")
    Path("check.txt").write_text(printed + "\n", encoding="utf-8")
    judge = "golden file" if specification["golden"] else "oracle"
    cases = golden_cases(judged, judge, _tolerances(specification))
    Path("golden.json").write_text(_dump(cases), encoding="utf-8")
    print(printed)
    if not report["passed"]:
        raise SystemExit(1)


def check(
    specification: dict[str, Any],
) -> tuple[tuple[Row, ...], Golden | GoldenLogits | None]:
    """Return the rows of all levels, and what was judged: sentences or prompts.

    Raises: IngotError where something does not run at all.
    """
    from ingot.checks import golden_sentences, levels
    from ingot.checks.compare import LEVELS as ORDER
    from ingot.checks.golden_sentences_file import Golden
    from ingot.runtime.tokenizer import load_tokenizer

    subject = _subject(specification)
    tokenizer = None
    if specification["tokenizer"]:
        path = Path(specification["tokenizer"])
        tokenizer = load_tokenizer(path, specification["n_vocab"])
    judged, items = _golden(specification, subject, tokenizer)
    rows = levels.run_items(
        (
            # The longest calls first: at the end every processor has work.
            *items,
            *levels.model_items(subject),
            *levels.component_items(subject),
            *levels.block_items(subject),
            *levels.propagated_items(subject),
        )
    )
    if specification["golden"] and isinstance(judged, Golden) and tokenizer:
        rows += golden_sentences.token_rows(judged, tokenizer)
    return tuple(sorted(rows, key=lambda row: ORDER.index(row.place.level))), judged


def _golden(
    specification: dict[str, Any], subject: Subject, tokenizer: Any
) -> tuple[Golden | GoldenLogits | None, Iterator[Item]]:
    """Return what the golden file judges, or the oracle where there is none."""
    from ingot.checks import golden_logits, golden_sentences, prompts
    from ingot.checks.golden_logits_file import golden_kind, read_logits
    from ingot.checks.golden_sentences_file import read_golden

    if not specification["golden"]:
        sentences = (
            golden_sentences.judge_sentences(subject, tokenizer) if tokenizer else None
        )
        if sentences is not None:
            return sentences, golden_sentences.sentence_items(subject, sentences)
        judged = prompts.judge_prompts(subject)
        return judged, prompts.prompt_items(subject, judged) if judged else iter(())
    path = Path(specification["golden"])
    if golden_kind(path) == "logits":
        logits = read_logits(path)
        return logits, golden_logits.logits_items(subject, logits)
    sentences = read_golden(path)
    return sentences, golden_sentences.golden_items(subject, sentences)


def report_json(specification: dict[str, Any], rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the report. It holds no time: equal artifacts have equal reports."""
    from ingot.checks.compare import row_json, summary

    return {
        "schema": SCHEMA,
        "model": specification["model"],
        "target": specification["target"],
        "device": specification["runner"]["device"],
        "emulated": specification["runner"]["emulated"],
        "passed": all(row.passed for row in rows),
        "levels": summary(rows),
        "rows": [row_json(row) for row in rows],
    }


def report_text(specification: dict[str, Any], rows: tuple[Row, ...]) -> str:
    """Return what people read: one line per level, then what is wrong first."""
    from ingot.checks.compare import explain, table
    from ingot.checks.levels import first_blocks

    lines = [f"{specification['task']}: {len(rows)} comparisons", table(rows)]
    if not all(row.passed for row in rows):
        blocks = first_blocks(_graph())
        lines.append(explain(specification["task"], rows, blocks))
    return "\n".join(lines)


def _subject(specification: dict[str, Any]) -> Subject:
    from ingot.checks.archive_parameters import read_parameters
    from ingot.checks.levels import Subject
    from ingot.model.oracle import load_oracles
    from ingot.runtime.invoke import Module, runner_from_json

    graph = _graph()
    archive = Path("model.irpa")
    scope = specification["scope"]
    return Subject(
        graph=graph,
        oracles=load_oracles(graph),
        parameters=read_parameters(graph, archive),
        runner=runner_from_json(specification["runner"]),
        model=Module(Path("model.vmfb"), archive, scope),
        probe=Module(Path("probe.vmfb"), archive, scope),
        tolerances=_tolerances(specification),
    )


def _tolerances(specification: dict[str, Any]) -> dict[str, Tolerance]:
    from ingot.model.tolerance import Tolerance

    given = specification["tolerances"].items()
    return {level: Tolerance(**item) for level, item in given}


def _graph() -> Graph:
    from ingot.codec import from_json
    from ingot.model.graph import Graph

    return from_json(Graph, Path("graph.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
