"""Test that with `trust = "signed"` only signed results of other machines are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ingot import dsse
from ingot.engine.action_results import decode_result, encode_result
from ingot.engine.actions import digest_of
from ingot.engine.remote import worker
from ingot.engine.remote.remote_executor import RemoteExecutor
from ingot.engine.signed_statements import TrustedKey, result_statement
from ingot.engine.trust import Trust, signer
from ingot.errors import IngotError
from ingot.project.workspace import load
from tests.bucket_server import serving_bucket
from tests.cache_server import CacheServer, Machine, serving
from tests.execution_server import machine as reapi_machine
from tests.execution_server import running_actions
from tests.reapi_server import serving_reapi
from tests.small_actions import COUNT, UPPER
from tests.test_remote_worker import Here

TODAY = "2026-11-23"
CI, LAPTOP = (dsse.generate("ed25519") for _ in range(2))


def key(
    name: str = "ci", private: dsse.PrivateKey = CI, **fields: object
) -> TrustedKey:
    """Return a key that is trusted with everything, unless the fields say otherwise."""
    made = TrustedKey(name, private.public.text, "2027-06-30")
    return replace(made, **fields)  # type: ignore[arg-type]


def trust(*keys: TrustedKey) -> Trust:
    return Trust(keys or (key(),), TODAY)


def signing(private: dsse.PrivateKey) -> dict[str, str]:
    return {"INGOT_SIGNING_KEY": private.pem.decode()}


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


def publish(folder: Path, address: str, private: dsse.PrivateKey | None = CI) -> None:
    """Build on a machine that signs with the key, and upload the results."""
    environment = signing(private) if private is not None else {}
    machine = Machine(folder, address, environment=environment)
    assert machine.build(UPPER, COUNT) == ["ran", "ran"]
    assert machine.reported == []


def addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a shared cache of each kind."""
    with serving() as http:
        yield http.url
    yield f"file://{tmp_path}/folder"
    with serving_reapi() as reapi:
        yield reapi.address
    with serving_bucket() as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        yield "s3://bucket/ingot"


def test_the_signature_is_with_the_result_in_every_kind_of_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number, address in enumerate(addresses(monkeypatch, tmp_path)):
        publish(tmp_path / f"writer{number}", address)
        found = trust()
        reader = Machine(tmp_path / f"reader{number}", address, False, trust=found)
        assert reader.build(UPPER, COUNT) == ["fetched", "fetched"], address
        assert reader.shared is not None
        assert reader.shared.last_build("upper:x") is not None
        assert found.report() == ""
        unsigned = Machine(
            tmp_path / f"other{number}", address, False, trust=trust(key("x", LAPTOP))
        )
        assert unsigned.build(UPPER, COUNT) == ["ran", "ran"], address


UNKNOWN = f"signed by an unknown key, {LAPTOP.public.key_id[:12]}"


@pytest.mark.parametrize(
    ("signs_with", "trusted", "why"),
    [
        (None, key(), "unsigned"),
        (LAPTOP, key(), UNKNOWN),
        (
            CI,
            key(expires="2026-11-22"),
            "signed by 'ci', which expired on 2026-11-22",
        ),
        (CI, key(revoked="lost"), "signed by 'ci', which was revoked (lost)"),
    ],
    ids=["unsigned", "unknown", "expired", "revoked"],
)
def test_what_no_trusted_key_signed_is_used_for_nothing(
    server: CacheServer,
    tmp_path: Path,
    signs_with: dsse.PrivateKey | None,
    trusted: TrustedKey,
    why: str,
) -> None:
    publish(tmp_path / "writer", server.url, signs_with)
    found = trust(trusted)
    reader = Machine(tmp_path / "reader", server.url, False, trust=found)
    assert reader.shared is not None
    assert reader.shared.last_build("upper:x") is None
    assert reader.shared.look_up(reader.key(UPPER), UPPER.outputs, UPPER.task) is None
    assert found.report() == f"trust: 2 results of others were passed over: 2 {why}"
    assert reader.build(UPPER, COUNT) == ["ran", "ran"]
    assert found.report() == f"trust: 3 results of others were passed over: 3 {why}"
    # Nothing of the cache's result is in the store: not even its signature.
    stored = reader.store.action(reader.key(UPPER), UPPER.outputs)
    assert stored is not None
    assert stored.made_here
    assert stored.signature == b""


