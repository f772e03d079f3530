"""What attention holds in memory while it runs, by the count of the runtime."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ingot.engine.toolchain import executable
from tests.component_cases import ROOT
from tests.component_runs import FLAGS, merged, run_tool

HEADS, HEADS_KV, HEAD_DIM, POSITIONS, BLOCK = 4, 2, 8, 512, 16
# One f32 for each head, query and key.
ALL_SCORES_BYTES = 4 * HEADS * POSITIONS**2
STEMS = ("attention_causal", "attention_sink", "flash_attention")


@pytest.fixture(scope="module")
def vmfb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    texts = {
        stem: (ROOT / f"components/attention/{stem}.mlir").read_text("utf-8")
        for stem in STEMS
    }
    source = merged(texts, folder / "all.mlir")
    run_tool("iree-compile", source, "-o", folder / "all.vmfb", *FLAGS)
    return folder / "all.vmfb"


def peak_bytes(vmfb: Path, stem: str, *blocks: int) -> int:
    """Return the most that the device held at once: arguments, results, all between."""
    cache = f"1x1x{POSITIONS}x{HEADS_KV * HEAD_DIM}xf32=1"
    tensors = [f"1x{POSITIONS}x{HEADS * HEAD_DIM}xf32=1", cache, cache, "1xi32=0"]
    if stem != "attention_causal":
        tensors.append(f"{HEADS}xf32=0")  # sinks
    numbers = (0, POSITIONS, 0.5, HEADS, HEADS_KV, *blocks)
    # A process of its own: the count is the process's.
    done = subprocess.run(
        [
            executable("iree-run-module"),
            *("--device=local-sync", f"--module={vmfb}", f"--function={stem}.forward"),
            *(f"--input={item}" for item in (*tensors, *numbers)),
            "--print_statistics",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"DEVICE_LOCAL: +(\d+)B peak", done.stdout + done.stderr)
    assert found, done.stderr
    return int(found[1])


def test_attention_by_blocks_never_holds_the_scores_of_all_queries(vmfb: Path) -> None:
    assert peak_bytes(vmfb, "attention_sink") > ALL_SCORES_BYTES
    assert peak_bytes(vmfb, "attention_causal") < ALL_SCORES_BYTES
    assert peak_bytes(vmfb, "flash_attention", BLOCK) < ALL_SCORES_BYTES / 4
