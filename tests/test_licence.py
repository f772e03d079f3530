"""Test that licence expressions follow the rules of SPDX."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.model.licence import allows_redistribution, licence_errors
from ingot.model.manifest import read_manifest
from tests.manifest_cases import GOOD, place

OWN = "  one that is not in the list is LicenseRef-NAME"


def told(expression: str) -> list[str]:
    """Return what is wrong, line by line."""
    return [
        line for error in licence_errors(expression) for line in str(error).split("\n")
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "Apache-2.0",
        "GPL-2.0+",
        "CC-BY-NC-4.0",
        "LicenseRef-Databricks-Open-Model",
        "MIT AND (Apache-2.0 OR LicenseRef-own)",
        "GPL-2.0-only WITH Classpath-exception-2.0",
    ],
)
def test_an_expression_of_spdx_is_right(expression: str) -> None:
    assert told(expression) == []


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        (
            "gpl3",
            ["no licence 'gpl3' in SPDX's list", "  did you mean 'GPL-3.0-only'?"],
        ),
        ("gemma", ["no licence 'gemma' in SPDX's list", OWN]),
        (
            "MTI OR (Apache2 AND MIT)",
            [
                "no licence 'MTI' in SPDX's list",
                "  did you mean 'MIT'?",
                "no licence 'Apache2' in SPDX's list",
                "  did you mean 'Apache-2.0'?",
            ],
        ),
        (
            "MIT WITH Classpath",
            [
                "no exception 'Classpath' in SPDX's list",
                "  did you mean 'Classpath-exception-2.0'?",
            ],
        ),
        ("apache-2.0", ["expected 'Apache-2.0', found 'apache-2.0'"]),
        (
            "MIT Apache-2.0",
            [
                "expected an SPDX licence expression such as Apache-2.0, found"
                " 'MIT Apache-2.0'"
            ],
        ),
    ],
)
def test_what_is_no_expression_is_told(expression: str, lines: list[str]) -> None:
    assert told(expression) == lines


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("Apache-2.0", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", True),
        ("LicenseRef-Gemma", True),
        ("LicenseRef-own", False),
        ("MIT OR LicenseRef-own", False),
    ],
)
def test_an_unknown_licence_does_not_allow_redistribution(
    expression: str, allowed: bool
) -> None:
    assert allows_redistribution(expression) is allowed


@pytest.mark.parametrize("given", [True, False])
def test_a_manifest_may_say_whether_its_licence_allows_redistribution(
    given: bool, tmp_path: Path
) -> None:
    path = place(tmp_path, GOOD)
    assert read_manifest(path, tmp_path).redistribution
    with path.open("a", encoding="utf-8") as file:
        file.write(f"redistribution: {str(given).lower()}\n")
    assert read_manifest(path, tmp_path).redistribution is given
