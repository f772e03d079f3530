"""Test the prompts that check a decoder without a golden file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks import oracle_decoder
from ingot.checks.bundle_cases import golden_cases
from ingot.checks.cases import np_rng
from ingot.checks.compare import Row
from ingot.checks.levels import Subject
from ingot.checks.prompts import judge_prompts, prompt_items
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.invoke import Call, Module
from tests import tiny_model
from tests.toy_decoder import read

LIMITS: dict[str, Any] = {"max_abs_error": 1e-6, "min_cosine": None, "of_range": True}


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    graph = read(tmp_path_factory.mktemp("toy"))
    return Subject(
        graph=graph,
        oracles=load_oracles(graph),
        parameters={
            item.name: np_rng(item.name).normal(size=item.type.shape)
            for item in graph.parameters
        },
        runner=Runner("local-task"),
        model=Module(Path("model.vmfb")),
        tolerances={"model": Tolerance(**LIMITS, source="t.yaml:1")},
    )


def rows(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, error: float = 0.0
) -> list[Row]:
    """The rows of a target that equals the oracle except for an error in logit 0."""

    def call(runner: Runner, module: Module, what: Call) -> tuple[Any, ...]:
        entry = next(e for e in subject.graph.entry_points if e.name == what.function)
        given = (subject.graph, subject.oracles, entry, what.tensors)
        made, _ = run_entry_point(*given, subject.parameters)
        logits, *rest = made
        logits[..., 0] += error * np.ptp(logits)
        return (logits, *rest)

    monkeypatch.setattr(oracle_decoder, "call", call)
    judged = judge_prompts(subject)
    assert judged
    return [row for item in prompt_items(subject, judged) for row in item()]


def test_a_target_that_says_what_the_oracle_says_passes(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(subject, monkeypatch)
    assert [row.place.value for row in found] == ["best token", "logits"] * 2
    assert {row.place.level for row in found} == {"model"}
    assert all(row.passed for row in found)


def test_one_wrong_logit_of_all_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(subject, monkeypatch, error=1e-5)
    assert [row.passed for row in found if row.place.value == "logits"] == [False] * 2


def test_a_bundle_is_held_to_what_the_oracle_is_held_to(subject: Subject) -> None:
    limits = {
        "model": Tolerance(**LIMITS, source="t.yaml:1"),
        "golden": Tolerance(0.4, None, "t.yaml:2", of_range=True),
    }
    judged = judge_prompts(subject)
    kept = golden_cases(judged, "oracle", limits)
    assert kept["tolerance"] == kept["token_tolerance"] == LIMITS
    assert [len(case["tokens"]) for case in kept["cases"]] == [3, 7]
    assert all(len(case["logits"]) == len(kept["ids"]) for case in kept["cases"])


def test_what_is_no_decoder_or_takes_fewer_tokens_has_no_prompts(
    subject: Subject,
) -> None:
    assert judge_prompts(replace(subject, graph=tiny_model.GRAPH)) is None
    short = tuple(
        replace(dim, max=6) if dim.name == "seq" else dim
        for dim in subject.graph.dynamic
    )
    graph = replace(subject.graph, dynamic=short)
    assert judge_prompts(replace(subject, graph=graph)) is None
