"""Test what a store removes to stay within its limit, also while builds run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import byte_sizes, json_lines, leases
from ingot.engine.actions import Action, ActionResult, Digest
from ingot.engine.gc import Collection, choose_removals, collect_garbage
from ingot.engine.store import Store
from ingot.engine.store_survey import StoredFile, StoredResult, StoreSurvey, survey
from ingot.engine.verify_store import verify_store
from ingot.errors import IngotError
from ingot.project import store_usage
from tests.checkout import Checkout
from tests.project import ROOT

DAY_S = 86400.0


def make(name: str, size: int) -> Action:
    """An action that writes a file of that size, made of its name."""
    argv = ("sh", "-c", f"yes {name} | head -c {size} > out.txt")
    return Action(f"make:{name}@t", argv, (), ("out.txt",))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a", tmp_path / "cache")


def age(root: Path, days: float) -> None:
    """Let everything in the store be that much older."""
    for path in root.glob("*/??/*"):
        stat = path.stat()
        os.utime(path, (stat.st_atime, stat.st_mtime - days * DAY_S))


def released(checkout: Checkout) -> Checkout:
    """The checkout as the next process sees it: the last one's pins are gone."""
    for path in (checkout.store.root / "tmp").glob(f"{leases.PREFIX}*"):
        path.unlink()
    return Checkout(checkout.root, checkout.store.root)


def test_the_least_recently_used_result_is_removed_first(checkout: Checkout) -> None:
    old, middle, new = (make(name, 50_000) for name in ("old", "middle", "new"))
    for action in (old, middle, new):
        checkout.build(action)
        age(checkout.store.root, 2)
    later = released(checkout)
    assert later.build(old) == []  # Used once more: now the newest.
    later = released(later)
    done = collect_garbage(later.store.root, 110_000)
    assert (done.results, done.left_bytes < 110_000) == (1, True)
    ends = {action.task: later.executor.is_up_to_date(action) for action in (old, new)}
    assert ends == {"make:old@t": True, "make:new@t": True}
    assert later.build(middle) == [("make:middle@t", "ran")]


def test_nothing_is_removed_from_a_store_within_its_limit(checkout: Checkout) -> None:
    checkout.build(make("a", 1000))
    age(checkout.store.root, 100)
    assert collect_garbage(released(checkout).store.root, 10_000).results == 0


def test_a_recently_used_result_is_not_removed_whatever_the_limit(
    checkout: Checkout,
) -> None:
    checkout.build(make("a", 5000))
    done = collect_garbage(released(checkout).store.root, 0)
    assert (done.results, done.blobs) == (0, 0)
    assert done.excess_bytes == done.left_bytes > 5000


def test_a_leased_result_is_not_removed_whatever_the_clock_says(
    checkout: Checkout,
) -> None:
    checkout.build(make("a", 5000))
    age(checkout.store.root, 1000)
    assert collect_garbage(checkout.store.root, 0, grace_s=0).results == 0
    assert Checkout(checkout.root, checkout.store.root).build(make("a", 5000)) == []
    assert collect_garbage(released(checkout).store.root, 0, grace_s=0).results == 1


def test_a_blob_of_two_results_is_removed_only_with_the_second() -> None:
    def entry(used_s: float, *names: str) -> StoredResult:
        return StoredResult(StoredFile(10, used_s), ActionResult(()), frozenset(names))

    found = StoreSurvey(
        {"k1": entry(1.0, "a", "both"), "k2": entry(2.0, "both", "b")},
        {name: StoredFile(100, 0.0) for name in ("a", "b", "both", "loose")},
    )
    # The loose blob first: nobody has used it since it was made.
    assert choose_removals(found, set(), 419, 9.0) == ([], ["loose"])
    assert choose_removals(found, set(), 300, 9.0) == (["k1"], ["loose", "a"])
    assert choose_removals(found, set(), 0, 9.0) == (
        ["k1", "k2"],
        ["loose", "a", "b", "both"],
    )
    assert choose_removals(found, {"k2"}, 0, 9.0) == (["k1"], ["loose", "a"])
    assert choose_removals(found, {"both"}, 0, 9.0)[1] == ["loose", "a", "b"]
    assert choose_removals(found, set(), 0, 1.5) == (["k1"], ["loose", "a"])


def test_a_clock_that_jumped_costs_no_result_in_use(checkout: Checkout) -> None:
    for days in (-4000.0, 4000.0):  # Written in the far future, then in the far past.
        checkout.build(make("a", 5000))
        age(checkout.store.root, days)
        assert collect_garbage(checkout.store.root, 0).results == 0
        assert checkout.build(make("a", 5000)) == []
        stamps = [path.stat().st_mtime for path in checkout.store.root.glob("ac/??/*")]
        assert all(abs(stamp - time.time()) < DAY_S for stamp in stamps)


BUILDER = """
import os, sys
from pathlib import Path
from tests.checkout import Checkout
from tests.test_store_limit import make

root, cache, first = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
for turn in range(6):
    # A process for each turn: its pins end with it.
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, "a build failed"
        continue
    checkout = Checkout(root, cache)
    # Some were made in the turn before, some by the other builder.
    actions = [make(f"n{turn * 3 + i + first}", 20_000) for i in range(6)]
    checkout.build(*actions)
    for action in actions:
        digest = dict(checkout.executor.records.get(action.task).outputs)["out.txt"]
        words = checkout.store.blob(digest).read_bytes().split()
        assert set(words[:-1]) == {action.task[5:-2].encode()}, action.task
    assert not checkout.warnings, checkout.warnings
    sys.exit()
"""


