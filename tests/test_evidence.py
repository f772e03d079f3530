"""Test what is published beside a bundle, against the tools of its formats."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ingot import dsse
from ingot.dsse import BadEnvelope
from ingot.errors import IngotError
from ingot.release import evidence, locations, statements
from ingot.release.evidence import BOM, PROVENANCE, SIGNATURE, TEST_RESULT
from ingot.release.model_signature import read_signature, sign_model
from ingot.release.provenance import Checkout, read_checkout
from ingot.release.publish import publish
from tests.registry_server import docker_registry, registry_server
from tests.tiny_release import CHECK, CREATED, signed, written

KEY = dsse.generate("ecdsa-p256")


def payload(content: bytes) -> dict[str, Any]:
    """The statement in an envelope."""
    value: dict[str, Any] = json.loads(dsse.decode_envelope(content).payload)
    return value


def files(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }


def test_a_signature_names_model_version_target_files_and_evidence(
    tmp_path: Path,
) -> None:
    bundle = written(tmp_path / "b", "aarch64")
    made = signed(bundle, "1.4.0", KEY).evidence
    found = read_signature(made[SIGNATURE])
    assert found.envelope.signed_by(KEY.public)
    assert found.files == files(bundle.folder)
    release = found.release
    assert (release.model, release.version, release.target) == (
        "tiny",
        "1.4.0",
        "aarch64",
    )
    assert statements.read_time(release.created) == CREATED
    assert set(release.evidence) == {PROVENANCE, TEST_RESULT, BOM}
    assert release.evidence[BOM] == hashlib.sha256(made[BOM]).hexdigest()


def test_a_signature_has_the_form_of_model_signing(tmp_path: Path) -> None:
    bundle = written(tmp_path / "b")
    value = json.loads(signed(bundle, "1.4.0", KEY).evidence[SIGNATURE])
    assert value["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    hint = hashlib.sha256(KEY.public.pem).hexdigest()
    material = {"publicKey": {"hint": hint}, "tlogEntries": []}
    assert value["verificationMaterial"] == material
    statement = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
    resources = statement["predicate"]["resources"]
    assert [x["name"] for x in resources] == sorted(files(bundle.folder))
    digests = b"".join(bytes.fromhex(x["digest"]) for x in resources)
    root = hashlib.sha256(digests).hexdigest()
    assert statement["subject"] == [
        {"name": "tiny@x86_64 1.4.0", "digest": {"sha256": root}}
    ]


@pytest.mark.nightly
def test_the_stock_model_signing_accepts_it_and_rejects_a_changed_file(
    tmp_path: Path,
) -> None:
    bundle = written(tmp_path / "b").folder
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [f"{venv}/bin/pip", "install", "-q", "model-signing==1.1.1"]
    # It imports pyopenssl, which it does not require.
    install.append("pyopenssl")
    subprocess.run(install, check=True)
    made = signed(written(tmp_path / "other"), "1.4.0", KEY).evidence
    (tmp_path / "model.sig").write_bytes(made[SIGNATURE])
    (tmp_path / "key.pub").write_bytes(KEY.public.pem)

    def verify(key: str) -> tuple[int, str]:
        argv = [f"{venv}/bin/model_signing", "verify", "key", str(bundle)]
        argv += ["--signature", str(tmp_path / "model.sig")]
        argv += ["--public_key", str(tmp_path / key)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert verify("key.pub")[0] == 0
    (tmp_path / "other.pub").write_bytes(dsse.generate("ecdsa-p256").public.pem)
    assert verify("other.pub")[0] != 0
    (bundle / "model.vmfb").write_bytes(b"another module")
    code, printed = verify("key.pub")
    assert code != 0
    assert "model.vmfb" in printed


def test_a_release_is_not_signed_with_another_kind_of_key(tmp_path: Path) -> None:
    made = signed(written(tmp_path / "b"), "1.4.0", KEY)
    with pytest.raises(IngotError, match="ECDSA on P-256, found ed25519"):
        sign_model(made.subject, "", {}, dsse.generate("ed25519"))


def test_provenance_names_builder_commit_and_every_dependency(tmp_path: Path) -> None:
    bundle = written(tmp_path / "b")
    made = signed(bundle, "1.4.0", KEY).evidence[PROVENANCE]
    assert dsse.decode_envelope(made).signed_by(KEY.public)
    statement = payload(made)
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {x["name"]: x["digest"]["sha256"] for x in statement["subject"]}
    assert subjects == files(bundle.folder)
    built = statement["predicate"]["buildDefinition"]
    assert built["externalParameters"] == {
        "model": "tiny",
        "target": "x86_64",
        "version": "1.4.0",
    }
    assert built["internalParameters"]["compileCommands"] == [
        ["iree-compile", "linked.mlir"]
    ]
    assert built["internalParameters"]["sourceIsDirty"] is False
    found = {x["name"]: x for x in built["resolvedDependencies"]}
    assert found["source"]["uri"] == "git+https://git.example/tiny"
    assert {name: x["digest"] for name, x in found.items()} == {
        "source": {"gitCommit": "e" * 40},
        "models/tiny.yaml": {"sha256": "a" * 64},
        "linked.mlir": {"sha256": "b" * 64},
        "weights: w": {"sha256": "c" * 64},
        "iree-base-compiler": {"gitCommit": "d" * 40},
        "iree-base-runtime": {"recordSha256": "f" * 64},
    }
    details = statement["predicate"]["runDetails"]
    assert details["builder"] == {"id": "https://ci.example/builder"}


def test_the_checkout_is_a_commit_without_a_password(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        options = ("-c", "user.name=a", "-c", "user.email=a@example")
        subprocess.run(["git", *options, *words], cwd=tmp_path, check=True)

    assert read_checkout(tmp_path) == Checkout()
    git("init", "-q")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    git("commit", "-q", "-m", "a")
    git("remote", "add", "origin", "https://user:secret@git.example/x")
    clean = read_checkout(tmp_path)
    assert len(clean.commit) == 40
    assert (clean.address, clean.dirty) == ("https://git.example/x", False)
    (tmp_path / "a").write_text("b")
    assert read_checkout(tmp_path) == replace(clean, dirty=True)


def test_the_check_is_a_test_result(tmp_path: Path) -> None:
    bundle = written(tmp_path / "b")
    statement = payload(signed(bundle, "1.4.0", KEY).evidence[TEST_RESULT])
    kind = "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["predicateType"] == kind
    predicate = statement["predicate"]
    assert predicate["result"] == "PASSED"
    assert predicate["passedTests"] == ["component: 8 of 8", "golden: 3 of 3"]
    assert predicate["failedTests"] == predicate["warnedTests"] == []
    (report, golden) = predicate["configuration"]
    assert (report["name"], golden["name"]) == ("check.json", "golden.json")
    assert report["digest"]["sha256"] == files(bundle.folder)["check.json"]
    assert report["annotations"]["judge"] == CHECK["judge"]


def test_a_failed_level_is_a_failed_test(tmp_path: Path) -> None:
    levels = {"golden": {"rows": 3, "failed": 1}}
    check = {**CHECK, "passed": False, "levels": levels}
    bundle = written(tmp_path / "b", check=check)
    statement = payload(signed(bundle, "1.4.0", KEY).evidence[TEST_RESULT])
    predicate = statement["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["passedTests"] == ["golden: 2 of 3"]
    assert predicate["failedTests"] == ["golden: 1 of 3"]


@pytest.mark.parametrize("licence", ["Apache-2.0", "LicenseRef-Qwen", "MIT OR ISC"])
def test_the_bill_of_materials_is_valid(tmp_path: Path, licence: str) -> None:
    bundle = written(tmp_path / "b", licence=licence)
    bom = signed(bundle, "1.4.0", KEY).evidence[BOM]
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bom.decode())
    assert wrong is None
    value = json.loads(bom)
    model = value["metadata"]["component"]
    assert (model["type"], model["name"], model["version"]) == (
        "machine-learning-model",
        "tiny",
        "1.4.0",
    )
    assert model["licenses"] == [{"expression": licence}]
    card = model["modelCard"]
    assert card["modelParameters"]["task"] == "sentence embedding"
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    assert {"type": "max_abs_error", "value": "2e-06", "slice": "golden"} in metrics
    measured = "encode batch 1, seq 16"
    latency = {"type": "latency_ms (median)", "value": "1.25", "slice": measured}
    assert latency in metrics
    assert card["considerations"]["technicalLimitations"] == [
        "weights: synthetic weights, seed 1",
        "checked by: transformers 5.23.0 (float64)",
    ]


def test_evidence_is_reproducible_but_for_the_signatures(tmp_path: Path) -> None:
    first = signed(written(tmp_path / "a"), "1.4.0", KEY).evidence
    again = signed(written(tmp_path / "b"), "1.4.0", KEY).evidence
    assert first[BOM] == again[BOM]
    for name in (PROVENANCE, TEST_RESULT):
        assert first[name] != again[name]
        assert payload(first[name]) == payload(again[name])
    envelopes = [read_signature(x[SIGNATURE]).envelope for x in (first, again)]
    assert envelopes[0].payload == envelopes[1].payload
    assert envelopes[0].signatures != envelopes[1].signatures


def test_the_time_is_source_date_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86399")
    assert statements.time_text(statements.now()) == "1970-01-01T23:59:59Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(IngotError, match="SOURCE_DATE_EPOCH=yesterday: expected"):
        statements.now()


@pytest.mark.parametrize("referrers", [True, False], ids=["api", "tag"])
def test_evidence_is_found_as_referrers(tmp_path: Path, referrers: bool) -> None:
    release = signed(written(tmp_path / "b"), "1.4.0", KEY)
    with registry_server() as server:
        server.knows_referrers = referrers
        there = locations.open_repository(server.address)
        release.publish(there)
        digest = release.image.targets[0].manifest.digest
        found = evidence.read_attached(there, digest)
        tag = digest.replace(":", "-")
        assert (tag in server.manifests) is not referrers
    assert found == {name: (x,) for name, x in release.evidence.items()}


@pytest.mark.registry
def test_debians_registry_and_a_folder_keep_evidence(tmp_path: Path) -> None:
    release = signed(written(tmp_path / "b"), "1.4.0", KEY)
    digest = release.image.targets[0].manifest.digest
    expected = {name: (x,) for name, x in release.evidence.items()}
    with docker_registry(tmp_path / "registry") as address:
        for place in (address, str(tmp_path / "layout")):
            there = locations.open_repository(place)
            release.publish(there)
            assert evidence.read_attached(there, digest) == expected
            publish(there, release.image, "release")
            assert evidence.read_attached(there, digest) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"mediaType": "x"}',
        b'{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}',
    ],
    ids=range(5),
)
def test_what_is_no_signature_is_an_error(content: bytes) -> None:
    with pytest.raises(BadEnvelope):
        read_signature(content)
