"""Test builds that are killed, corrupted, set back in time or mixed in version.

Nothing is lost that was finished, nothing wrong is shown, nothing hangs. The long run:

    INGOT_KILLS=100 INGOT_FLIPS=20 pytest tests/test_damage.py
"""

from __future__ import annotations

import gc
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import digests, leases, run_action
from ingot.engine import reapi_pb2 as reapi
from ingot.engine.action_keys import encode_action
from ingot.engine.action_results import MESSAGE_TYPE, decode_result, encode_result
from ingot.engine.actions import Action, Digest, Output, SourceFile
from ingot.engine.run_action import ActionFailed, CommandEnd, describe_failure
from ingot.engine.verify_store import verify_store
from ingot.errors import IngotError
from ingot.project import plan_cache
from tests.checkout import Checkout
from tests.project import ROOT
from tests.small_actions import UPPER

KILLS = int(os.environ.get("INGOT_KILLS", "10"))
FLIPS = int(os.environ.get("INGOT_FLIPS", "1"))  # bits of each file, one at a time

N_ACTIONS = 12


def chain(root: Path, change: str = "") -> list[Action]:
    """Actions that each add a line to what the one before made, and 100 kB."""
    (root / "in.txt").write_text("start\n")
    actions = []
    for number in range(N_ACTIONS):
        before = (
            Output(f"chain:{number - 1}", "out.txt")
            if number
            else SourceFile(root / "in.txt")
        )
        script = (
            f"cat in.txt > out.txt; echo {number}{change} >> out.txt;"
            f" yes {number} | head -c 100000 > pad.txt"
        )
        actions.append(
            Action(
                f"chain:{number}",
                ("sh", "-c", script),
                (("in.txt", before),),
                ("out.txt", "pad.txt"),
                exported_to=(f"build/{number}.txt",),
            )
        )
    return actions


def expected(change: str = "") -> str:
    return "start\n" + "".join(f"{number}{change}\n" for number in range(N_ACTIONS))


def shown(root: Path) -> str:
    return (root / f"build/{N_ACTIONS - 1}.txt").read_text()


PROGRAM = """
import sys
from pathlib import Path
from ingot.engine.store import Store
from ingot.engine.executor import Executor
from tests.test_damage import chain

root = Path(sys.argv[1])
store = Store(Path(sys.argv[2]), print)
executor = Executor(root, store, lambda *end: print(*end[:2], flush=True))
for action in chain(root):
    if not executor.is_up_to_date(action):
        executor.execute(action)
"""


def test_a_build_killed_at_any_moment_loses_nothing_that_was_finished(
    tmp_path: Path,
) -> None:
    root, cache = tmp_path / "a", tmp_path / "cache"
    root.mkdir()
    words = [sys.executable, "-c", PROGRAM, str(root), str(cache)]
    moments = random.Random(7)
    finished: set[str] = set()
    for _ in range(KILLS):
        process = subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        time.sleep(moments.uniform(0.0, 1.0))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        ran = {line.split()[0] for line in out.splitlines() if line.endswith(" ran")}
        assert not ran & finished
        finished |= ran
        found = verify_store(cache) if (cache / "ac").exists() else None
        assert found is None or not found.corrupt
    last = Checkout(root, cache)
    last.store.sweep()
    ran = {task for task, how in last.build(*chain(root)) if how == "ran"}
    assert not ran & finished
    assert (shown(root), last.warnings) == (expected(), [])
    # What it writes in is its own until it ends.
    del last
    gc.collect()
    left = [path.name for path in (cache / "tmp").iterdir()]
    assert [name for name in left if not name.startswith(leases.PREFIX)] == []


def test_any_flipped_bit_of_any_file_is_noticed_or_harmless(tmp_path: Path) -> None:
    root, cache = tmp_path / "a", tmp_path / "cache"
    Checkout(root, cache).build(*chain(root))
    chance = random.Random(11)
    files = sorted(
        path.relative_to(tmp_path)
        for folder in (cache, root / "build")
        for path in folder.rglob("*")
        if path.is_file()
    )
    assert len(files) > 50
    for name in files:
        for _ in range(FLIPS):
            path = tmp_path / name
            if not path.is_file() or not path.stat().st_size:
                continue
            flip(path, chance)
            later = Checkout(root, cache)
            later.build(*chain(root))
            assert shown(root) == expected(), name
            assert later.build(*chain(root)) == [], name
    # What is left is of blobs that no build reads: messages that spell actions out.
    verify_store(cache)
    assert not verify_store(cache).corrupt
    assert Checkout(root, cache).build(*chain(root)) == []


def rot(checkout: Checkout, task: str, name: str) -> None:
    """Change a blob as a failing disk does: what is remembered of it stays."""
    record = checkout.executor.records.get(task)
    assert record is not None
    digest = dict(record.outputs)[name]
    path = checkout.store.blob(digest)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    identity = digests.identify(path.stat())
    checkout.store.digests._remember(identity, "sha256", digest.hash)
    assert checkout.store.holds(digest)


