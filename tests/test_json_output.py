"""Test what commands print with --json, against the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ingot.cli.json_output import OUTPUTS, schema_text
from tests.project import TOY, Project, edit
from tests.source_tree import ROOT

PAGE = ROOT / "docs/command-line.schema.json"
COMMAND = "python -m ingot.cli.json_output > docs/command-line.schema.json"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout in which nothing is built."""
    folder = tmp_path_factory.mktemp("json")
    return Project.create(folder / "checkout", folder / "cache")


def printed(project: Project, *words: str, code: int = 0) -> dict[str, Any]:
    """The value that a command prints, which has the published schema."""
    ran = project.doit(*words)
    assert ran.code == code, ran.err
    value: dict[str, Any] = json.loads(ran.out)
    jsonschema.validate(value, json.loads(PAGE.read_text("utf-8")))
    return value


def test_the_published_schema_is_current() -> None:
    assert PAGE.read_text("utf-8") == f"{schema_text()}\n", f"run: {COMMAND}"
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))
    names = [kind.__dataclass_fields__["schema"].default for kind in OUTPUTS]
    assert len({*names}) == len(names)


def test_models_targets_and_stages_are_listed(project: Project) -> None:
    listed = printed(project, "list", "--json")
    models = {model["name"]: model for model in listed["models"]}
    assert models[TOY]["weights"] == "synthetic weights"
    assert [name for name, model in models.items() if model["default"]] == [TOY]
    targets = {target["name"]: target for target in listed["targets"]}
    assert targets["host"]["alias_of"] in targets
    assert targets["aarch64"]["error"] == ""
    assert "check" in listed["stages"]


def test_a_build_tells_how_each_action_ended(project: Project) -> None:
    task = "specialize:mean_pool*"
    (foreseen,) = printed(project, "why", task, "--json")["actions"]
    assert foreseen["outcome"] == "would run"
    assert foreseen["reasons"][0].startswith("it has not run in this checkout")

    built = printed(project, task, "--json")
    (action,) = built["actions"]
    assert (action["task"], action["how"]) == (foreseen["task"], "ran")
    assert (built["exit_code"], built["results"]) == (0, {})

    again = printed(project, "why", task, "--json")
    assert (again["actions"], again["up_to_date"]) == ([], 1)

    stored = printed(project, "store", "--json")
    assert (stored["results"], stored["ran"]) == (1, 1)
    assert [share["name"] for share in stored["stages"]] == ["specialize"]
    assert printed(project, "store", "verify", "--json")["results"] == 1


def test_a_failed_build_tells_why_and_what_it_did_not_try(project: Project) -> None:
    path = project.root / "components/pooling/mean_pool.mlir"
    edit(path, "arith.addf", "arith.adff")
    built = printed(project, "-c", "link:toy@*", "--json", code=1)
    ends = {action["task"]: action for action in built["actions"]}
    (failed,) = (item for item in ends.values() if item["how"] == "failed")
    assert "arith.adff" in failed["message"]
    links = {x["how"] for name, x in ends.items() if name.startswith("link:")}
    assert links == {"not tried"}
    edit(path, "arith.adff", "arith.addf")


def test_a_bundle_that_is_wrong_is_said_to_be(project: Project, tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text("{}")
    found = printed(project, "verify", "--json", f"bundle={tmp_path}", code=1)
    assert (found["accepted"], found["report"]) == (False, "")
    assert found["rejected"].startswith("bundle.json: another schema")
