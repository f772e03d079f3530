"""A server that runs already, named by INGOT_TEST_CACHE: see docs/sharing.md.

Not in CI: moto and BuildGrid pin what this project pins otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingot.values import Action
from tests.cache_server import Machine

ADDRESS = os.environ.get("INGOT_TEST_CACHE", "")


@pytest.mark.skipif(not ADDRESS, reason="INGOT_TEST_CACHE names no server")
def test_two_machines_share_a_server(tmp_path: Path) -> None:
    # 20 MB of noise that no earlier run has sent: in several parts, never packed.
    action = Action(
        task="noise:x",
        argv=("sh", "-c", f": {os.urandom(8).hex()}; head -c 20000000 /dev/urandom >a"),
        inputs=(),
        outputs=("a",),
        shown=("build/a",),
    )
    first = Machine(tmp_path / "a", ADDRESS, environment=dict(os.environ))
    second = Machine(tmp_path / "b", ADDRESS, environment=dict(os.environ))
    assert first.build(action) == ["ran"]
    assert second.build(action) == ["fetched"]
    made = [(each.root / "build/a").read_bytes() for each in (first, second)]
    assert made[0] == made[1]