def other_output(content: bytes, writer: Machine) -> bytes:
    """Another output under the signature of the right one, with its blob."""
    result = decode_result(content)
    evil = digest_of(b"evil")
    outputs = ((result.outputs[0][0], evil),)
    made = replace(result, outputs=outputs, contents=((evil, b"evil"),))
    return encode_result(made)


def other_log(content: bytes, writer: Machine) -> bytes:
    log = digest_of(b"all is well")
    result = decode_result(content)
    contents = (*result.contents, (log, b"all is well"))
    return encode_result(replace(result, log=log, contents=contents))


def other_key(content: bytes, writer: Machine) -> bytes:
    """The same statement, signed by somebody who claims to be the key."""
    result = decode_result(content)
    envelope = dsse.decode_envelope(result.signature)
    forged = dsse.sign(envelope.payload_type, envelope.payload, LAPTOP)
    named = replace(forged.signatures[0], key_id=CI.public.key_id)
    signature = dsse.encode_envelope(replace(forged, signatures=(named,)))
    return encode_result(replace(result, signature=signature))


def made_here(content: bytes, writer: Machine) -> bytes:
    result = decode_result(content)
    return encode_result(replace(result, signature=b"", made_here=True))


def unreadable(content: bytes, writer: Machine) -> bytes:
    return encode_result(replace(decode_result(content), signature=b"{}"))


def of_another_action(content: bytes, writer: Machine) -> bytes:
    """The signed statement of another action, whose outputs are the same."""
    result = decode_result(content)
    statement = result_statement(writer.key(COUNT).hash, result)
    sign = signer(signing(CI))
    assert sign is not None
    return encode_result(replace(result, signature=sign(statement)))


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (other_output, "with the signature of something else"),
        (other_log, "with the signature of something else"),
        (of_another_action, "with the signature of something else"),
        (other_key, "with a wrong signature of 'ci'"),
        (unreadable, "with a signature that cannot be read"),
        (made_here, "unsigned"),
    ],
)
def test_a_forged_result_is_used_for_nothing(
    server: CacheServer,
    tmp_path: Path,
    forge: Callable[[bytes, Machine], bytes],
    why: str,
) -> None:
    publish(tmp_path / "writer", server.url)
    writer = Machine(tmp_path / "writer")
    place = f"/cache/ac/{writer.key(UPPER).hash}"
    server.files[place] = forge(server.files[place], writer)
    found = trust()
    reader = Machine(tmp_path / "reader", server.url, False, trust=found)
    assert reader.build(UPPER) == ["ran"]
    assert (reader.root / "build/out.txt").read_text() == "ABC"
    assert found.report() == f"trust: 1 result of others was passed over: 1 {why}"


def test_a_key_is_trusted_with_the_tasks_that_it_may_sign(
    server: CacheServer, tmp_path: Path
) -> None:
    publish(tmp_path / "writer", server.url)
    found = trust(key(signs=("bench:*", "count:*")))
    reader = Machine(tmp_path / "reader", server.url, False, trust=found)
    assert reader.build(UPPER, COUNT) == ["ran", "fetched"]
    assert found.report().endswith("1 signed by 'ci', which may not sign upper results")


def test_a_result_cannot_say_for_which_task_it_counts(
    server: CacheServer, tmp_path: Path
) -> None:
    renamed = replace(UPPER, task="bench:x")
    writer = Machine(tmp_path / "writer", server.url, environment=signing(CI))
    assert writer.build(renamed) == ["ran"]
    reader = Machine(
        tmp_path / "reader", server.url, False, trust=trust(key(signs=("bench:*",)))
    )
    assert reader.build(UPPER) == ["ran"]


def test_keys_are_rotated_without_a_gap(server: CacheServer, tmp_path: Path) -> None:
    old, new = key("ci-2026"), key("ci-2027", LAPTOP, expires="2028-06-30")
    publish(tmp_path / "before", server.url, CI)
    both = Machine(tmp_path / "b", server.url, False, trust=trust(old, new))
    assert both.build(UPPER) == ["fetched"]
    # CI signs with the new key from now on; what it signed before still counts.
    server.files.clear()
    publish(tmp_path / "after", server.url, LAPTOP)
    later = Machine(tmp_path / "c", server.url, False, trust=trust(old, new))
    assert later.build(UPPER) == ["fetched"]
    # The old key expires; nothing of the new one is lost.
    end = Trust((old, new), "2027-07-01")
    assert Machine(tmp_path / "d", server.url, False, trust=end).build(UPPER) == [
        "fetched"
    ]
    assert Machine(tmp_path / "b", server.url, False, trust=end).build(UPPER) == [
        "fetched"
    ]


