"""Test that the catalogue is read again if, and only if, something changed."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from ingot.cli.variables import VARIABLES, check_known
from ingot.codec import to_json
from ingot.engine.actions import Action, InlineText
from ingot.engine.digests import SETTLED_NS
from ingot.errors import IngotError
from ingot.project import catalogue, plan_cache
from ingot.project.catalogue import read, requested_models
from ingot.project.catalogue_values import Model
from ingot.project.selection import select
from ingot.project.stored_plan import model_from_plain, to_stored
from ingot.project.workspace import Workspace
from tests.project import ROOT, edit

PARTS = ("models", "targets", "components", "ingot", "oracles", "pyproject.toml")

MODELS = ("all-minilm-l6-v2", "clm-60m", "toy-moe")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part)
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    for manifest in (tmp_path / "models").glob("*.yaml"):
        if manifest.stem not in MODELS:
            manifest.unlink()
    settle()
    return tmp_path


def settle() -> None:
    """Wait until a change of what was just written shows in its times."""
    time.sleep(2e-9 * SETTLED_NS)


def was_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the next read is answered without reading a manifest."""
    return not planned(root, ("all",), monkeypatch)


def planned(
    root: Path, models: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the models whose manifests a read of these models reads again."""
    import ingot.project.read_models

    read_again = []
    original = ingot.project.read_models.plan_named

    def note(workspace: Workspace, name: str) -> Model:
        read_again.append(name)
        return original(workspace, name)

    with monkeypatch.context() as patch:
        patch.setattr(ingot.project.read_models, "plan_named", note)
        read(root, models)
    return read_again


def test_models_are_listed_without_their_plans(root: Path) -> None:
    whole = read(root)
    for place in (root / "build/.ingot/plans").glob("*.model.json"):
        place.unlink()
    listed = read(root, with_actions=False)
    assert not list((root / "build/.ingot/plans").glob("*.model.json"))
    assert listed.settings == whole.settings
    assert list(listed.settings.targets) == list(whole.settings.targets)
    assert listed.plan.actions == ()
    assert {name: item.summary for name, item in listed.models.items()} == {
        name: item.summary for name, item in whole.models.items()
    }


def test_a_command_reads_the_models_that_it_is_about(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = read(root, ()).settings.default_model
    assert planned(root, {"clm-60m"}, monkeypatch) == ["clm-60m"]
    assert planned(root, {"clm-60m", ""}, monkeypatch) == [default]
    assert planned(root, {"misspelt"}, monkeypatch) == []
    others = set(read(root, ()).settings.models) - {default, "clm-60m"}
    assert set(planned(root, {"all"}, monkeypatch)) == others


@pytest.mark.parametrize(
    ("variables", "tasks", "models"),
    [
        ({}, (), {""}),
        ({"model": "a, b"}, ("build", "check"), {"a", "b"}),
        ({"model": "all"}, (), {"all"}),
        ({}, ("check:a@host", "check-component-scale__n_2:b@host"), {"a", "b"}),
        ({}, ("check:a@host", "bench"), {"", "a"}),
        ({}, ("check:a@*",), {"all"}),
        ({}, ("check:*",), {"all"}),
        ({"model": "a"}, ("specialize:rope__n_head_1",), {"a", "all"}),
    ],
)
def test_variables_and_tasks_say_which_models_a_command_is_about(
    variables: dict[str, str], tasks: tuple[str, ...], models: set[str]
) -> None:
    assert requested_models(variables, tasks) == models


def test_it_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(root)
    assert was_kept(root, monkeypatch)
    assert read(root) == first


class Planted:
    """What a pickle may hold: a call of any function."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Return the call that unpickling makes."""
        return os.mkdir, ("PICKLED",)


@pytest.mark.parametrize(
    "planted",
    [
        pickle.dumps(Planted()),
        b"[" * 100_000,
        b"9" * 5_000,
        b'{"sources": "", "watched": [], "value": {"models": "a"}}',
    ],
    ids=["pickle", "deep", "long", "mistyped"],
)
def test_a_planted_plan_runs_nothing_and_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, planted: bytes
) -> None:
    first = read(root)
    monkeypatch.chdir(root)
    for place in (root / "build/.ingot/plans").iterdir():
        place.write_bytes(plan_cache.seal(planted) + planted)
    assert read(root) == first
    assert not (root / "PICKLED").exists()


def test_an_input_that_a_stored_plan_lacks_is_an_error() -> None:
    action = Action("a:x", ("true",), (("in", InlineText("1")),), ("out",))
    stored = json.loads(to_json(to_stored(Model(actions=(action,)))))
    assert model_from_plain(stored).actions == (action,)
    for number in (-1, 1):
        stored["actions"][0]["inputs"] = [number]
        with pytest.raises(ValueError, match="no such input"):
            model_from_plain(stored)


@pytest.mark.parametrize(
    "path",
    [
        "models/all-minilm-l6-v2.yaml",
        "models/architectures/bert.yaml",
        "targets/x86_64.yaml",
        "components/linear/linear_bias.mlir",
        "ingot/stages/link.py",
        "pyproject.toml",
    ],
)
def test_any_edit_makes_it_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    read(root)
    with (root / path).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert not was_kept(root, monkeypatch)


def test_a_new_file_makes_it_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(root)
    shutil.copy(root / "targets/x86_64.yaml", root / "targets/x86_64-again.yaml")
    edit(root / "targets/x86_64-again.yaml", "target: x86_64", "target: x86_64-again")
    assert not was_kept(root, monkeypatch)
    assert "x86_64-again" in read(root).settings.targets


