"""Test that `doit audit` finds wrong results and what is not reproducible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.cli.audit_command import left_out_text, sample, sample_size
from ingot.engine.action_results import decode_result, encode_result
from ingot.engine.actions import Action, InlineText, digest_of
from ingot.engine.audit import Audited, Auditor, CachedAction
from ingot.errors import IngotError
from tests.cache_server import CacheServer, Machine, serving
from tests.project import TOY, Project, builds
from tests.small_actions import COUNT, UPPER

TASKS = ("specialize:add__n_embd_32", "specialize:layer_norm__n_embd_32")


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


def audit(machine: Machine, *actions: Action) -> list[Audited]:
    auditor = Auditor(machine.executor, machine.shared)
    return [auditor.rebuild(item) for item in auditor.find(actions)]


def test_a_planted_result_is_found_in_the_shared_cache(
    server: CacheServer, tmp_path: Path
) -> None:
    writer = Machine(tmp_path / "a", server.url)
    writer.build(UPPER, COUNT)
    assert [item.is_same for item in audit(writer, UPPER, COUNT)] == [True, True]
    place = f"/cache/ac/{writer.key(UPPER).hash}"
    result = decode_result(server.files[place])
    evil = digest_of(b"ABX")
    poison = replace(result, outputs=(("out.txt", evil),), contents=((evil, b"ABX"),))
    server.files[place] = encode_result(poison)
    server.files[f"/cache/cas/{evil.hash}"] = b"ABX"
    # Another machine has fetched it; the writer's own store is right.
    for name, caches in (("a", 1), ("b", 1)):
        machine = Machine(tmp_path / name, server.url)
        (found,) = audit(machine, UPPER)
        assert not found.is_same
        assert len(found.differences) == caches
        assert found.differences[0].at_byte == 2
        assert str(found.differences[0]) == (
            f"out.txt: {evil} in shared cache {server.url}, {digest_of(b'ABC')} when it"
            " was run again, which differ first at byte 2 (of 3 and 3)"
        )


def test_the_stores_own_results_are_compared_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    machine.build(UPPER)
    key = machine.key(UPPER)
    good = machine.store.action(key, UPPER.outputs)
    assert good is not None
    longer = machine.store.put_bytes(b"ABCD")
    bad = replace(good, outputs=(("out.txt", longer),), contents=())
    machine.store.put_action(key, bad)
    (found,) = audit(machine, UPPER)
    assert [one.cache for one in found.differences] == ["the store"]
    assert found.differences[0].at_byte == 3
    # The audit itself changes nothing.
    assert machine.store.action(key, UPPER.outputs) == bad


def test_an_action_that_is_not_reproducible_is_found(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    script = "cat /proc/sys/kernel/random/uuid > out.txt"
    action = replace(UPPER, argv=("sh", "-c", script))
    machine.build(action)
    (found,) = audit(machine, action)
    assert [one.path for one in found.differences] == ["out.txt"]


def test_an_action_that_fails_when_it_runs_again_says_why(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    action = replace(UPPER, argv=("sh", "-c", "echo no; exit 3"))
    machine.build(UPPER)
    good = machine.store.action(machine.key(UPPER), UPPER.outputs)
    assert good is not None
    message = machine.key(action)
    machine.store.put_action(message, replace(good, messages=encoded(machine, action)))
    (found,) = audit(machine, action)
    assert "sh failed with exit code 3\nno" in found.failure
    assert not found.is_same


def encoded(machine: Machine, action: Action) -> tuple[bytes, ...]:
    from ingot.engine.action_keys import encode_action

    return encode_action(machine.executor.resolve(action)).messages


def test_inputs_that_only_the_shared_cache_has_are_fetched(
    server: CacheServer, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER, COUNT)
    reader = Machine(tmp_path / "b", server.url, False)
    assert [item.is_same for item in audit(reader, UPPER, COUNT)] == [True, True]
    # An action whose inputs no cache has is in no cache either.
    server.files.clear()
    assert audit(Machine(tmp_path / "c", server.url, False), UPPER, COUNT) == []


def test_measurements_and_downloads_are_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    actions = (
        replace(UPPER, task="bench:x", exclusive=True),
        replace(UPPER, task="fetch:x", platform=(("network", "yes"),)),
        UPPER,
    )
    cached = [
        CachedAction(action, machine.executor.resolve(action), machine.key(action), ())
        for action in actions
    ]
    assert left_out_text(cached) == {
        "bench:x": "measures time",
        "fetch:x": "downloads, with a digest of its own",
    }


def test_the_seed_chooses_the_sample(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    actions = [
        replace(UPPER, task=f"upper:{i}", inputs=(("in.txt", InlineText(f"{i}")),))
        for i in range(40)
    ]
    cached = [
        CachedAction(action, machine.executor.resolve(action), machine.key(action), ())
        for action in actions
    ]
    chosen = sample(cached, 5, seed=1)
    assert chosen == sample(cached, 5, seed=1) != sample(cached, 5, seed=2)
    assert len(chosen) == 5
    assert [cached.index(item) for item in chosen] == sorted(map(cached.index, chosen))
    assert sample(cached, None, 1) == sample(cached, 99, 1) == cached


def test_a_size_that_is_none_is_an_error() -> None:
    assert sample_size({}) == 10
    assert sample_size({"sample": "all"}) is None
    for text in ("0", "some"):
        with pytest.raises(IngotError) as caught:
            sample_size({"sample": text})
        assert str(caught.value) == (
            f"sample={text}: expected an integer, 1 or more, or 'all'"
        )


@pytest.mark.slow
@builds(TOY)
def test_doit_audit_compares_and_fails_where_a_result_differs(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "a", tmp_path / "store")
    none = project.doit("audit", *TASKS)
    assert none.code == 3
    assert "audit: no cache has a result of the 2 actions" in none.err
    assert "  build them first: doit build" in none.err
    project.doit(*TASKS)
    good = project.doit("audit", "sample=all", *TASKS)
    assert good.code == 0, good.err
    assert "2 of 2 actions run again (seed=" in good.out
    assert "): 2 the same, 0 not" in good.out
    # Plant the result of one action under the key of the other.
    first, second = (
        path for path in sorted((tmp_path / "store/ac").rglob("*")) if path.is_file()
    )
    theirs, own = (decode_result(path.read_bytes()) for path in (first, second))
    poison = replace(own, outputs=((own.outputs[0][0], theirs.outputs[0][1]),))
    second.chmod(0o644)
    second.write_bytes(encode_result(poison))
    bad = project.doit("audit", "sample=all", *TASKS)
    assert bad.code == 1
    assert "): 1 the same, 1 not" in bad.out
    assert "when it was run again, which differ first at byte " in bad.out
    run = project.doit("audit", "--json", "sample=all", *TASKS)
    found = json.loads(run.out)
    assert run.code == 1
    assert sorted(item["result"] for item in found["actions"]) == [
        "differs",
        "the same",
    ]
