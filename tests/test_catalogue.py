"""The catalogue: kept while nothing changes, read again when anything does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingot import catalogue
from ingot.catalogue import Catalogue, read, select
from ingot.errors import IngotError
from ingot.variables import VARIABLES, refuse_unknown
from tests.project import ROOT, edit

PARTS = ("models", "targets", "components", "ingot", "oracles", "pyproject.toml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part)
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    return tmp_path


def was_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the next read is answered without reading a manifest."""
    import ingot.plan

    read_again = []
    original = ingot.plan.catalogue

    def count(place: Path) -> Catalogue:
        read_again.append(place)
        return original(place)

    with monkeypatch.context() as patch:
        patch.setattr(ingot.plan, "catalogue", count)
        read(root)
    return not read_again


def test_it_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(root)
    assert was_kept(root, monkeypatch)
    assert read(root) == first


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
    assert "x86_64-again" in read(root).targets


def test_a_damaged_copy_is_read_again(root: Path) -> None:
    first = read(root)
    place = root / "build/.ingot/catalogue.pickle"
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
        refuse_unknown({"modle": "x"})
    assert str(caught.value) == (
        "modle=x: no variable named 'modle'\n  did you mean 'model'?"
    )


def test_host_is_a_name_for_a_target_that_runs_here(root: Path) -> None:
    found = read(root)
    (chosen,) = select(found, {"target": "host"}).targets
    assert chosen in found.targets
    assert chosen not in found.unrunnable


def test_all_leaves_out_what_cannot_run_here_and_says_so(root: Path) -> None:
    found = read(root)
    chosen = select(found, {"target": "all"})
    assert set(chosen.targets) == set(found.targets) - set(found.unrunnable)
    assert dict(chosen.skipped) == found.unrunnable


def test_every_variable_and_stage_is_explained() -> None:
    assert all(catalogue.STAGES.values())
    assert all(VARIABLES.values())
