"""Test that a manifest reads outside of its project only by the user's word."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from ingot.errors import IngotError, ManifestError, Position
from ingot.model.architecture import find_architecture
from ingot.model.manifest import read_manifest
from ingot.model.yaml_nodes import format_errors
from ingot.project.allowed_paths import allow, allowed, file
from ingot.project.catalogue import read
from tests.manifest_cases import GOOD, place

SOURCE = "{kind: synthetic, seed: 1}"


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty configuration, and no word of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("INGOT_ALLOW_OUTSIDE", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project beside a folder with a secret and with weights."""
    (tmp_path / "secrets").mkdir()
    for name in ("x.safetensors", "x.json", "config.json", "model.safetensors"):
        (tmp_path / "secrets" / name).write_text('{"auths": "s3cret"}')
    place(tmp_path / "project", GOOD)
    (tmp_path / "project/models/link.safetensors").symlink_to(
        tmp_path / "secrets/x.safetensors"
    )
    (tmp_path / "project/models/own").symlink_to(tmp_path / "secrets")
    return tmp_path / "project"


def write(root: Path, source: str, below: str = "") -> Path:
    path = root / f"models/{GOOD}.yaml"
    text = path.read_text("utf-8")
    assert SOURCE in text
    path.write_text(text.replace(SOURCE, source) + below, "utf-8")
    return path


def refused(root: Path, path: Path) -> str:
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root, readable=allowed(root))
    return format_errors(caught.value)


@pytest.mark.parametrize(
    ("source", "named", "below"),
    [
        ("{kind: file, path: @/x.safetensors}", "@/x.safetensors", ""),
        (
            "{kind: file, path: ../../secrets/x.safetensors}",
            "../../secrets/x.safetensors",
            "",
        ),
        ("{kind: file, path: ../../none.safetensors}", "../../none.safetensors", ""),
        ("{kind: file, path: link.safetensors}", "link.safetensors", ""),
        ("{kind: hf-directory, path: @}", "@", ""),
        ("{kind: hf-directory, path: own}", "own", ""),
        (
            '{kind: url, url: "file://@/x.safetensors", sha256: ' + "a" * 64 + "}",
            "@/x.safetensors",
            "",
        ),
        (SOURCE, "@/x.json", "tokenizer: {kind: file, path: @/x.json}\n"),
    ],
    ids=["absolute", "above", "missing", "link", "folder", "linked", "url", "json"],
)
def test_a_path_outside_of_the_project_is_an_error(
    root: Path, source: str, named: str, below: str
) -> None:
    secrets = str(root.parent / "secrets")
    text = (root / f"models/{GOOD}.yaml").read_text("utf-8")
    if below:
        kept = [x for x in text.splitlines() if not x.startswith("tokenizer:")]
        (root / f"models/{GOOD}.yaml").write_text("\n".join(kept) + "\n")
    path = write(root, source.replace("@", secrets), below.replace("@", secrets))
    found = refused(root, path)
    named = named.replace("@", secrets)
    assert (
        f"'{named}' is outside of the project, which a manifest reads only by your word"
        in found
    )
    folder = Path(os.path.abspath(root / "models" / named)).parent
    assert f"  if you know the manifest: INGOT_ALLOW_OUTSIDE={folder} doit" in found
    assert "s3cret" not in found


def test_golden_outputs_outside_of_the_project_are_an_error(root: Path) -> None:
    (root.parent / "secrets/g.npz").write_bytes(b"")
    path = root / f"models/{GOOD}.yaml"
    text = path.read_text("utf-8")
    text = "\n".join(x for x in text.splitlines() if not x.startswith("check:"))
    path.write_text(f"{text}\ncheck: {{golden: ../../secrets/g.npz}}\n", "utf-8")
    assert "check.golden: '../../secrets/g.npz' is outside of the project" in refused(
        root, path
    )


def test_an_architecture_is_a_name_and_no_path(root: Path) -> None:
    (root.parent / "secrets/x.yaml").write_text("{}")
    with pytest.raises(ExceptionGroup) as caught:
        find_architecture(
            "../../../secrets/x",
            root,
            partial(ManifestError, Position("models/x.yaml", 1, 1), "architecture"),
        )
    assert "no architecture named '../../../secrets/x'" in str(
        caught.value.exceptions[0]
    )


def test_a_variable_allows_a_folder_for_one_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = root.parent / "secrets"
    path = write(root, f"{{kind: file, path: {secrets}/x.safetensors}}")
    monkeypatch.setenv("INGOT_ALLOW_OUTSIDE", f"/elsewhere:{secrets}")
    source = read_manifest(path, root, readable=allowed(root)).weights.source
    assert source.files[0].label == f"{secrets}/x.safetensors"
    monkeypatch.setenv("INGOT_ALLOW_OUTSIDE", f"{secrets}/x.jso")
    assert "is outside of the project" in refused(root, path)


def test_an_imported_checkpoint_may_be_read_by_its_project_alone(root: Path) -> None:
    secrets = root.parent / "secrets"
    path = write(root, f"{{kind: hf-directory, path: {secrets}}}")
    allow(root, secrets)
    assert allowed(root) == (root, secrets)
    read_manifest(path, root, readable=allowed(root))
    assert allowed(root.parent / "other") == (root.parent / "other",)
    # What lies in the project needs no word.
    before = file().read_text()
    allow(root, root / "models/architectures")
    assert file().read_text() == before


def test_the_files_of_a_download_cache_are_links_out_of_their_folder(
    root: Path,
) -> None:
    cache = root.parent / "cache"
    (cache / "snapshots/a").mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "blobs/1").write_text("{}")
    (cache / "blobs/other").write_text("{}")
    (cache / "snapshots/a/model.safetensors").symlink_to("../../blobs/1")
    allow(root, cache / "snapshots/a")
    path = write(root, f"{{kind: hf-directory, path: {cache}/snapshots/a}}")
    read_manifest(path, root, readable=allowed(root))
    assert cache / "blobs/1" in allowed(root)
    assert cache / "blobs" not in allowed(root)


def test_every_command_reads_again_once_the_user_has_allowed_it(root: Path) -> None:
    write(root, f"{{kind: file, path: {root.parent}/secrets/x.safetensors}}")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.ingot]\ndefault-model = "small"\n'
        'default-target = "x86_64"\n'
    )
    (root / "targets").mkdir()
    assert "is outside of the project" in read(root).models[GOOD].broken
    allow(root, root.parent / "secrets/x.safetensors")
    assert read(root).models[GOOD].broken == ""


def test_a_damaged_list_is_an_error(root: Path) -> None:
    for text in ("{", "[]", '{"/x": 1}', json.dumps({"/x": [1]})):
        file().parent.mkdir(parents=True, exist_ok=True)
        file().write_text(text)
        with pytest.raises(IngotError, match="cannot be read as allowed paths"):
            allowed(root)