def big(size: int) -> Action:
    """Return an action whose output is `size` zeros."""
    script = f"head -c {size} /dev/zero > big"
    return Action(
        "big:x", ("sh", "-c", script), (), ("big",), exported_to=("build/big",)
    )


ROTTEN = "discarded a corrupt blob, "


def test_a_blob_that_rotted_is_not_copied_into_a_checkout(tmp_path: Path) -> None:
    action = big(100_000)
    first = Checkout(tmp_path / "a", tmp_path / "cache")
    first.build(action)
    rot(first, "big:x", "big")
    second = Checkout(tmp_path / "b", tmp_path / "cache")
    assert second.build(action) == [("big:x", "ran")]
    assert [text.startswith(ROTTEN) for text in second.warnings] == [True]
    assert (second.root / "build/big").read_bytes() == bytes(100_000)
    third = Checkout(tmp_path / "c", tmp_path / "cache")
    assert third.build(action) == [("big:x", "restored")]


@pytest.mark.parametrize("how", ["rotten", "gone"])
@pytest.mark.parametrize("size", [100_000, run_action.LARGE_BYTES + 1])
def test_an_input_that_rotted_is_built_again_and_the_build_goes_on(
    tmp_path: Path, size: int, how: str
) -> None:
    # Fails if a byte of its input is not 0.
    script = f"head -c {size} /dev/zero | cmp - big && echo right > out"
    inputs = (("big", Output("big:x", "big")),)
    reads = Action("reads:x", ("sh", "-c", script), inputs, ("out",))
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    checkout.build(big(size))
    if how == "rotten":
        rot(checkout, "big:x", "big")
    assert checkout.executor.is_up_to_date(big(size))
    if how == "gone":
        for blob in (tmp_path / "cache/cas").glob("*/*"):
            blob.unlink()
    assert checkout.build(reads) == [("big:x", "ran"), ("reads:x", "ran")]
    starts = [text.startswith(ROTTEN) for text in checkout.warnings]
    assert starts == ([True] if how == "rotten" else [])
    assert checkout.build(big(size), reads) == []


def test_an_action_that_fails_by_itself_is_not_tried_again(tmp_path: Path) -> None:
    inputs = (("big", Output("big:x", "big")),)
    reads = Action("reads:x", ("sh", "-c", "exit 3"), inputs, ("out",))
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    checkout.build(big(100_000))
    with pytest.raises(ActionFailed, match="reads:x: sh failed with exit code 3"):
        checkout.build(reads)
    assert checkout.events == []


