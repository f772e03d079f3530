"""Test that nothing passes for a release but what was signed as this one.

The attacker owns the place of the release, and has releases of other models and
versions with right signatures; only the private key is not theirs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ingot.bundles.verify
from ingot import dsse
from ingot.bundles.contract import seal, unseal
from ingot.errors import IngotError
from ingot.release import locations, verify_release
from ingot.release.evidence import (
    BOM,
    PROVENANCE,
    SIGNATURE,
    TEST_RESULT,
    attach,
)
from ingot.release.oci_documents import (
    MODEL,
    MODEL_CONFIG,
    TARGET,
    TITLE,
    VERSION,
    described,
    index,
    manifest,
)
from ingot.release.provenance import Checkout
from ingot.release.statements import PAYLOAD_TYPE
from ingot.release.verify_release import Asked
from tests.tiny_release import CHECK, CREATED, Signed, signed, written

KEY, OTHER_KEY = dsse.generate("ecdsa-p256"), dsse.generate("ecdsa-p256")
DAY = 86400

FILES = (
    "LICENSE",
    "bundle.json",
    "check.json",
    "golden.json",
    "model.irpa",
    "model.vmfb",
    "tokenizer.json",
)


@dataclass(frozen=True)
class Package:
    """What a place has of one target of a release."""

    files: dict[str, bytes]
    evidence: dict[str, tuple[bytes, ...]]
    tag: str = "1.4.0"
    target: str = "x86_64"

    def file(self, name: str, content: bytes | None) -> Package:
        """The same with another file, or without it."""
        files = {k: v for k, v in self.files.items() if k != name}
        return replace(
            self, files=files if content is None else {**files, name: content}
        )

    def proof(self, name: str, *contents: bytes) -> Package:
        """The same with other evidence of a kind, or none."""
        return replace(self, evidence={**self.evidence, name: contents})

    def put(self, folder: Path) -> None:
        """Write it as a layout in a folder."""
        place = locations.open_repository(str(folder))
        layers = []
        for name, content in sorted(self.files.items()):
            layers.append(
                described("application/x", content, annotations={TITLE: name})
            )
            place.put_blob(layers[-1], content)
        config = described(MODEL_CONFIG, b"{}")
        place.put_blob(config, b"{}")
        document = manifest(MODEL, config, tuple(layers), {TARGET: self.target})
        place.put_document(document)
        for name, contents in self.evidence.items():
            for content in contents:
                attach(place, document.descriptor(), {name: content})
        entry = document.descriptor(annotations={TARGET: self.target})
        place.put_document(index((entry,), {VERSION: "1.4.0"}), self.tag)


def package(release: Signed) -> Package:
    (target,) = release.image.targets
    files = {
        blob.annotations[TITLE]: content.read_bytes()
        for blob, content in target.blobs
        if isinstance(content, Path)
    }
    return Package(files, {name: (x,) for name, x in release.evidence.items()})


@dataclass(frozen=True)
class Known:
    """What the attacker has."""

    right: Package
    older: Package  # version 1.3.0
    arm: Package  # for aarch64
    other: Package  # another model
    rebuilt: Package  # the same version from other sources


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    folder = tmp_path_factory.mktemp("known")

    def made(name: str, version: str = "1.4.0", **changed: Any) -> Package:
        # The right release and the older one differ in every file.
        bundle = written(folder / name, salt=name, **changed)
        return package(signed(bundle, version, KEY))

    return Known(
        right=made("right"),
        older=made("older", "1.3.0"),
        arm=made("arm", target="aarch64"),
        other=made("other", model="other"),
        rebuilt=made("rebuilt"),
    )


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which the sandbox would have been started."""
    started: list[object] = []
    monkeypatch.setattr(ingot.bundles.verify, "_why_not", lambda b: "")
    monkeypatch.setattr(ingot.bundles.verify, "_run", lambda b, root: started.append(b))
    yield
    assert not started


def verify(folder: Path, runs: bool = True, **asked: str) -> str:
    (folder / "key.pub").write_bytes(KEY.public.pem)
    if "policy" not in asked:
        asked["key"] = str(folder / "key.pub")
    version = asked.pop("tag", "1.4.0")
    given = Asked(**asked)
    address = f"{folder}/place:{version}"
    return verify_release.verify_release(address, given, folder, runs).text


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def resealed(p: Package) -> Package:
    """Another module, with a bundle.json that fits it."""
    contract = unseal(p.files["bundle.json"].decode())
    blob = described("x", b"evil")
    contract["files"]["model.vmfb"] = {"sha256": blob.sha256, "size_bytes": 4}
    text = seal(contract).encode()
    return p.file("model.vmfb", b"evil").file("bundle.json", text)


