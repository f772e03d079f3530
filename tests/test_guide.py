"""Test that the guide from a paper to a component shows the text of real files."""

from __future__ import annotations

import re

import pytest

from tests.project import ROOT

GUIDE = (ROOT / "docs/skills/component-from-a-paper.md").read_text("utf-8")
FILES = {
    "python": ("oracles/normalization.py", "tests/test_oracles.py"),
    "mlir": ("components/normalization/dyt.mlir",),
    "yaml": ("tests/data/toy-shapes/architecture.yaml",),
}


@pytest.mark.parametrize("kind", FILES)
def test_what_the_guide_quotes_is_in_the_files(kind: str) -> None:
    blocks = re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)
    texts = [(ROOT / name).read_text("utf-8") for name in FILES[kind]]
    assert len(blocks) == len(texts)
    for block, text in zip(blocks, texts, strict=True):
        assert block in text


def test_the_formula_of_the_guide_is_the_components() -> None:
    (formula,) = re.findall(r"^    (y\[.*)$", GUIDE, re.MULTILINE)
    header = (ROOT / FILES["mlir"][0]).read_text("utf-8")
    assert f"//   {formula}\n" in header
