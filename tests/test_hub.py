"""Test that checkpoints are imported from a hub, and downloaded when they are built."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.cli.hub_models import imported_names
from ingot.codec import from_json
from ingot.engine.actions import InlineText, Output
from ingot.errors import IngotError, did_you_mean
from ingot.imports.checkpoint import import_checkpoint
from ingot.model.manifest import Manifest, read_manifest
from ingot.programs.fetch import download as downloads
from ingot.programs.fetch.main import fetch
from ingot.programs.fetch.spec import FetchSpec
from ingot.stages.fetch import plan_files
from tests.family_checkpoints import write_case
from tests.hub_server import COMMIT, Hub, serving
from tests.import_cases import checkout
from tests.judged_checkpoints import baked

REPO = "owner/Tiny-Llama"
NAME = f"hf:{REPO}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The checkpoint that is in the repository."""
    return write_case(tmp_path / "source", "llama-llama3")


@pytest.fixture
def hub(source: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the checkpoint; this machine is configured to ask it."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(downloads, "PAUSE_S", 0.0)
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        files = {path.name: path.read_bytes() for path in source.iterdir()}
        files["pytorch_model.bin"] = b"a program"
        server.repositories[REPO] = files
        yield server


def brought(root: Path, source: str = NAME) -> Manifest:
    """The model that is imported."""
    return read_manifest(root / import_checkpoint(root, source).path, root)


def specifications(manifest: Manifest) -> list[FetchSpec]:
    """What the actions download."""
    source = manifest.weights.source
    actions = [
        action
        for file in (*source.files, *source.beside)
        for action in plan_files(file)
    ]
    assert all(("network", "yes") in action.platform for action in actions)
    return [
        from_json(FetchSpec, given.text.encode())
        for action in actions
        for name, given in action.inputs
        if name == "spec.json" and isinstance(given, InlineText)
    ]


def test_an_import_pins_the_commit_and_every_file_and_downloads_no_weights(
    hub: Hub, root: Path, source: Path
) -> None:
    manifest = brought(root)
    assert manifest.model == "tiny-llama"
    text = (root / manifest.path).read_text()
    assert f'revision: "{COMMIT}"' in text
    for name in ("config.json", "model.safetensors"):
        digest = hashlib.sha256((source / name).read_bytes()).hexdigest()
        assert f'{name}: "{digest}"' in text
    assert "pytorch_model" not in text
    # The length of the header, and the header.
    assert hub.storage.ranges[0] == "bytes=0-7"
    assert len(hub.storage.ranges) == 2
    config = manifest.weights.source.config
    assert isinstance(config, Output)
    assert config.task.startswith("fetch:config.json-")


def test_what_is_downloaded_is_the_checkpoint(
    hub: Hub,
    root: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest = brought(root)
    (tmp_path / "sandbox").mkdir()
    monkeypatch.chdir(tmp_path / "sandbox")
    made = {item.output: item for item in specifications(manifest)}
    assert set(made) == {"config.json", "model.safetensors"}
    # The connection breaks within the file: the download goes on from there.
    hub.storage.cut[f"/{REPO}/resolve/{COMMIT}/model.safetensors"] = 5000
    for item in made.values():
        fetch(item)
        assert Path(item.output).read_bytes() == (source / item.output).read_bytes()
    assert hub.storage.ranges[-2:] == [None, "bytes=5000-"]
    shutil.copytree(tmp_path / "sandbox", tmp_path / "fetched")
    monkeypatch.chdir(tmp_path)
    assert baked(root, manifest, tmp_path / "fetched")


def test_a_model_is_imported_by_its_name_once(hub: Hub, root: Path) -> None:
    assert imported_names(root, f"toy,{NAME}@main") == "toy,tiny-llama"
    hub.repositories.clear()
    hub.requests.clear()
    # The manifest pins the commit: nobody is asked.
    assert imported_names(root, NAME) == "tiny-llama"
    assert imported_names(root, f"{NAME}@{COMMIT}") == "tiny-llama"
    assert hub.requests == []
    with pytest.raises(IngotError, match="no model 'owner/Tiny-Llama' with revision"):
        imported_names(root, f"{NAME}@v2")


def test_a_token_comes_from_the_environment_and_goes_to_the_hub_alone(
    hub: Hub, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_secret"
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, NAME)
    assert caught.value.hint == (
        f"if {REPO} is private or has terms: HF_TOKEN=... with a token of the hub"
    )
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    manifest = brought(root)
    assert hub.storage.tokens == []
    assert "hf_secret" not in (root / manifest.path).read_text()


def test_a_repository_without_the_files_is_told(hub: Hub, root: Path) -> None:
    hub.repositories["owner/gguf"] = {"model.gguf": b"GGUF"}
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, "hf:owner/gguf")
    assert str(caught.value) == (
        "source=hf:owner/gguf: no safetensors files at commit 0123456789ab\n"
        "  download its GGUF file, and import that: source=FILE.gguf"
    )
    with pytest.raises(IngotError, match="no model 'owner/none' with revision 'main'"):
        import_checkpoint(root, "hf:owner/none")


def test_a_file_that_is_not_the_pinned_one_is_an_error(
    hub: Hub, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = (
        item for item in specifications(brought(root)) if item.output == "config.json"
    )
    hub.repositories[REPO]["config.json"] = b"{}"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IngotError, match="not the pinned file"):
        fetch(found)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "owner/name",
            "source=owner/name: no such file or folder\n  if it is a name of Hugging"
            " Face's hub: source=hf:owner/name",
        ),
        (
            "hf:name",
            "source=hf:name: expected hf:OWNER/NAME@REVISION, found 'hf:name'\n"
            "  such as hf:Qwen/Qwen3-0.6B, or hf:Qwen/Qwen3-0.6B@REVISION",
        ),
    ],
)
def test_a_name_that_is_none_is_told(source: str, message: str, root: Path) -> None:
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, source)
    assert str(caught.value) == message


def test_models_whose_names_begin_alike_are_offered_together() -> None:
    known = ("smollm2-135m", "smollm2-135m-instruct", "stories15m")
    expected = "did you mean 'smollm2-135m' or 'smollm2-135m-instruct'?"
    assert did_you_mean("smolm2", known, "models") == expected
    assert did_you_mean("stories", known, "models") == "did you mean 'stories15m'?"