def resigned(p: Package, name: str, key: dsse.PrivateKey) -> Package:
    """The same statement under another key."""
    content = p.evidence[name][0]
    if name != SIGNATURE:
        payload = dsse.decode_envelope(content).payload
        return p.proof(
            name, dsse.encode_envelope(dsse.sign(PAYLOAD_TYPE, payload, key))
        )
    bundle = json.loads(content)
    envelope = dsse.decode_envelope(json.dumps(bundle["dsseEnvelope"]).encode())
    new = dsse.encode_envelope(dsse.sign(PAYLOAD_TYPE, envelope.payload, key))
    bundle["dsseEnvelope"] = json.loads(new)
    return p.proof(SIGNATURE, json.dumps(bundle).encode())


def edited(p: Package, edit: Callable[[dict[str, Any]], object]) -> Package:
    """The signature's envelope after an edit."""
    bundle = json.loads(p.evidence[SIGNATURE][0])
    edit(bundle)
    return p.proof(SIGNATURE, json.dumps(bundle).encode())


def restated(p: Package, old: bytes, new: bytes) -> Package:
    """The signature with another statement under it."""

    def edit(bundle: dict[str, Any]) -> None:
        payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
        assert old in payload
        changed = base64.b64encode(payload.replace(old, new)).decode()
        bundle["dsseEnvelope"]["payload"] = changed

    return edited(p, edit)


def flipped_file(name: str, known: Known) -> Package:
    return known.right.file(name, flipped(known.right.files[name]))


def other_file(name: str, where: str, known: Known) -> Package:
    """A file of another package of the attacker's, or none."""
    content = getattr(known, where).files[name] if where else None
    return known.right.file(name, content)


def other_proof(name: str, where: str, known: Known) -> Package:
    """Evidence of another package of the attacker's, or none."""
    contents = getattr(known, where).evidence[name] if where else ()
    return known.right.proof(name, *contents)


def cut_proof(name: str, known: Known) -> Package:
    return known.right.proof(name, known.right.evidence[name][0][:-9])


Case = tuple[Callable[[Known], Package], str]

NOT_TRUSTED = "no signature is by a trusted key; trusted: key.pub"

CASES: dict[str, Case] = {}
for file in FILES:
    CHANGED = f"{file}: it is not the file that was signed; expected sha256"
    MISSING = f"{file}: it is signed, and it is not there"
    CASES |= {
        f"{file} is changed": (partial(flipped_file, file), CHANGED),
        f"{file} is missing": (partial(other_file, file, ""), MISSING),
        f"{file} is of another model": (partial(other_file, file, "other"), CHANGED),
        f"{file} is of an older version": (partial(other_file, file, "older"), CHANGED),
    }
OF = {
    "older": "an older version",
    "rebuilt": "another build",
    "arm": "another target",
    "other": "another model",
}
for proof in (PROVENANCE, TEST_RESULT, BOM):
    WRONG = f"{proof}: it is not what the signature names: damaged, or of another"
    MISSING = f"{proof}: the signature names it, and it is not there"
    CASES |= {
        f"{proof} is missing": (partial(other_proof, proof, ""), MISSING),
        f"{proof} is damaged": (partial(cut_proof, proof), WRONG),
    } | {
        f"{proof} is of {what}": (partial(other_proof, proof, where), WRONG)
        for where, what in OF.items()
    }
