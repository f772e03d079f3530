"""Test the words of `doit release`, `pull` and `keys`, and the errors of policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot import dsse
from ingot.errors import IngotError
from ingot.release import locations
from ingot.release.policy import read_policy, signers
from ingot.release.verify_release import Asked, read_wanted
from tests.command_calls import run
from tests.tiny_release import signed, written

PLACE = "oci://127.0.0.1:9/tiny"


def wrong(name: str, *words: str, **variables: str) -> str:
    with pytest.raises(IngotError) as caught:
        run(name, *words, **variables)
    return str(caught.value)


def test_the_words_of_a_release_are_checked_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INGOT_RELEASE_KEY", raising=False)
    (tmp_path / "ed").write_bytes(dsse.generate("ed25519").pem)
    given = {"to": PLACE, "version": "1.4.0"}
    for variables, message in (
        ({"version": "1.4.0"}, "to= is missing\n  for example: to=releases/"),
        ({"to": PLACE}, "version= is missing"),
        ({"to": PLACE, "version": "1.4"}, "version=1.4: not a version\n  expected"),
        ({**given, "to": f"{PLACE}:dev"}, "version= is the tag of a release"),
        ({**given, "channel": "1.4.0"}, "1.4.0 is a version, and a version never"),
        ({**given, "channel": "a b"}, "'a b' is no channel\n  expected a name"),
        ({**given, "key": "/none"}, "key=/none: cannot be read: no such file"),
        ({**given, "key": str(tmp_path / "ed")}, "ECDSA on P-256, found ed25519"),
        ({**given, "policy": "p.yaml"}, "policy= needs key=: it judges what is signed"),
        ({**given, "keep": "3"}, "doit release reads no variable named 'keep'"),
    ):
        assert message in wrong("release", **variables)
    assert "did you mean 'prune'?" in wrong("release", "prun")
    assert "from= needs a tag or a digest" in wrong(
        "release", "promote", **{"from": PLACE, "to": "release"}
    )
    assert "prune looks at all" in wrong("release", "prune", **{"from": f"{PLACE}:dev"})
    keep = {"from": PLACE, "keep": "0"}
    assert "keep=0: expected an integer, 1 or more" in wrong("release", "prune", **keep)
    pulled = {"from": PLACE, "to": str(tmp_path)}
    assert "from= needs a tag or a digest" in wrong("pull", **pulled)


def test_the_commands_promote_prune_pull_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("keys", to="keys") == 0
    key = dsse.read_private_key(Path("keys/release.key").read_bytes(), "key")
    bundle, place = written(tmp_path / "bundle"), "layout"
    for version in ("1.3.0", "1.4.0"):
        signed(bundle, version, key).publish(locations.open_repository(place))
    assert run("release", "promote", **{"from": f"{place}:dev", "to": "release"}) == 0
    assert run("release", "prune", **{"from": place, "keep": "1"}) == 0
    assert run("pull", **{"from": f"{place}:release", "to": "pulled"}) == 0
    for address in (f"{place}:release", "pulled"):
        variables = {"bundle": address, "key": "keys/release.pub", "run": "no"}
        assert run("verify", **variables) == 0
    printed = capsys.readouterr()
    assert "layout: removed 1 version of 2" in printed.out
    assert "pulled: tiny@x86_64 1.4.0, sha256:" in printed.out
    assert "not verified: who published it; doit verify does" in printed.err
    assert printed.out.count("7 files as packed; version 1.4.0, signed by release") == 2
    (tmp_path / "pulled/model.vmfb").write_bytes(b"evil")
    assert run("verify", bundle="pulled", key="keys/release.pub") == 1
    reason = "rejected: pulled: model.vmfb: it is not the file that was signed"
    assert reason in capsys.readouterr().err
    # Without evidence, and without a word about whom to trust.
    assert run("verify", bundle="bundle", key="keys/release.pub", run="no") == 1
    assert "rejected: bundle: it is not signed" in capsys.readouterr().err
    assert run("verify", bundle=f"{place}:dev", run="no") == 1
    assert "rejected: nobody is trusted\n  who packed it" in capsys.readouterr().err


def test_one_command_makes_both_keys_and_overwrites_none(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    assert run("keys", to=str(folder)) == 0
    kinds = {"release": "ecdsa-p256", "results": "ed25519"}
    for name, algorithm in kinds.items():
        private = folder / f"{name}.key"
        assert private.stat().st_mode & 0o777 == 0o600
        key = dsse.read_private_key(private.read_bytes(), name)
        assert key.public.algorithm == algorithm
        public = dsse.read_public_key((folder / f"{name}.pub").read_bytes(), name)
        assert public.der == key.public.der
    before = {path: path.read_bytes() for path in folder.iterdir()}
    message = wrong("keys", to=str(folder))
    assert message.startswith(f"{folder}/release.key: already exists")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


BAD_POLICIES = {
    "a rule that is none": (
        "minimum-version: 1.0.0\n",
        "policy.yaml:1:1: minimum-version: unknown key\n"
        "  did you mean 'minimum_version'?",
    ),
    "a version that is none": (
        "minimum_version: '1.0'\n",
        "policy.yaml:1:18: minimum_version: expected a version such as 1.4.0,"
        " found '1.0'",
    ),
    "a date that is none": (
        "signed_by:\n  - {name: a, key: b, expires: '2026-02-30'}\n",
        "policy.yaml:2:32: signed_by[0].expires: not a date: day is out of range",
    ),
    "a signer without a key": (
        "signed_by:\n  - name: a\n",
        "policy.yaml:2:5: signed_by[0]: missing key 'key'",
    ),
    "nobody": ("signed_by: []\n", "policy.yaml:1:12: signed_by: expected at least 1"),
}


@pytest.mark.parametrize("case", BAD_POLICIES)
def test_a_wrong_policy_is_an_error_at_its_line(case: str, tmp_path: Path) -> None:
    text, message = BAD_POLICIES[case]
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(IngotError) as caught:
        read_wanted(Asked(policy=str(path)))
    assert message in str(caught.value)


def test_the_key_of_a_policy_is_a_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("signed_by:\n  - {name: a, key: a.pub}\n")
    with pytest.raises(IngotError, match=r"policy.yaml:2:20: a.pub: cannot be read"):
        signers(read_policy(path), path)
    (tmp_path / "a.pub").write_bytes(dsse.generate("ed25519").public.pem)
    with pytest.raises(IngotError, match="a: a release is signed with ECDSA on P-256"):
        read_wanted(Asked(policy=str(path)))
    own, other = dsse.generate("ecdsa-p256"), dsse.generate("ecdsa-p256")
    (tmp_path / "a.pub").write_bytes(own.public.pem)
    (tmp_path / "b.pub").write_bytes(other.public.pem)
    wanted = read_wanted(Asked(policy=str(path), key=str(tmp_path / "a.pub")))
    assert [signer.name for signer in wanted.signers] == ["a"]
    with pytest.raises(IngotError, match="the policy does not trust this key"):
        read_wanted(Asked(policy=str(path), key=str(tmp_path / "b.pub")))