def test_builds_and_removals_at_once_lose_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    Store(cache, print)
    builders = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", BUILDER),
                *(str(tmp_path / name), str(cache), str(first)),
            ],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first, name in ((0, "a"), (3, "b"))
    ]
    removed = 0
    while any(builder.poll() is None for builder in builders):
        removed += collect_garbage(cache, 0, grace_s=0).blobs
        time.sleep(0.01)
    for builder in builders:
        words = builder.communicate()[1]
        assert builder.returncode == 0, words
    assert removed > 0
    assert not verify_store(cache).corrupt


def test_verify_finds_and_removes_every_corrupt_file(checkout: Checkout) -> None:
    checkout.build(make("a", 5000), make("b", 5000))
    root = checkout.store.root
    assert verify_store(root).corrupt == ()
    record = checkout.executor.records.get("make:a@t")
    assert record is not None
    blob = checkout.store.blob(dict(record.outputs)["out.txt"])
    stat = blob.stat()
    blob.chmod(0o644)
    blob.write_bytes(b"x" * 5000)
    # Times put back: what is remembered of the file would still pass.
    os.utime(blob, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    found = verify_store(root)
    assert (found.corrupt, found.incomplete) == ((blob,), 1)
    assert not blob.exists()
    assert released(checkout).build(make("a", 5000)) == [("make:a@t", "ran")]


def test_usage_is_listed_by_model_target_and_stage() -> None:
    def entry(task: str, *names: str) -> StoredResult:
        result = ActionResult((("out", Digest(names[0], 100)),), task=task)
        return StoredResult(StoredFile(10, 0.0), result, frozenset(names))

    found = StoreSurvey(
        {
            "k1": entry("compile:toy@x86_64", "a", "both"),
            "k2": entry("compile-block-run.layer:toy@vulkan", "b", "both"),
            "k3": entry("bake:big@packed_n8", "c"),
        },
        {name: StoredFile(100, 0.0) for name in ("a", "b", "c", "both", "loose")},
    )
    by = {kind: store_usage.shares(found, kind) for kind in store_usage.KINDS}
    assert {s.name: (s.results, s.size_bytes) for s in by["model"]} == {
        "toy": (2, 320.0),
        "big": (1, 110.0),
        "other": (0, 100.0),
    }
    assert [share.name for share in by["stage"]] == ["compile", "bake", "other"]
    assert {share.name for share in by["target"]} == {
        *("x86_64", "vulkan", "shared", "other")
    }
    for kind in store_usage.KINDS:
        assert sum(share.size_bytes for share in by[kind]) == found.size_bytes
    text = store_usage.usage_text(found, store_usage.Builds(2, 1, 3, 8), 10**9)
    assert "530 B in 3 results and 5 blobs; limit 1.0 GB" in text
    assert "75% cache hits: 3 restored, 1 ran" in text


def test_a_result_records_its_task_and_duration(checkout: Checkout) -> None:
    checkout.build(make("a", 1000))
    (entry,) = survey(checkout.store.root).entries.values()
    assert entry.result.task == "make:a@t"
    assert entry.result.wall_ms > 0
    # The output, and nothing: the log.
    assert len(entry.blobs) == 2


def test_an_entry_of_another_program_is_left_and_counted(checkout: Checkout) -> None:
    store = checkout.store
    result = ActionResult((("o", store.put_bytes(b"theirs")),))
    store.put_action(Digest("ab" * 32, 1), replace(result, task=""))
    (entry,) = survey(store.root).entries.values()
    assert len(entry.blobs) == 1
    assert store_usage.shares(survey(store.root), "stage")[0].name == "other"


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20 * 10**9), ("1.5 GiB", 3 * 2**29), ("500", 500), ("none", None)],
)
def test_a_limit_is_read_as_people_write_it(text: str, size: int | None) -> None:
    assert byte_sizes.parse_size(text, "limit=") == size


def test_a_limit_that_is_not_a_size_is_rejected() -> None:
    with pytest.raises(IngotError) as caught:
        byte_sizes.parse_size("20 stones", "limit=")
    told = "limit=: expected a size, found '20 stones'\n  as 50GB, 2.5GiB, or none"
    assert str(caught.value) == told


def test_a_line_that_was_cut_off_is_skipped_and_old_lines_are_trimmed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "builds.jsonl"
    for number in range(10):
        json_lines.append(path, {"ran": number})
    with path.open("a") as file:
        file.write('{"ran": 1')
    assert [line["ran"] for line in json_lines.read(path)] == list(range(10))
    json_lines.trim(path, most=8)
    assert [line["ran"] for line in json_lines.read(path)] == [7, 8, 9]


def test_an_empty_store_has_nothing_to_remove(tmp_path: Path) -> None:
    Store(tmp_path / "cache", print)
    assert collect_garbage(tmp_path / "cache", 0) == Collection(0, 0, 0, 0, 0)