CASES |= {
    "the signature is missing": (
        partial(other_proof, SIGNATURE, ""),
        "it is not signed",
    ),
    "the signature is damaged": (
        partial(cut_proof, SIGNATURE),
        f"{SIGNATURE}: it is not a signature of a release",
    ),
    "a file is added": (
        lambda k: k.right.file("evil.so", b"evil"),
        "evil.so: it is there, and nobody signed it",
    ),
    "a file has another name": (
        lambda k: k.right.file("LICENSE", None).file("COPYING", b"do as you like\n"),
        "COPYING: it is there, and nobody signed it",
    ),
    "the bundle is sealed again": (
        lambda k: resealed(k.right),
        "bundle.json: it is not the file that was signed",
    ),
    "all files are of another build": (
        lambda k: replace(k.right, files=k.rebuilt.files),
        "LICENSE: it is not the file that was signed",
    ),
    "another key signed it": (
        lambda k: resigned(k.right, SIGNATURE, OTHER_KEY),
        NOT_TRUSTED,
    ),
    "another key signed the provenance": (
        lambda k: resigned(k.right, PROVENANCE, OTHER_KEY),
        f"{PROVENANCE}: not signed with the key of key.pub",
    ),
    "another key signed the test result": (
        lambda k: resigned(k.right, TEST_RESULT, OTHER_KEY),
        f"{TEST_RESULT}: not signed with the key of key.pub",
    ),
    "nobody signed the statement": (
        lambda k: edited(k.right, lambda b: b["dsseEnvelope"].update(signatures=[])),
        NOT_TRUSTED,
    ),
    "the statement has another type": (
        lambda k: edited(k.right, lambda b: b["dsseEnvelope"].update(payloadType="x")),
        "it is a 'x', not a statement",
    ),
    "the bundle of the signature has another type": (
        lambda k: edited(k.right, lambda b: b.update(mediaType="x")),
        "it is a 'x', not a 'application/vnd.dev.sigstore.bundle.v0.3+json'",
    ),
    "the statement names another version": (
        lambda k: restated(k.older, b'"version":"1.3.0"', b'"version":"1.4.0"'),
        NOT_TRUSTED,
    ),
    "the statement has another list of files": (
        lambda k: restated(k.right, b'"name":"LICENSE"', b'"name":"COPYING"'),
        NOT_TRUSTED,
    ),
    "the statement contradicts itself": (
        lambda k: restated(
            k.right, b'"algorithm":"sha256","digest":"', b'"digest":"00'
        ),
        f"{SIGNATURE}: its list of files contradicts itself",
    ),
    "the signature of another version is beside the right files": (
        lambda k: k.right.proof(SIGNATURE, k.older.evidence[SIGNATURE][0]),
        "the signature is for another version; expected 1.4.0, found 1.3.0",
    ),
    "the tag was moved to an older version": (
        lambda k: k.older,
        "the signature is for another version; expected 1.4.0, found 1.3.0",
    ),
    "the tag was moved to another model": (
        lambda k: k.other,
        "the signature is for another model; expected tiny, found other",
    ),
    "the target is another target's": (
        lambda k: k.arm,
        "the signature is for another target; expected x86_64, found aarch64",
    ),
    "a name of a file leads elsewhere": (
        lambda k: k.right.file("../evil", b"evil"),
        "not a name of a file: '../evil'",
    ),
}


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 60


def test_the_right_release_is_accepted(known: Known, tmp_path: Path) -> None:
    known.right.put(tmp_path / "place")
    text = verify(tmp_path, runs=False, model="tiny", target="x86_64")
    assert "complete: 7 files as packed; version 1.4.0, signed by key.pub" in text


def test_wrong_signatures_beside_the_right_one_change_nothing(
    known: Known, tmp_path: Path
) -> None:
    wrong = resigned(known.right, SIGNATURE, OTHER_KEY).evidence[SIGNATURE][0]
    crowded = known.right.proof(
        SIGNATURE, b"{}", wrong, known.right.evidence[SIGNATURE][0]
    )
    crowded.put(tmp_path / "place")
    assert "signed by key.pub" in verify(tmp_path, runs=False)


@pytest.mark.parametrize("case", CASES)
def test_whatever_was_changed_is_rejected(
    case: str, known: Known, tmp_path: Path
) -> None:
    change, reason = CASES[case]
    change(known).put(tmp_path / "place")
    with pytest.raises(IngotError) as caught:
        verify(tmp_path, model="tiny", target="x86_64")
    assert reason in str(caught.value)


def test_a_blob_that_is_not_its_digest_is_rejected(
    known: Known, tmp_path: Path
) -> None:
    known.right.put(tmp_path / "place")
    weights = described("x", known.right.files["model.irpa"])
    blob = tmp_path / "place/blobs/sha256" / weights.sha256
    blob.write_bytes(flipped(blob.read_bytes()))
    with pytest.raises(
        IngotError, match=r"model\.irpa: it sent other bytes than those of"
    ):
        verify(tmp_path)


