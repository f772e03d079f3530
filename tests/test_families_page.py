"""Test that the page on families is what the families and transformers say."""

from __future__ import annotations

import importlib.util

import pytest

from tests.families_page import HEAD, families_table, page
from tests.project import ROOT

COMMAND = "run: python -m tests.families_page > docs/families.md"


def test_the_table_of_families_is_current() -> None:
    text = (ROOT / "docs/families.md").read_text()
    expected = "\n".join((HEAD, *families_table()))
    assert text.startswith(expected), COMMAND


@pytest.mark.nightly
@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="transformers is not installed; pip install 'ingot-build[golden]'",
)
def test_every_model_of_transformers_is_in_the_table() -> None:
    assert (ROOT / "docs/families.md").read_text() == page(), COMMAND
