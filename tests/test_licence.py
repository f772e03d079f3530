"""Test that licence expressions follow the rules of SPDX."""

from __future__ import annotations

import pytest

from ingot.model.licence import licence_errors

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
