"""Compare a part of a model, as a target computes it, with what it should compute.

All calls run the target's own program. A difference beyond the tolerance is a row like
any other: the check judges the rows of all parts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.checks.compare import rounded
from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.programs.compare.spec import ROWS, CompareSpec, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingot.checks.compare import Row
    from ingot.checks.golden_files import GoldenLogits, GoldenSentences
    from ingot.checks.levels import Item, Subject
    from ingot.model.graph import Graph


def main() -> None:
    """Run the specification that `argv[1]` names."""
    specification = from_json(CompareSpec, Path(sys.argv[1]).read_bytes())
    try:
        rows = _RUN[specification.part](specification, _subject(specification))
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    text = to_json(tuple(map(rounded, rows)), indent=True) + "\n"
    Path(ROWS).write_text(text, encoding="utf-8")


def components(specification: CompareSpec, subject: Subject) -> list[Row]:
    """Return the rows of all component instances."""
    from ingot.checks import levels

    return levels.run_items(levels.component_items(subject))


def blocks(specification: CompareSpec, subject: Subject) -> list[Row]:
    """Return the rows of all blocks, alone and in a chain."""
    from ingot.checks import levels

    return levels.run_items(
        (*levels.block_items(subject), *levels.propagated_items(subject))
    )


def entry_points(specification: CompareSpec, subject: Subject) -> list[Row]:
    """Return the rows of all entry points; write the cases that prove a bundle.

    Raises: IngotError where something does not run at all.
    """
    from ingot.checks import golden_sentences, levels
    from ingot.checks.bundle_cases import golden_cases
    from ingot.checks.golden_files import GoldenSentences
    from ingot.runtime.tokenizer import load_tokenizer

    tokenizer = None
    if specification.tokenizer:
        path = Path(specification.tokenizer)
        tokenizer = load_tokenizer(path, specification.n_vocab)
    judged, items = _golden(specification, subject, tokenizer)
    # The longest calls first: at the end every processor has work.
    rows = levels.run_items((*items, *levels.model_items(subject)))
    if specification.golden and isinstance(judged, GoldenSentences) and tokenizer:
        rows += golden_sentences.token_rows(judged, tokenizer)
    judge = "golden file" if specification.golden else "oracle"
    cases = golden_cases(judged, judge, specification.tolerances)
    text = json.dumps(cases, indent=True, sort_keys=True) + "\n"
    Path("golden.json").write_text(text, encoding="utf-8")
    return rows


_RUN: dict[Part, Callable[[CompareSpec, Subject], list[Row]]] = {
    "components": components,
    "blocks": blocks,
    "entry-points": entry_points,
}


def _golden(
    specification: CompareSpec, subject: Subject, tokenizer: Any
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


def _subject(specification: CompareSpec) -> Subject:
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
