"""Test how much memory attention allocates, by the count of the runtime."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ingot.engine.toolchain import executable
from tests.component_cases import ROOT
from tests.component_runs import FLAGS, run_tool

HEADS, HEADS_KV, HEAD_DIM, POSITIONS, BLOCK = 4, 2, 8, 512, 16
# One f32 for each head, query and key.
ALL_SCORES_BYTES = 4 * HEADS * POSITIONS**2


@pytest.fixture(scope="module")
def vmfb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("memory") / "attention_causal.vmfb"
    source = ROOT / "components/attention/attention_causal.mlir"
    run_tool("iree-compile", source, "-o", made, *FLAGS)
    return made


def peak_bytes(vmfb: Path, block_size: int, sinks: int) -> int:
    """Return the most that the device held at once: arguments, results, all between."""
    cache = f"1x1x{POSITIONS}x{HEADS_KV * HEAD_DIM}xf32=1"
    tensors = [f"1x{POSITIONS}x{HEADS * HEAD_DIM}xf32=1", cache, cache, "1xi32=0"]
    numbers = (0, POSITIONS, 0.5, HEADS, HEADS_KV, block_size)
    sinks_given = f"{sinks}xf32=0" if sinks else "0xf32"
    # A process of its own: the count is the process's.
    done = subprocess.run(
        [
            executable("iree-run-module"),
            *("--device=local-sync", f"--module={vmfb}", "--function=forward"),
            *(f"--input={item}" for item in (*tensors, *numbers, sinks_given)),
            "--print_statistics",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"DEVICE_LOCAL: +(\d+)B peak", done.stdout + done.stderr)
    assert found, done.stderr
    return int(found[1])


@pytest.mark.parametrize("sinks", [0, HEADS])
def test_attention_by_blocks_never_holds_the_scores_of_all_queries(
    vmfb: Path, sinks: int
) -> None:
    assert peak_bytes(vmfb, POSITIONS, sinks) > ALL_SCORES_BYTES
    assert peak_bytes(vmfb, BLOCK, sinks) < ALL_SCORES_BYTES / 4