def test_a_revoked_key_takes_back_what_a_store_fetched(
    server: CacheServer, tmp_path: Path
) -> None:
    publish(tmp_path / "writer", server.url)
    reader = Machine(tmp_path / "reader", server.url, False, trust=trust())
    assert reader.build(UPPER, COUNT) == ["fetched", "fetched"]
    assert Machine(tmp_path / "reader", trust=trust()).build(UPPER, COUNT) == []
    found = trust(key(revoked="stolen"))
    again = Machine(tmp_path / "reader", server.url, False, trust=found)
    assert again.build(UPPER, COUNT) == ["ran", "ran"]
    assert "2 signed by 'ci', which was revoked (stolen)" in found.report()


def test_what_was_fetched_before_signatures_were_asked_for_is_not_used_either(
    server: CacheServer, tmp_path: Path
) -> None:
    publish(tmp_path / "writer", server.url, None)
    assert Machine(tmp_path / "a", server.url, False).build(UPPER) == ["fetched"]
    found = trust()
    assert Machine(tmp_path / "a", trust=found).build(UPPER) == ["ran"]
    assert found.report().endswith("passed over: 1 unsigned")
    # What this machine made itself counts, signed or not.
    assert Machine(tmp_path / "a").build(UPPER) == ["restored"]
    assert Machine(tmp_path / "a", trust=trust()).build(UPPER) == ["restored"]


def test_without_a_signing_key_nothing_is_uploaded_that_nobody_would_trust(
    server: CacheServer, tmp_path: Path
) -> None:
    writer = Machine(tmp_path / "a", server.url, trust=trust())
    assert writer.build(UPPER, COUNT) == ["ran", "ran"]
    assert server.files == {}
    assert [text.partition(": no result")[2] for text in writer.reported] == [
        " is uploaded, because nobody would trust it unsigned: set INGOT_SIGNING_KEY"
        " to a private key"
    ]


@pytest.fixture
def dask(
    server: CacheServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Trust], Machine]:
    """Return what makes machines whose actions a worker with the key LAPTOP runs."""
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "worker"))
    monkeypatch.setenv("INGOT_SHARED_CACHE", server.url)
    monkeypatch.setenv("INGOT_SIGNING_KEY", LAPTOP.pem.decode())
    monkeypatch.setattr(worker, "_worker", functools.cache(worker.Worker))

    def make(name: str, trusted: Trust) -> Machine:
        machine = Machine(tmp_path / name, server.url, trust=trusted)
        assert machine.shared is not None
        machine.executor._remote = RemoteExecutor(
            Here(),  # type: ignore[arg-type]
            machine.shared,
            machine.store,
        )
        return machine

    return make


def test_the_result_of_a_worker_carries_the_workers_signature(
    dask: Callable[[str, Trust], Machine], server: CacheServer, tmp_path: Path
) -> None:
    worker_key = key("worker-1", LAPTOP, signs=("upper:*", "count:*"))
    assert dask("a", trust(worker_key)).build(UPPER, COUNT) == ["ran", "ran"]
    # It counts in the store of the build, and for everybody who reads the cache.
    there = Machine(tmp_path / "a", trust=trust(worker_key))
    (tmp_path / "a/build/out.txt").unlink()
    assert there.build(UPPER) == ["restored"]
    reader = Machine(tmp_path / "b", server.url, False, trust=trust(worker_key))
    assert reader.build(UPPER) == ["fetched"]


@pytest.mark.parametrize(
    ("trusted", "why"),
    [
        (key(), UNKNOWN),
        (
            key("worker-1", LAPTOP, revoked="sold"),
            "signed by 'worker-1', which was revoked (sold)",
        ),
        (
            key("worker-1", LAPTOP, signs=("bench:*",)),
            "signed by 'worker-1', which may not sign upper results",
        ),
    ],
    ids=["unknown", "revoked", "another task"],
)
def test_the_result_of_a_worker_that_is_not_trusted_is_not_used(
    dask: Callable[[str, Trust], Machine],
    tmp_path: Path,
    trusted: TrustedKey,
    why: str,
) -> None:
    machine = dask("a", trust(trusted))
    with pytest.raises(IngotError) as caught:
        machine.build(UPPER)
    assert caught.value.message == f"upper:x: the worker's result is not used: {why}"
    assert not (tmp_path / "a/build/out.txt").exists()
    assert Machine(tmp_path / "a", trust=trust(trusted)).build(UPPER) == ["ran"]