def test_a_digest_fixes_the_release(known: Known, tmp_path: Path) -> None:
    known.right.put(tmp_path / "place")
    known.older.put(tmp_path / "older")
    there = locations.open_repository(str(tmp_path / "place"))
    right = there.get_document("1.4.0")
    assert right is not None
    path = tmp_path / "place/blobs/sha256" / right.digest.removeprefix("sha256:")
    older = locations.open_repository(str(tmp_path / "older")).get_document("1.4.0")
    assert older is not None
    path.write_bytes(older.content)
    asked = Asked(key=str(tmp_path / "key.pub"))
    (tmp_path / "key.pub").write_bytes(KEY.public.pem)
    address = f"{tmp_path}/place@{right.digest}"
    with pytest.raises(IngotError, match="it sent another document than it was asked"):
        verify_release.verify_release(address, asked, tmp_path, runs=True)


CLEAN = Checkout("e" * 40, "https://git.example/tiny", dirty=False)

RULES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "an expired key": (
        "",
        {"expires": "2026-05-03"},
        {},
        "the key of the team expired on 2026-05-03",
    ),
    "another model": (
        "model: big\n",
        {},
        {},
        "policy.yaml:5:8: model: expected big, found tiny",
    ),
    "a version that is too old": (
        "minimum_version: 1.5.0\n",
        {},
        {},
        "policy.yaml:5:18: minimum_version: expected 1.5.0 or newer, found 1.4.0",
    ),
    "a release that is too old": (
        "max_age_days: 2\n",
        {},
        {"now": CREATED + 3 * DAY},
        "policy.yaml:5:15: max_age_days: expected at most 2 days, found 3",
    ),
    "another target": (
        "targets: [aarch64]\n",
        {},
        {},
        "policy.yaml:5:10: targets: expected one of aarch64, found x86_64",
    ),
    "an emulated check": (
        "native_check: true\n",
        {},
        {"check": {**CHECK, "emulated": True}},
        "policy.yaml:5:15: native_check: the check ran on an emulator",
    ),
    "no independent judge": (
        "independent_judge: true\n",
        {},
        {"check": {**CHECK, "judge": "no independent judge"}},
        "independent_judge: found no independent judge",
    ),
    "a quality that was not measured": (
        "quality: {max_kl: 0.1}\n",
        {},
        {},
        "policy.yaml:5:19: quality.max_kl: it was not measured",
    ),
    "a quality that is too low": (
        "quality: {min_top_1: 0.9}\n",
        {},
        {"check": {**CHECK, "quality": {"top_1": 0.8}}},
        "quality.min_top_1: expected at least 0.9, found 0.8",
    ),
    "a licence that is not allowed": (
        "licences: [MIT]\n",
        {},
        {"licence": "GPL-2.0-only"},
        "policy.yaml:5:11: licences: expected one of MIT, found GPL-2.0-only",
    ),
    "a source with local changes": (
        "clean_source: true\n",
        {},
        {"dirty": True},
        "clean_source: the source had local changes",
    ),
}


def policy(folder: Path, rules: str, expires: str = "2027-01-01") -> Path:
    (folder / "team.pub").write_bytes(KEY.public.pem)
    path = folder / "policy.yaml"
    head = (
        f'signed_by:\n  - name: the team\n    key: team.pub\n    expires: "{expires}"\n'
    )
    path.write_text(head + rules)
    return path


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_policy_is_rejected_at_the_line_of_the_rule(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, key, changed, reason = RULES[rule]
    time = changed.get("now", CREATED + DAY)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(time))
    dirty = changed.get("dirty", False)
    contract = {k: v for k, v in changed.items() if k not in ("dirty", "now")}
    bundle = written(tmp_path / "bundle", **contract)
    source = replace(CLEAN, dirty=dirty)
    package(signed(bundle, "1.4.0", KEY, checkout=source)).put(tmp_path / "place")
    right = policy(tmp_path, "")
    assert "signed by the team, as the policy demands" in verify(
        tmp_path, runs=False, policy=str(right)
    )
    broken = policy(tmp_path, text, **key)
    with pytest.raises(IngotError) as caught:
        verify(tmp_path, policy=str(broken))
    assert reason in str(caught.value)