@pytest.mark.parametrize(
    ("fact", "other"), [("machine", (("cores", "1"),)), ("cpu_features", "sse2")]
)
def test_another_processor_makes_it_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, fact: str, other: object
) -> None:
    read(root)
    monkeypatch.setattr(plan_cache, fact, lambda: other)
    assert not was_kept(root, monkeypatch)
    assert was_kept(root, monkeypatch)


@pytest.fixture
def index(root: Path) -> Path:
    """The index of a model `toy`, whose checkpoint is outside the sources."""
    text = (ROOT / "tests/data/toy.yaml").read_text(encoding="utf-8")
    (root / "models/toy.yaml").write_text(
        text.replace("kind: synthetic, seed: 1", "kind: hf-directory, path: ../toy"),
        encoding="utf-8",
    )
    (root / "toy").mkdir()
    for name in ("a", "b"):
        (root / f"toy/{name}.safetensors").touch()
    index = root / "toy/model.safetensors.index.json"
    index.write_text('{"weight_map": {"x": "a.safetensors"}}')
    settle()
    return index


def test_an_index_corrected_in_place_makes_its_model_read_again(
    root: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(root, {"toy"}, monkeypatch) == ["toy"]
    assert planned(root, {"toy"}, monkeypatch) == []
    index.write_text('{"weight_map": {"x": "b.safetensors"}}')
    assert planned(root, {"toy"}, monkeypatch) == ["toy"]
    (bake, *_) = [a for a in read(root, {"toy"}).plan.actions if "bake" in a.task]
    assert "weights/b.safetensors" in dict(bake.inputs)


def test_what_changes_while_it_is_read_is_read_again(
    root: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ingot.project.read_models

    original = ingot.project.read_models.plan_named

    def correct_meanwhile(workspace: Workspace, name: str) -> Model:
        model = original(workspace, name)
        index.write_text('{"weight_map": {"x": "b.safetensors"}}')
        return model

    with monkeypatch.context() as patch:
        patch.setattr(ingot.project.read_models, "plan_named", correct_meanwhile)
        read(root, {"toy"})
    assert planned(root, {"toy"}, monkeypatch) == ["toy"]


def test_what_an_editor_keeps_beside_a_manifest_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = read(root, ()).settings.models
    for folder in ("models", "targets", "components/linear"):
        (root / folder / ".#toy.yaml").symlink_to("someone@somewhere.1234:5678")
        (root / folder / ".half.yaml").write_text("half: [")
    assert planned(root, (), monkeypatch) == []
    edit(root / "pyproject.toml", "[tool.ingot]", "[tool.ingot]\n")
    assert read(root, ()).settings.models == models


def test_a_link_that_leads_nowhere_is_no_defect_of_others(root: Path) -> None:
    (root / "models/gone.yaml").symlink_to(root / "nowhere")
    found = read(root, {"toy-moe", "gone"})
    assert not found.models["toy-moe"].broken
    assert "no such file or directory" in found.models["gone"].broken


def test_a_damaged_copy_is_read_again(root: Path) -> None:
    first = read(root)
    for place in (root / "build/.ingot/plans").iterdir():
        place.write_bytes(place.read_bytes()[:100])
    assert read(root) == first


def test_a_broken_manifest_is_an_error_only_for_who_asks_for_it(root: Path) -> None:
    shutil.copy(ROOT / "tests/data/toy.yaml", root / "models/toy.yaml")
    edit(root / "models/toy.yaml", "n_layer: 2", "n_layers: 2")
    found = read(root)
    assert select(found, {"model": "all-minilm-l6-v2"}).models == ("all-minilm-l6-v2",)
    with pytest.raises(IngotError, match=r"models/toy\.yaml:5:\d+: dims\.n_layers"):
        select(found, {"model": "toy"})
    edit(root / "models/toy.yaml", "n_layers: 2", "n_layer: 2")
    assert select(read(root), {"model": "toy"}).models == ("toy",)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"model": "all-minilm"},
            "model=all-minilm: no model named 'all-minilm'\n"
            "  did you mean 'all-minilm-l6-v2'?",
        ),
        (
            {"target": "arch64"},
            "target=arch64: no target named 'arch64'\n  did you mean 'aarch64'?",
        ),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(
    root: Path, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(IngotError) as caught:
        select(read(root), variables)
    assert str(caught.value) == message


def test_a_misspelt_variable_is_refused_with_the_nearest() -> None:
    with pytest.raises(IngotError) as caught:
        check_known({"modle": "x"})
    assert str(caught.value) == (
        "modle=x: no variable named 'modle'\n  did you mean 'model'?"
    )


def test_host_is_a_name_for_a_target_that_runs_here(root: Path) -> None:
    found = read(root)
    (chosen,) = select(found, {"target": "host"}).targets
    assert chosen in found.settings.targets
    assert chosen not in found.settings.unrunnable


def test_all_leaves_out_what_cannot_run_here_and_says_so(root: Path) -> None:
    found = read(root)
    chosen = select(found, {"target": "all"})
    settings = found.settings
    assert set(chosen.targets) == set(settings.targets) - set(settings.unrunnable)
    assert dict(chosen.skipped) == settings.unrunnable


def test_every_variable_and_stage_is_explained() -> None:
    assert all(catalogue.STAGES.values())
    assert all(VARIABLES.values())
