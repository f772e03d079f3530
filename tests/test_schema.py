"""Test that the JSON Schemas agree with the readers, as far as a schema can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ingot.model.json_schema import FORMS, schema_text
from ingot.model.schema_types import check
from ingot.model.yaml_nodes import parse
from tests.manifest_cases import CASES, GOOD, GOOD_DECODER, ROOT, defects
from tests.source_tree import tracked

# What no schema sees: whether names, files and shapes exist and agree, and how the YAML
# is written (`010` has a value to each parser, only not the same).
BEYOND_A_SCHEMA = {
    "all",
    "anchor-and-alias",
    "bench-of-a-fixed-dim",
    "bench-of-too-short-a-cache",
    "bench-of-unknown-dim",
    "bench-of-unknown-entry-point",
    "bench-outside-the-range",
    "cache-longer-than-the-context",
    "cache-shorter-than-a-sequence",
    "checkpoint-folder-is-missing",
    "control-character",
    "empty-range",
    "end-token-beyond-the-vocabulary",
    "epsilon-below-zero",
    "golden-file-is-missing",
    "huge-size",
    "infinite-number",
    "licence-that-is-none",
    "licence-without-a-text",
    "missing-dim",
    "missing-dynamic-dim",
    "missing-hyperparameter",
    "name-of-more-than-sixty-four-sixty-four-sixty-four-sixty-four-letters",
    "not-utf-8",
    "octal-size",
    "package-is-not-installed",
    "package-path-leaves-site-packages",
    "parameter-without-policy",
    "policy-behind-another",
    "policy-matches-nothing",
    "repeated-key",
    "rope-base-below-zero",
    "rope-of-an-odd-width",
    "tab-indentation",
    "tag",
    "tied-parameter-cannot-be",
    "tolerance-without-a-number",
    "two-documents",
    "unclosed-bracket",
    "unclosed-quote",
    "unknown-architecture",
    "unknown-dim",
    "weight-file-is-missing",
    "weight-file-of-another-format",
    "wrong-model-name",
}
# Of architectures a schema sees the fewest: these.
WITHIN_A_SCHEMA = {
    "component-in-no-family",
    "element-type-of-64-bits",
    "malformed-type",
    "unknown-role",
}


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads(schema_text(name)))


def content(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_schema_in_docs_is_current(name: str) -> None:
    command = f"python -m ingot.model.json_schema {name} > docs/{name}.schema.json"
    written = (ROOT / f"docs/{name}.schema.json").read_text("utf-8")
    assert written == schema_text(name), f"run: {command}"


@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text(name)))


@pytest.mark.parametrize("name", tracked("models/*.yaml"))
def test_a_shipped_manifest_has_the_schema(name: str) -> None:
    validator("manifest").validate(content(ROOT / name))


@pytest.mark.parametrize(
    "name",
    [*tracked("models/architectures/*.yaml"), *tracked("tests/data/extending/*.yaml")],
)
def test_a_shipped_architecture_has_the_schema(name: str) -> None:
    validator("architecture").validate(content(ROOT / name))


def test_the_good_examples_have_the_schema() -> None:
    validator("manifest").validate(content(CASES / f"manifests/{GOOD}.yaml"))
    validator("manifest").validate(content(CASES / f"manifests/{GOOD_DECODER}.yaml"))
    validator("architecture").validate(content(CASES / f"architectures/{GOOD}.yaml"))
    decoder = CASES / f"decoders/{GOOD_DECODER}.yaml"
    validator("architecture").validate(content(decoder))


@pytest.mark.parametrize("defect", sorted({*defects("manifests")} - BEYOND_A_SCHEMA))
def test_the_schema_refuses_what_the_reader_refuses_in_a_manifest(defect: str) -> None:
    path = CASES / f"manifests/{defect}.yaml"
    assert not validator("manifest").is_valid(content(path))


@pytest.mark.parametrize(
    "defect",
    [f"architectures/{name}" for name in defects("architectures")]
    + [f"decoders/{name}" for name in defects("decoders")],
)
def test_schema_and_form_agree_on_an_architecture(defect: str) -> None:
    path = CASES / f"{defect}.yaml"
    accepted = validator("architecture").is_valid(content(path))
    node = parse(path.read_text("utf-8"), path.name)
    assert accepted == (not check(node, FORMS["architecture"]))
    assert accepted == (path.stem not in WITHIN_A_SCHEMA)
