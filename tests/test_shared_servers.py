"""Test a server that already runs and that a variable names: see docs/sharing.md.

Not in CI: moto and BuildGrid pin what this project pins otherwise, and buildbox comes
inside another project's package.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine.actions import Action
from ingot.engine.cache.backend import Timeouts
from ingot.engine.cache.cache_address import connect, without_password
from ingot.engine.remote.reapi_client import open_server
from ingot.engine.run_action import ActionFailed
from tests.cache_server import Machine
from tests.dask_cluster import shell
from tests.small_actions import COUNT, UPPER

ADDRESS = os.environ.get("INGOT_TEST_CACHE", "")
EXECUTOR = os.environ.get("INGOT_TEST_EXECUTOR", "")


def large(command: str) -> Action:
    """20 MB, sent in several parts, by a command that no earlier run has had."""
    return Action(
        task="large:x",
        argv=("sh", "-c", f"salt={os.urandom(8).hex()}; {command} | head -c 20M > a"),
        inputs=(),
        outputs=("a",),
        exported_to=("build/a",),
    )


@pytest.mark.skipif(not ADDRESS, reason="INGOT_TEST_CACHE names no server")
def test_two_machines_share_a_server(tmp_path: Path) -> None:
    # Never packed.
    action = large("cat /dev/urandom")
    first = Machine(tmp_path / "a", ADDRESS, environment=dict(os.environ))
    second = Machine(tmp_path / "b", ADDRESS, environment=dict(os.environ))
    assert first.build(action) == ["ran"]
    assert second.build(action) == ["fetched"]
    made = [(each.root / "build/a").read_bytes() for each in (first, second)]
    assert made[0] == made[1]


@pytest.mark.skipif(not ADDRESS, reason="INGOT_TEST_CACHE names no server")
def test_a_machine_that_may_only_read_uploads_nothing(tmp_path: Path) -> None:
    action, known = large("yes $salt"), dict(os.environ)
    reader = Machine(tmp_path / "a", ADDRESS, writes=False, environment=known)
    assert reader.build(action) == ["ran"]
    assert Machine(tmp_path / "b", ADDRESS, environment=known).build(action) == ["ran"]
    assert reader.reported == []


@pytest.mark.skipif(not ADDRESS, reason="INGOT_TEST_CACHE names no server")
@pytest.mark.skipif(ADDRESS.startswith("grpc"), reason="the server takes no other blob")
def test_a_corrupt_blob_of_a_server_is_replaced(tmp_path: Path) -> None:
    action, known = large("yes $salt"), dict(os.environ)
    first = Machine(tmp_path / "a", ADDRESS, environment=known)
    first.build(action)
    made = first.executor.records.get("large:x")
    assert made is not None
    blob = dict(made.outputs)["a"]
    other = tmp_path / "other"
    other.write_bytes(bytes(blob.size_bytes))
    connect(ADDRESS, known, Timeouts()).put("cas", blob, other)
    second = Machine(tmp_path / "b", ADDRESS, environment=known)
    assert second.build(action) == ["ran"]
    assert len(second.reported) == 1
    assert f"blob {blob} is corrupt there" in second.reported[0]
    assert (second.root / "build/a").read_bytes() == first.store.blob(blob).read_bytes()
    third = Machine(tmp_path / "c", ADDRESS, environment=known)
    assert third.build(action) == ["fetched"]
    assert third.reported == []


@pytest.mark.skipif(not EXECUTOR, reason="INGOT_TEST_EXECUTOR names no server")
def test_a_server_builds_the_same_bytes_as_this_machine(tmp_path: Path) -> None:
    far = Machine(tmp_path / "far", EXECUTOR, environment=dict(os.environ))
    assert far.shared is not None
    far.executor._remote = open_server(
        EXECUTOR,
        far.shared,
        far.store,
        dict(os.environ),
        far.reported.append,
        Timeouts(),
    )
    # Words that no earlier run has used: nothing of it is there.
    salt = f": {os.urandom(8).hex()};"
    upper, count = (
        replace(action, argv=("sh", "-c", f"{salt} {action.argv[2]}"))
        for action in (UPPER, COUNT)
    )
    near = Machine(tmp_path / "near")
    assert far.build(upper, count) == near.build(upper, count) == ["ran", "ran"]
    for task in ("upper:x", "count:x"):
        records = [each.executor.records.get(task) for each in (far, near)]
        assert records[0] is not None
        assert records[1] is not None
        assert records[0].key == records[1].key
        assert records[0].outputs == records[1].outputs
    second = Machine(tmp_path / "b", without_password(EXECUTOR))
    assert second.build(upper, count) == ["fetched", "fetched"]
    with pytest.raises(ActionFailed) as caught:
        far.build(shell("fail:x", f"{salt} echo the reason; exit 7"))
    text = str(caught.value)
    assert text.startswith("fail:x: sh failed with exit code 7\nthe reason\n")
    assert far.reported == []
