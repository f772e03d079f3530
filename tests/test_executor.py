"""Test which actions run, are restored or are rejected, and what the store does."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import digests, executor, run_action, sandbox
from ingot.engine.action_keys import encode_action
from ingot.engine.actions import Action, InlineText, Output, SourceFile
from ingot.engine.atomic_files import SMALL_BYTES
from ingot.engine.run_action import ActionFailed
from ingot.engine.store import Store
from ingot.errors import IngotError
from tests.checkout import Checkout
from tests.small_actions import COUNT


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a", tmp_path / "cache")


def upper(root: Path) -> Action:
    return Action(
        task="upper:x",
        argv=("sh", "-c", "tr a-z A-Z < in.txt > out.txt"),
        inputs=(("in.txt", SourceFile(root / "in.txt")),),
        outputs=("out.txt",),
        exported_to=("build/out.txt",),
    )


def test_a_second_build_runs_nothing(checkout: Checkout) -> None:
    (checkout.root / "in.txt").write_text("abc")
    actions = upper(checkout.root), COUNT
    assert checkout.build(*actions) == [("upper:x", "ran"), ("count:x", "ran")]
    assert (checkout.root / "build/out.txt").read_text() == "ABC"
    assert checkout.build(*actions) == []


def test_an_equal_output_stops_the_rebuild(checkout: Checkout) -> None:
    source = checkout.root / "in.txt"
    source.write_text("abc")
    checkout.build(upper(checkout.root), COUNT)
    source.write_text("ABC")
    assert checkout.build(upper(checkout.root), COUNT) == [("upper:x", "ran")]


def test_a_changed_command_runs_again_and_the_old_one_is_restored(
    checkout: Checkout,
) -> None:
    (checkout.root / "in.txt").write_text("abc")
    action = upper(checkout.root)
    changed = replace(action, argv=("sh", "-c", "cat in.txt > out.txt"))
    checkout.build(action)
    assert checkout.build(changed) == [("upper:x", "ran")]
    assert (checkout.root / "build/out.txt").read_text() == "abc"
    assert checkout.build(action) == [("upper:x", "restored")]
    assert (checkout.root / "build/out.txt").read_text() == "ABC"


def test_a_small_cache_hit_is_restored_without_a_thread(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.root / "in.txt").write_text("abc")
    twice = ("sh", "-c", "cat in.txt in.txt > out.txt")
    action = replace(upper(checkout.root), argv=twice)
    shown = checkout.root / "build/out.txt"
    assert not checkout.executor.restore(action)
    checkout.build(action)
    shown.unlink()
    key = encode_action(checkout.executor.resolve(action)).key
    with checkout.store.lock(key):
        # Another build may be making it: that is waited for elsewhere.
        assert not checkout.executor.restore(action)
    # One byte less than its input, and than its output.
    for limit in (2, 5):
        monkeypatch.setattr(executor, "AT_ONCE_BYTES", limit)
        assert not checkout.executor.restore(action)
    monkeypatch.setattr(executor, "AT_ONCE_BYTES", 6)
    assert not shown.exists()
    assert checkout.executor.restore(action)
    assert shown.read_text() == "abcabc"
    assert checkout.executor.is_up_to_date(action)
    assert checkout.events[-1] == ("upper:x", "restored")
    (checkout.root / "in.txt").unlink()
    assert not checkout.executor.restore(action)


@pytest.mark.parametrize("damage", ["delete", "overwrite", "append"])
def test_a_changed_output_is_restored_from_the_store(
    checkout: Checkout, damage: str
) -> None:
    (checkout.root / "in.txt").write_text("abc")
    action = upper(checkout.root)
    checkout.build(action)
    shown = checkout.root / "build/out.txt"
    if damage == "delete":
        shown.unlink()
    else:
        shown.chmod(0o644)
        with shown.open("w" if damage == "overwrite" else "a") as file:
            file.write("xyz")
    assert checkout.build(action) == [("upper:x", "restored")]
    assert shown.read_text() == "ABC"
    assert checkout.warnings == []


def test_a_corrupt_blob_is_discarded_and_rebuilt(checkout: Checkout) -> None:
    (checkout.root / "in.txt").write_text("abc")
    action = upper(checkout.root)
    checkout.build(action)
    record = checkout.executor.records.get("upper:x")
    assert record is not None
    blob = checkout.store.blob(dict(record.outputs)["out.txt"])
    blob.chmod(0o644)
    blob.write_text("evil")
    assert checkout.build(action) == [("upper:x", "ran")]
    assert any("corrupt blob" in warning for warning in checkout.warnings)
    assert blob.read_text() == "ABC"


def test_a_small_blob_is_read_even_if_its_digest_is_remembered(
    checkout: Checkout,
) -> None:
    """It is not synced: a power cut may leave its name and size, not its content."""
    digest = checkout.store.put_bytes(b"whole")
    blob = checkout.store.blob(digest)
    blob.chmod(0o644)
    blob.write_bytes(b"\0\0\0\0\0")
    time.sleep(digests.SETTLED_NS * 2e-9)
    checkout.store.digests.fact(blob, "sha256", lambda _: digest.hash)
    assert not checkout.store.holds(digest)
    assert any("corrupt blob" in warning for warning in checkout.warnings)


def test_a_large_blob_is_synced_before_it_has_its_name(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    checkout.store.put_bytes(b"x" * SMALL_BYTES)
    assert len(synced) == 0
    checkout.store.put_bytes(b"x" * (SMALL_BYTES + 1))
    assert len(synced) == 1


@pytest.mark.parametrize(("content", "is_said"), [(b"", False), (b"\xff" * 3, True)])
def test_a_corrupt_or_empty_action_result_is_discarded(
    checkout: Checkout, content: bytes, is_said: bool
) -> None:
    (checkout.root / "in.txt").write_text("abc")
    action = upper(checkout.root)
    checkout.build(action)
    for path in (checkout.store.root / "ac").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(content)
    checkout.executor.records.forget("upper:x")
    assert checkout.build(action) == [("upper:x", "ran")]
    said = [text for text in checkout.warnings if "corrupt action result" in text]
    assert bool(said) == is_said


def test_a_second_checkout_with_the_same_store_runs_nothing(
    checkout: Checkout, tmp_path: Path
) -> None:
    other = Checkout(tmp_path / "b", tmp_path / "cache")
    for each in (checkout, other):
        (each.root / "in.txt").write_text("abc")
    checkout.build(upper(checkout.root), COUNT)
    done = other.build(upper(other.root), COUNT)
    assert done == [("upper:x", "restored"), ("count:x", "restored")]


def test_a_failed_command_shows_its_output_and_how_to_run_it_again(
    checkout: Checkout,
) -> None:
    action = Action(
        task="fail:x",
        argv=("sh", "-c", "echo the reason; exit 7"),
        inputs=(("note.txt", InlineText("hello")),),
        outputs=("out.txt",),
    )
    with pytest.raises(ActionFailed) as caught:
        checkout.executor.execute(action)
    text = str(caught.value)
    assert "fail:x: sh failed with exit code 7\nthe reason\n" in text
    run_action = text.rpartition("run again: ")[2]
    assert os.waitstatus_to_exitcode(os.system(f"({run_action}) > /dev/null")) == 7


def test_a_command_that_forgets_an_output_fails(checkout: Checkout) -> None:
    action = Action(task="fail:x", argv=("true",), inputs=(), outputs=("out.txt",))
    with pytest.raises(ActionFailed, match=r"did not write out\.txt"):
        checkout.executor.execute(action)
    assert not checkout.executor.is_up_to_date(action)


def test_a_missing_input_names_the_file(checkout: Checkout) -> None:
    with pytest.raises(IngotError, match=r"upper:x: .*in\.txt: No such file"):
        checkout.executor.execute(upper(checkout.root))


def test_actions_see_no_user_path_or_network(checkout: Checkout) -> None:
    action = Action(
        task="env:x",
        argv=("sh", "-c", "env | cut -d= -f1 | sort > out.txt; pwd >> out.txt"),
        inputs=(),
        outputs=("out.txt",),
        exported_to=("build/out.txt",),
    )
    checkout.build(action)
    seen = (checkout.root / "build/out.txt").read_text().split()
    assert "USER" not in seen
    assert str(checkout.root) not in seen


def test_two_threads_that_want_one_action_run_it_once(
    checkout: Checkout, tmp_path: Path
) -> None:
    action = Action(
        task="slow:x",
        argv=("sh", "-c", "sleep 0.5; date +%N > out.txt"),
        inputs=(),
        outputs=("out.txt",),
    )
    other = Checkout(tmp_path / "b", tmp_path / "cache")
    threads = [
        threading.Thread(target=each.build, args=(action,))
        for each in (checkout, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sorted(checkout.events + other.events)
    assert done == [("slow:x", "ran"), ("slow:x", "restored")]


def test_an_input_that_changes_during_the_run_is_an_error(checkout: Checkout) -> None:
    source = checkout.root / "in.txt"
    source.write_text("abc")
    action = replace(
        upper(checkout.root), argv=("sh", "-c", "sleep 1; cat in.txt > out.txt")
    )
    timer = threading.Timer(0.4, lambda: source.write_text("other"))
    timer.start()
    with pytest.raises(IngotError, match="changed while the action read it"):
        checkout.executor.execute(action)
    timer.join()
    assert checkout.build(action) == [("upper:x", "ran")]


def test_a_store_that_cannot_be_created_is_an_error_with_a_remedy(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IngotError, match="set INGOT_CACHE to another folder"):
        Store(tmp_path / "file/cache", print)


def test_files_left_by_a_killed_build_are_removed(checkout: Checkout) -> None:
    left = checkout.store.root / "tmp/left"
    left.mkdir()
    (left / "half.vmfb").write_text("half")
    with checkout.store.scratch() as used:
        checkout.store.sweep()
        assert used.exists()
    assert not left.exists()


def test_reading_a_large_output_does_not_change_its_identity(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = run_action.LARGE_BYTES + 1
    make = Action("make:x", ("sh", "-c", f"head -c {size} /dev/zero > o"), (), ("o",))
    inputs = (("folder/large", Output("make:x", "o")),)
    count = Action("n:x", ("sh", "-c", "wc -c < folder/large > n"), inputs, ("n",))
    for kind in (sandbox.kind(), "none"):
        monkeypatch.setattr(sandbox, "kind", lambda kind=kind: kind)
        checkout.build(make)
        record = checkout.executor.records.get("make:x")
        assert record is not None
        blob = checkout.store.blob(dict(record.outputs)["o"])
        before = digests.identify(blob.stat())
        assert checkout.build(count) == [("n:x", "ran")]
        assert digests.identify(blob.stat()) == before
        made = checkout.executor.records.get("n:x")
        assert made is not None
        text = checkout.store.blob(dict(made.outputs)["n"]).read_text()
        assert text == f"{size}\n"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a tmpfs")
def test_a_mapped_file_that_changes_with_the_same_times_is_noticed(
    checkout: Checkout,
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        source = Path(folder) / "weights.bin"
        source.write_bytes(bytes(300_000))
        with open(source, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] = 1
            time.sleep(0.1)
            reads = Action(
                task="read:x",
                argv=("sh", "-c", "head -c 4 weights.bin > out"),
                inputs=(("weights.bin", SourceFile(source)),),
                outputs=("out",),
            )
            checkout.executor.resolve(reads)
            before = source.stat()
            mapped[0] = 2
            assert source.stat().st_ctime_ns == before.st_ctime_ns
            with pytest.raises(IngotError, match="changed while the action read it"):
                checkout.build(reads)
            # The next run sees what the file has now.
            assert checkout.build(reads) == [("read:x", "ran")]
