"""Provide the toy decoder with seeded weights, and the report of its ablation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ingot.ablation.ablation_report import Report
from ingot.ablation.experiment import Subject, measure
from ingot.ablation.modes import kinds, modes
from ingot.ablation.prompt import prompt, reading_tokens
from ingot.model.oracle import load_oracles
from tests import toy_decoder

TOKENS = 7


def toy_subject(folder: Path) -> Subject:
    """The toy and a prompt of 7 tokens; the folder is filled."""
    graph = toy_decoder.read(folder)
    rng = np.random.default_rng(0)
    entry = reading_tokens(graph)
    return Subject(
        graph=graph,
        entry=entry,
        oracles=load_oracles(graph),
        parameters={
            item.name: rng.normal(0, 0.5, tuple(map(int, item.type.shape))).astype(
                np.float32
            )
            for item in graph.parameters
        },
        inputs=prompt(graph, entry, TOKENS, 3),
    )


def reported(
    subject: Subject, names: tuple[str, ...], schemes: dict[str, str]
) -> Report:
    """What `doit ablate` would tell of the toy in these modes."""
    chosen, alone = modes(names, schemes), kinds(schemes)
    of_kinds = measure(subject, alone, alone=False)
    return Report(
        model="toy",
        entry_point="prefill",
        tokens=TOKENS,
        seed=3,
        schemes=schemes,
        modes=chosen,
        measured=measure(subject, chosen),
        kinds={mode.name: of_kinds.last(mode.name) for mode in alone},
        target="x86_64",
        artifact={"head": 2e-6},
    )
