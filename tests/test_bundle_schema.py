"""Test that the published schema of bundle.json is that of the bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ingot import codec
from ingot.bundles.contract import declaration, seal, unseal
from ingot.bundles.contract_types import OLDER, SCHEMA, TargetValue, schema_text
from ingot.bundles.reader import open_bundle
from ingot.model.manifest import read_manifest
from ingot.model.target import read_target
from tests.project import ROOT
from tests.tiny_bundle import pack_whole

PAGE = ROOT / "docs/bundle.schema.json"
COMMAND = "python -m ingot.bundles.contract_types > docs/bundle.schema.json"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("packed")) / "bundle"


def declared(model: str, target: str) -> dict[str, Any]:
    manifest = read_manifest(ROOT / f"models/{model}.yaml", ROOT)
    text = codec.to_json(
        declaration(manifest, read_target(ROOT / f"targets/{target}.yaml", ROOT), ())
    )
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_schema_in_docs_is_current() -> None:
    assert PAGE.read_text("utf-8") == schema_text(), f"run: {COMMAND}"
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


def test_a_packed_bundle_has_the_schema(packed: Path) -> None:
    contract = unseal((packed / "bundle.json").read_text())
    jsonschema.validate(contract, json.loads(PAGE.read_text()))
    del contract["pooling"]
    with pytest.raises(jsonschema.ValidationError, match="'pooling' is a required"):
        jsonschema.validate(contract, json.loads(PAGE.read_text()))


@pytest.mark.parametrize("model", ["all-minilm-l6-v2", "smollm2-135m", "mixtral-tiny"])
def test_what_a_manifest_declares_has_the_schema(model: str) -> None:
    schema = json.loads(PAGE.read_text())
    contract = declared(model, "vulkan")
    written = ("files", "parameters", "runtime")
    schema["required"] = [key for key in schema["required"] if key not in written]
    jsonschema.validate(contract, schema)
    assert codec.from_plain(TargetValue, contract["target"]).device == "vulkan"


def test_a_bundle_states_what_its_entry_points_demand() -> None:
    contract = declared("smollm2-135m", "x86_64")
    decode = contract["entry_points"][1]
    ports = {port["name"]: port for port in decode["inputs"]}
    assert ports["tokens"]["range"] == {"min": 0, "max": [49151]}
    assert ports["start"]["range"] == {"min": 0, "max": [2047, "ctx - 1"]}
    assert ports["cache_k"]["unwritten"] == "anything, NaN included"
    assert contract["target"]["device"] == "local"
    assert contract["sampling"] == {"temperature": 0.0, "top_k": None, "top_p": 1.0}
    assert contract["pooling"] is None
    paged = declared("mixtral-tiny", "x86_64")["entry_points"][0]
    ranges = {p["name"]: p["range"]["max"] for p in paged["inputs"] if "range" in p}
    assert ranges["block_table"] == ["n_block - 1"]
    encoder = declared("all-minilm-l6-v2", "x86_64")
    assert encoder["pooling"] == {"kind": "mean", "normalized": True}
    assert encoder["sampling"] is None


def test_a_bundle_of_the_version_before_is_read(packed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for file in packed.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    text = (folder / "bundle.json").read_text()
    (folder / "bundle.json").write_text(text.replace(SCHEMA, OLDER[0]))
    contract = json.loads((folder / "bundle.json").read_text())
    for key in ("sha256", "pooling", "sampling", "text", "module"):
        del contract[key]
    (folder / "bundle.json").write_text(seal(contract))
    assert contract["schema"] == OLDER[0]
    assert open_bundle(folder).pooling is None
