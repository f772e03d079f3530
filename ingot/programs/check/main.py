"""Compare what a target's modules compute with the oracles and the golden outputs.

Four levels (components, blocks alone, blocks in a chain, the model against the oracle
and the golden file), all run by the target's own program. A failing check fails the
build; what it printed is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.check.spec import CheckSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingot.checks.compare import Row
    from ingot.checks.golden_files import GoldenLogits, GoldenSentences
    from ingot.checks.levels import Item, Subject
    from ingot.model.graph import Graph

SCHEMA = "ingot.check.v1"


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Run the specification that `argv[1]` names; exit with 1 where it is wrong."""
    from ingot.checks.bundle_cases import golden_cases

    specification = from_json(CheckSpec, Path(sys.argv[1]).read_bytes())
    try:
        rows, judged = check(specification)
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    report = report_json(specification, rows)
    printed = report_text(specification, rows)
    Path("check.json").write_text(_dump(report), encoding="utf-8")
    Path("check.txt").write_text(printed + "\n", encoding="utf-8")
    judge = "golden file" if specification.golden else "oracle"
    cases = golden_cases(judged, judge, specification.tolerances)
    Path("golden.json").write_text(_dump(cases), encoding="utf-8")
    print(printed)
    if not report["passed"]:
        raise SystemExit(1)


def check(
    specification: CheckSpec,
) -> tuple[tuple[Row, ...], GoldenSentences | GoldenLogits | None]:
    """Return the rows of all levels, and what was judged: sentences or prompts.

    Raises: IngotError where something does not run at all.
    """
    from ingot.checks import golden_sentences, levels
    from ingot.checks.compare import LEVELS as ORDER
    from ingot.checks.golden_files import GoldenSentences
    from ingot.runtime.tokenizer import load_tokenizer

    subject = _subject(specification)
    tokenizer = None
    if specification.tokenizer:
        path = Path(specification.tokenizer)
        tokenizer = load_tokenizer(path, specification.n_vocab)
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
    if specification.golden and isinstance(judged, GoldenSentences) and tokenizer:
        rows += golden_sentences.token_rows(judged, tokenizer)
    return tuple(sorted(rows, key=lambda row: ORDER.index(row.place.level))), judged


def _golden(
    specification: CheckSpec, subject: Subject, tokenizer: Any
) -> tuple[GoldenSentences | GoldenLogits | None, Iterator[Item]]:
    """Return what the golden file judges, or the oracle where there is none."""
    from ingot.checks import golden_logits, golden_sentences, prompts
    from ingot.checks.golden_files import golden_kind, read_logits, read_sentences

    if not specification.golden:
        sentences = (
            golden_sentences.judge_sentences(subject, tokenizer) if tokenizer else None
        )
        if sentences is not None:
            return sentences, golden_sentences.sentence_items(subject, sentences)
        judged = prompts.judge_prompts(subject)
        return judged, prompts.prompt_items(subject, judged) if judged else iter(())
    path = Path(specification.golden)
    if golden_kind(path) == "logits":
        logits = read_logits(path)
        return logits, golden_logits.logits_items(subject, logits)
    sentences = read_sentences(path)
    return sentences, golden_sentences.golden_items(subject, sentences)


def report_json(specification: CheckSpec, rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the report. It holds no time: equal artifacts have equal reports."""
    from ingot.checks.compare import row_json, summary

    return {
        "schema": SCHEMA,
        "model": specification.model,
        "target": specification.target,
        "device": specification.runner.device,
        "emulated": specification.runner.emulated,
        "passed": all(row.passed for row in rows),
        "levels": summary(rows),
        "rows": [row_json(row) for row in rows],
    }


def report_text(specification: CheckSpec, rows: tuple[Row, ...]) -> str:
    """Return what people read: one line per level, then what is wrong first."""
    from ingot.checks.compare import explain, table
    from ingot.checks.levels import first_blocks

    lines = [f"{specification.task}: {len(rows)} comparisons", table(rows)]
    if not all(row.passed for row in rows):
        blocks = first_blocks(_graph())
        lines.append(explain(specification.task, rows, blocks))
    return "\n".join(lines)


def _subject(specification: CheckSpec) -> Subject:
    from ingot.checks.archive_parameters import read_parameters
    from ingot.checks.levels import Subject
    from ingot.model.oracle import load_oracles
    from ingot.runtime.invoke import Module

    graph = _graph()
    archive = Path("model.irpa")
    scope = specification.scope
    return Subject(
        graph=graph,
        oracles=load_oracles(graph),
        parameters=read_parameters(graph, archive),
        runner=specification.runner,
        model=Module(Path("model.vmfb"), archive, scope),
        probe=Module(Path("probe.vmfb"), archive, scope),
        tolerances=specification.tolerances,
    )


def _graph() -> Graph:
    from ingot.model.graph import Graph

    return from_json(Graph, Path("graph.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