def test_an_input_that_no_action_of_the_build_makes_is_named(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    checkout.build(big(100_000))
    rot(checkout, "big:x", "big")
    inputs = (("big", Output("big:x", "big")),)
    reads = Action("reads:x", ("sh", "-c", "cat big > out"), inputs, ("out",))
    # Another process, which was not asked about the action that makes the input.
    later = Checkout(tmp_path / "a", tmp_path / "cache")
    with pytest.raises(IngotError) as caught:
        later.build(reads)
    assert caught.value.message == (
        "reads:x: big is not what it was when the build looked at it"
    )
    assert caught.value.hint == "run the same command again"
    assert later.build(big(100_000), reads) == [("big:x", "ran"), ("reads:x", "ran")]


def test_a_source_file_whose_digest_is_out_of_date_is_read_again(
    tmp_path: Path,
) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    source = checkout.root / "in.txt"
    source.write_text("after")
    before = digests.hash_file(source)
    source.write_text("AFTER")
    # As where a program writes through a memory map, which may change no time.
    checkout.store.digests._remember(
        digests.identify(source.stat()), "sha256", before.hash
    )
    script = "cat in.txt > out"
    inputs = (("in.txt", SourceFile(source)),)
    action = Action("copy:x", ("sh", "-c", script), inputs, ("out",))
    assert checkout.build(action) == [("copy:x", "ran")]
    record = checkout.executor.records.get("copy:x")
    assert record is not None
    wanted = Digest(hashlib.sha256(b"AFTER").hexdigest(), 5)
    assert record.outputs == (("out", wanted),)
    assert record.resolved.inputs == (("in.txt", wanted),)


@pytest.mark.parametrize("knows_messages", [True, False])
def test_the_result_of_another_action_is_discarded(
    tmp_path: Path, knows_messages: bool
) -> None:
    root, cache = tmp_path / "a", tmp_path / "cache"
    checkout = Checkout(root, cache)
    first, second = (
        Action(f"{word}:x", ("sh", "-c", f"echo {word} > out"), (), ("out",))
        for word in ("right", "wrong")
    )
    checkout.build(first, second)
    right, wrong = (
        encode_action(checkout.executor.resolve(action)).key.hash
        for action in (first, second)
    )
    place, other = (cache / "ac" / key[:2] / key for key in (right, wrong))
    content = other.read_bytes()
    if not knows_messages:
        content = encode_result(replace(decode_result(content), messages=()))
    place.chmod(0o644)
    place.write_bytes(content)
    later = Checkout(tmp_path / "b", cache)
    assert later.build(first) == [("right:x", "ran")]
    assert later.warnings == [
        f"discarded a corrupt action result, {place}: it is the result of another"
        " action"
    ]
    assert Checkout(tmp_path / "c", cache).build(first) == [("right:x", "restored")]


def test_a_store_is_verified_for_results_of_other_actions(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    checkout.build(*chain(checkout.root)[:2])
    one, two = (path for path in (tmp_path / "cache/ac").glob("*/*"))
    one.chmod(0o644)
    one.write_bytes(two.read_bytes())
    assert verify_store(tmp_path / "cache").corrupt == (one,)
    assert two.exists()


def flip(path: Path, chance: random.Random) -> None:
    """Flip one bit of the file."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    path.chmod(0o644)
    path.write_bytes(content)


def test_a_cached_plan_with_a_flipped_bit_is_planned_again(tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    plan_cache.save(place, "what was read", "", asked_ns=0)
    assert plan_cache.load(place, str, "") == "what was read"
    flip(place, random.Random(3))
    assert plan_cache.load(place, str, "") is None


@pytest.mark.parametrize("offset_s", [-1e9, -3600.0, 3600.0, 1e9])
def test_a_clock_that_jumps_hides_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset_s: float
) -> None:
    root = tmp_path / "a"
    checkout = Checkout(root, tmp_path / "cache")
    source = root / "in.txt"
    action = replace(chain(root)[0], outputs=("out.txt",))
    checkout.build(action)
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + offset_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(offset_s * 1e9))
    # Of the same size, and with the time that the file had before.
    stat = source.stat()
    source.write_text("START\n")
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    jumped = Checkout(root, tmp_path / "cache")
    assert jumped.build(action) == [("chain:0", "ran")]
    assert (root / "build/0.txt").read_text() == "START\n0\n"
    assert jumped.build(action) == []
    monkeypatch.undo()
    assert Checkout(root, tmp_path / "cache").build(action) == []


def test_two_versions_at_once_share_a_store_and_mix_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    both = {name: Checkout(tmp_path / name, cache) for name in ("", "-new")}
    for name, checkout in both.items():
        (tmp_path / f"root{name}").mkdir()
        checkout.root = checkout.executor.root = tmp_path / f"root{name}"
    threads = [
        threading.Thread(
            target=lambda n=name, c=checkout: c.build(*chain(c.root, change=n))
        )
        for name, checkout in both.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    for name, checkout in both.items():
        assert shown(checkout.root) == expected(name)
        assert checkout.warnings == []


def test_a_result_of_an_older_and_of_a_later_version_is_restored(
    tmp_path: Path,
) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    action = chain(checkout.root)[0]
    checkout.build(action)
    key = encode_action(checkout.executor.resolve(action)).key.hash
    place = tmp_path / "cache/ac" / key[:2] / key
    message = reapi.ActionResult.FromString(place.read_bytes())
    # Without the task and the time that it took, but with its messages.
    of_action = [
        fact
        for fact in message.execution_metadata.auxiliary_metadata
        if fact.type_url == MESSAGE_TYPE
    ]
    message.ClearField("execution_metadata")
    message.execution_metadata.auxiliary_metadata.extend(of_action)
    older = message.SerializeToString()
    # Field 100, of which this version knows nothing.
    for content in (older, older + b"\xa2\x06\x05later"):
        place.chmod(0o644)
        place.write_bytes(content)
        checkout.executor.records.forget(action.task)
        assert checkout.build(action) == [("chain:0", "restored")]


def test_databases_of_another_version_are_recreated(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    checkout.build(*chain(checkout.root))
    for path, table in (
        (tmp_path / "a/build/.ingot/records.sqlite", "record"),
        (tmp_path / "cache/digests.sqlite", "fact"),
    ):
        connection = sqlite3.connect(path)
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE TABLE {table} (other INTEGER)")
        connection.commit()
        connection.close()
    later = Checkout(tmp_path / "a", tmp_path / "cache")
    assert {how for _, how in later.build(*chain(later.root))} == {"restored"}
    assert shown(later.root) == expected()


def test_a_remembered_digest_with_a_flipped_bit_is_computed_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    time.sleep(0.05)  # Younger files are not remembered.
    right = digests.Digests(tmp_path / "d.sqlite").of_file(path)
    connection = sqlite3.connect(tmp_path / "d.sqlite")
    connection.execute("UPDATE fact SET value = replace(value, 'e', 'f')")
    connection.commit()
    connection.close()
    assert digests.Digests(tmp_path / "d.sqlite").of_file(path) == right


def test_a_folder_that_is_removed_while_a_command_runs_is_reported(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store/tmp/1"
    text = b"cannot open 'targets/x86_64.yaml': No such file or directory"
    failed = describe_failure(UPPER, CommandEnd(1, text, ()), folder, {}, ROOT)
    assert str(failed) == (
        f"upper:x: its folder was removed while it ran: {folder}\n"
        "  if the store, or a part of it, was deleted, run doit again"
    )
