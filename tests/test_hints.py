"""Test that `doit why` learns of the last build on another machine from the cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.cli.why_command import Elsewhere, print_reasons
from ingot.engine import action_results
from ingot.engine.action_keys import encode_action
from ingot.engine.actions import (
    Action,
    ActionResult,
    Digest,
    InlineText,
    resolve_action,
)
from ingot.engine.cache.build_hints import BuildHint, encode_hint, hint_key
from ingot.project.catalogue import Plan
from tests.bucket_server import serving_bucket
from tests.cache_server import CacheServer, Machine, serving
from tests.reapi_server import serving_reapi
from tests.small_actions import COUNT, UPPER

CHANGED = replace(
    UPPER, argv=("sh", "-e", *UPPER.argv[1:]), inputs=(("in.txt", InlineText("abcd")),)
)
HINT = f"/cache/ac/{hint_key('', 'upper:x').hash}"


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


@contextmanager
def cache(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of an empty cache of that kind."""
    if kind == "http":
        with serving() as http:
            yield http.url
    elif kind == "reapi":
        with serving_reapi() as reapi:
            yield reapi.address
    elif kind == "s3":
        with serving_bucket() as bucket:
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{bucket.server_port}")
            for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION"):
                patch.setenv(f"AWS_{name}", "x")
            yield "s3://bucket/ingot"
    else:
        yield f"file://{folder}/shared"


def why(
    machine: Machine, capsys: pytest.CaptureFixture[str], *actions: Action
) -> list[str]:
    """What `doit why` says of the last of the actions."""
    elsewhere = Elsewhere(machine.executor, lambda: machine.shared)
    print_reasons(Plan(actions), {actions[-1].task}, machine.executor, elsewhere)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["http", "reapi", "s3", "file"])
def test_a_machine_without_records_shows_what_differs_from_the_last_build_elsewhere(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with cache(kind, tmp_path, monkeypatch) as address:
        first, other, asking = (Machine(tmp_path / n, address) for n in "abc")
        assert first.build(UPPER) == ["ran"]
        lines = why(asking, capsys, CHANGED)
        assert lines[:2] == [
            "upper:x would run:",
            "  it has not run in this checkout, or its last run did not end",
        ]
        key = first.key(UPPER).hash[:12]
        assert re.fullmatch(
            rf"  against its last build elsewhere, {key}, of 20..-..-.. ..:..:",
            lines[2],
        )
        old, new = (dict(asking.executor.resolve(a).inputs) for a in (UPPER, CHANGED))
        assert lines[3:] == [
            "  flag added: -e",
            f"  input in.txt: {old['in.txt']} -> {new['in.txt']}",
        ]
        # Who builds next takes its place.
        assert other.build(replace(UPPER, env=(("LEVEL", "2"),))) == ["ran"]
        assert "  variable LEVEL: 2 -> none" in why(asking, capsys, CHANGED)
        assert first.reported == other.reported == asking.reported == []


def test_a_result_that_would_be_fetched_is_no_reason_for_later_actions(
    server: CacheServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER, COUNT)
    asking = Machine(tmp_path / "b", server.url)
    assert why(asking, capsys, UPPER, COUNT) == [
        "count:x would be fetched: the shared cache has its result",
        "nothing would run: 0 actions are up to date, 1 would be fetched",
    ]
    slower = replace(COUNT, argv=("sh", "-c", "sleep 0; wc -c < upper.txt > count.txt"))
    assert why(asking, capsys, UPPER, slower)[3:] == [
        f"  flag removed: {COUNT.argv[2]}",
        f"  flag added: {slower.argv[2]}",
    ]
    assert not list((asking.store.root / "ac").rglob("?" * 64))


def test_only_an_action_that_ran_uploads_a_hint(
    server: CacheServer, tmp_path: Path
) -> None:
    first = Machine(tmp_path / "a", server.url)
    first.build(UPPER, COUNT)
    results_and_hints = [path for path in server.order if "/ac/" in path]
    assert len(results_and_hints) == 4
    sent = len(server.order)
    assert Machine(tmp_path / "b", server.url).build(UPPER, COUNT) == ["fetched"] * 2
    (first.root / "build/out.txt").unlink()
    assert first.build(UPPER) == ["restored"]
    assert len(server.order) == sent


def test_another_project_with_a_task_of_that_name_has_another_hint() -> None:
    places = {hint_key(p, t) for p in ("ingot", "other") for t in ("a:x", "b:x")}
    assert len(places) == 4


ENCODED = encode_action(resolve_action(UPPER, (("in.txt", Digest("a" * 64, 3)),), ()))
LAST = BuildHint((b"no action",), 1e9)
LIES = {
    "no message": b"<html>log in first</html>",
    "of another task": encode_hint("count:x", LAST),
    "of no time": action_results.encode_result(
        ActionResult((), task="upper:x", messages=LAST.messages)
    ),
    "of nothing": encode_hint("upper:x", BuildHint((), 1e9)),
    "of no action": encode_hint("upper:x", LAST),
    "in pieces": encode_hint("upper:x", BuildHint(ENCODED.messages[:-1], 1e9)),
    "huge": bytes(5 << 20),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_invalid_hint_is_ignored(
    server: CacheServer, tmp_path: Path, lie: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    assert server.files[HINT]
    server.files[HINT] = LIES[lie]
    asking = Machine(tmp_path / "b", server.url)
    assert why(asking, capsys, CHANGED) == [
        "upper:x would run:",
        "  it has not run in this checkout, or its last run did not end",
    ]
    assert asking.build(UPPER) == ["fetched"]
    assert asking.reported == []


def test_a_cache_that_rejects_hints_is_reported_once_and_still_gets_results(
    server: CacheServer, tmp_path: Path
) -> None:
    server.refuses.add(HINT)
    first = Machine(tmp_path / "a", server.url)
    assert first.build(UPPER) == first.build(COUNT) == ["ran"]
    assert first.reported == [
        f"shared cache {server.url}: PUT failed with 409 Conflict;"
        " `doit why` elsewhere will not know of this build"
    ]
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER, COUNT) == ["fetched", "fetched"]