def test_workers_of_a_server_sign_with_a_key_in_their_own_configuration(
    tmp_path: Path,
) -> None:
    with running_actions() as server:
        server.environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        alone = reapi_machine(tmp_path / "a", server)
        assert alone.build(UPPER) == ["ran"]
        alone.executor._trust = trust(key("pool", LAPTOP))
        with pytest.raises(IngotError, match="result is not used: unsigned"):
            alone.build(COUNT)
        place = tmp_path / "config/ingot/signing-key"
        place.parent.mkdir(parents=True)
        place.write_bytes(LAPTOP.pem)
        server.results.clear()
        made = reapi_machine(tmp_path / "b", server)
        made.executor._trust = trust(key("pool", LAPTOP))
        assert made.build(UPPER) == ["ran"]
        reader = Machine(
            tmp_path / "c", server.address, False, trust=trust(key("pool", LAPTOP))
        )
        assert reader.build(UPPER) == ["fetched"]


SETTINGS = """[tool.ingot]
default-model = "toy"
default-target = "host"
trust = "signed"
"""


def test_the_keys_are_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f"""{SETTINGS}
[tool.ingot.keys.ci-2026]
public-key = "{CI.public.text}"
expires = 2027-06-30

[tool.ingot.keys.worker-1]
public-key = "{LAPTOP.public.text}"
expires = {date(2026, 12, 31)}
signs = ["compile:*@x86_64", "bench:*"]
revoked = "sold"
"""
    )
    assert load(tmp_path).keys == (
        key("ci-2026"),
        key(
            "worker-1",
            LAPTOP,
            expires="2026-12-31",
            signs=("compile:*@x86_64", "bench:*"),
            revoked="sold",
        ),
    )
    text = (tmp_path / "pyproject.toml").read_text()
    unsigned = text.replace('"signed"', '"any"')
    (tmp_path / "pyproject.toml").write_text(unsigned)
    assert load(tmp_path).keys is None


def test_wrong_settings_of_keys_are_rejected_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        SETTINGS.replace("signed", "some")
        + """
[tool.ingot.keys.a]
public-key = "A"
expires = "soon"
sings = ["*"]

[tool.ingot.keys.b]
public-key = "A"
expires = 2027-06-30
"""
    )
    with pytest.raises(IngotError) as caught:
        load(tmp_path)
    assert str(caught.value).splitlines() == [
        "pyproject.toml:4:1: tool.ingot.trust: expected any or signed, found 'some'",
        "pyproject.toml:9:1: tool.ingot.keys.a.sings: unknown key",
        "  did you mean 'signs'?",
        "pyproject.toml:8:1: tool.ingot.keys.a.expires: expected a date, found text"
        " 'soon'",
        "  expires = 2027-06-30",
        "pyproject.toml:7:1: tool.ingot.keys.a.public-key: two keys are the same;"
        " expected one name for it",
        "pyproject.toml:12:1: tool.ingot.keys.b.public-key: two keys are the same;"
        " expected one name for it",
    ]


def test_a_public_key_that_is_none_is_an_error(
    server: CacheServer, tmp_path: Path
) -> None:
    publish(tmp_path / "writer", server.url)
    wrong = trust(key(public="AAAA"))
    reader = Machine(tmp_path / "reader", server.url, False, trust=wrong)
    with pytest.raises(IngotError) as caught:
        reader.build(UPPER)
    assert caught.value.message == (
        "pyproject.toml: tool.ingot.keys.ci.public-key: not a public key; expected one"
        " of ed25519 or ecdsa-p256"
    )


def test_a_signing_key_that_is_none_is_an_error_that_does_not_quote_it(
    tmp_path: Path,
) -> None:
    none = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert signer(none) is None
    with pytest.raises(IngotError, match="INGOT_SIGNING_KEY: not a private key in PEM"):
        signer({**none, "INGOT_SIGNING_KEY": "-----BEGIN PRIVATE KEY-----s3cret"})
    with pytest.raises(IngotError, match=r"nokey: cannot be read: No such file"):
        signer({**none, "INGOT_SIGNING_KEY": str(tmp_path / "nokey")})
    path = tmp_path / "key"
    path.write_bytes(CI.pem)
    sign = signer({**none, "INGOT_SIGNING_KEY": str(path)})
    assert sign is not None
