"""Compare the results of an entry point on a target with those of its references.

All calls run the target's own module. A difference beyond the tolerance is a row like
any other, and does not fail this program; the check fails after it has all rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.checks.compare import rounded
from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.programs.compare_entry_point.spec import ROWS, CompareEntryPointSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingot.checks.compare import Row
    from ingot.checks.golden_files import GoldenLogits, GoldenSentences
    from ingot.checks.levels import Item, Subject
    from ingot.model.graph import EntryPoint, Graph
    from ingot.runtime.tokenizer import Tokenizer


def main() -> None:
    """Run the comparisons of the specification in `argv[1]`."""
    specification = from_json(CompareEntryPointSpec, Path(sys.argv[1]).read_bytes())
    try:
        rows = compared(specification, _subject(specification))
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    text = to_json(tuple(map(rounded, rows)), indent=True) + "\n"
    Path(ROWS).write_text(text, encoding="utf-8")


def compared(specification: CompareEntryPointSpec, subject: Subject) -> list[Row]:
    """Return the rows of the entry point.

    The comparison with the golden file, or with sentences or prompts if there is none,
    also writes the cases with which a bundle can verify itself.

    Raises: IngotError if a call fails.
    """
    from ingot.checks import golden_sentences, levels
    from ingot.checks.bundle_cases import golden_cases
    from ingot.checks.golden_files import GoldenSentences
    from ingot.runtime.tokenizer import load_tokenizer

    entries = subject.graph.entry_points
    entry = next(x for x in entries if x.name == specification.entry_point)
    if entry != levels.golden_entry(entries):
        items = (*_greedy(specification, subject, entry),)
        return levels.run_items((*items, *levels.model_items(subject, entry)))
    tokenizer = None
    if specification.tokenizer:
        path = Path(specification.tokenizer)
        tokenizer = load_tokenizer(path, specification.n_vocab)
    of_cases = levels.case_tolerances(subject, entry)
    judged, golden_items = _golden(specification, of_cases, tokenizer)
    # The longest calls come first, so that every processor has work until the end.
    rows = levels.run_items((*golden_items, *levels.model_items(subject, entry)))
    if specification.golden and isinstance(judged, GoldenSentences) and tokenizer:
        rows += golden_sentences.token_rows(judged, tokenizer)
    judge = "golden file" if specification.golden else "oracle"
    cases = golden_cases(judged, judge, of_cases.tolerances)
    text = json.dumps(cases, indent=True, sort_keys=True) + "\n"
    Path("golden.json").write_text(text, encoding="utf-8")
    return rows


def _greedy(
    specification: CompareEntryPointSpec, subject: Subject, entry: EntryPoint
) -> Iterator[Item]:
    """Return the greedy tokens of golden logits, which `decode` computes."""
    from ingot.checks.golden_files import golden_kind, read_logits
    from ingot.checks.golden_logits import greedy_items
    from ingot.checks.levels import case_tolerances
    from ingot.runtime.decoder import DECODE

    path = Path(specification.golden or "")
    if specification.golden and entry.name == DECODE and golden_kind(path) == "logits":
        of_cases = case_tolerances(subject, entry)
        return greedy_items(of_cases, read_logits(path))
    return iter(())


def _golden(
    specification: CompareEntryPointSpec, subject: Subject, tokenizer: Tokenizer | None
) -> tuple[GoldenSentences | GoldenLogits | None, Iterator[Item]]:
    """Return the cases of the golden file, or of the oracle if there is none."""
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


def _subject(specification: CompareEntryPointSpec) -> Subject:
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
        tolerances=specification.tolerances,
    )


def _graph() -> Graph:
    from ingot.model.graph import Graph

    return from_json(Graph, Path("graph.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
