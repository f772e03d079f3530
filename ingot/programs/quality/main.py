"""Measure a decoder with rounded weights against the source's weights in float32."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.quality.spec import QUALITY, TEXT, QualitySpec


def main() -> None:
    """Measure what the specification in `argv[1]` names."""
    specification = from_json(QualitySpec, Path(sys.argv[1]).read_bytes())
    try:
        report = measured(specification)
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    text = json.dumps(report, indent=1, sort_keys=True) + "\n"
    Path(QUALITY).write_text(text, encoding="utf-8")


def measured(specification: QualitySpec) -> dict[str, Any]:
    """Return the content of `quality.json`.

    Raises: IngotError if a call of the target fails.
    """
    from ingot.checks.archive_parameters import read_parameters
    from ingot.checks.rounding_cost import (
        SCHEMA,
        measure,
        predict_by_oracle,
        predict_by_target,
        windows,
    )
    from ingot.model.graph import Graph
    from ingot.model.oracle import load_oracles
    from ingot.runtime.invoke import Module
    from ingot.runtime.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(Path("tokenizer.json"), specification.n_vocab)
    text = Path(TEXT).read_text(encoding="utf-8")
    tokens = list(tokenizer.encode(text, around=False))
    first = list(tokenizer.encode(""))[:1]
    texts = windows(tokens, first, specification.n_ctx)
    plain = from_json(Graph, Path("plain.json").read_bytes())
    reference = predict_by_oracle(
        plain, load_oracles(plain), read_parameters(plain, Path("plain.irpa"))
    )
    graph = from_json(Graph, Path("graph.json").read_bytes())
    archive = Path("model.irpa")
    if specification.runner:
        module = Module(Path("model.vmfb"), archive, specification.scope)
        rounded = predict_by_target(specification.runner, module, graph)
    else:
        parameters = read_parameters(graph, archive)
        rounded = predict_by_oracle(graph, load_oracles(graph), parameters)
    found = measure(reference, rounded, texts)
    return {
        "schema": SCHEMA,
        "text": TEXT,
        "tokens": found.tokens,
        "computed_by": "target" if specification.runner else "oracle",
        "source_quantised": specification.source_quantised,
        # Digits that neither the machine nor the number of threads changes.
        "perplexity": float(f"{found.perplexity:.5g}"),
        "reference_perplexity": float(f"{found.reference_perplexity:.5g}"),
        "perplexity_ratio": float(f"{found.perplexity_ratio:.4g}"),
        "kl": float(f"{found.kl:.3g}"),
        "top_1": round(found.top_1, 4),
    }


if __name__ == "__main__":
    main()
