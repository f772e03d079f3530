"""Test that compiled entry points reject sizes that the graph does not allow."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ingot.engine import toolchain
from ingot.model.component import code_of
from ingot.model.target import read_target
from ingot.stages.link import plan_link
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.two_norms import GRAPH, NORM

ROOT = Path(__file__).resolve().parent.parent
HOST = read_target(ROOT / "targets/host.yaml", ROOT)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emit")
    component = ROOT / f"components/{NORM.component}.mlir"
    instance = scratch.run(
        plan_specialize(NORM, code_of(component.read_text("utf-8"))),
        folder / "instance",
    )
    return scratch.run(plan_link(GRAPH), folder / "link", {instance.name: instance})


def test_linking_leaves_no_comment_no_place_and_nothing_to_find(linked: Path) -> None:
    text = linked.read_text(encoding="utf-8")
    assert "//" not in text
    assert str(ROOT) not in text
    assert re.findall(r"util.func public @([\w.]+)\(", text) == ["run"]
    assert not re.findall(r"util.func private @[\w.]+\([^{]*\) -> [^{]*$", text)


@pytest.fixture(scope="module")
def vmfb(linked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.compiled(HOST, linked, tmp_path_factory.mktemp("vmfb"))


@pytest.mark.parametrize(
    ("shape", "also", "words"),
    [
        ((2, 8, 4), (2, 8, 4), ""),
        ((5, 8, 4), (5, 8, 4), "x: batch must be 1 to 4"),
        ((2, 9, 4), (2, 9, 4), "x: seq must be 1 to 8"),
        ((2, 0, 4), (2, 0, 4), "x: seq must be 1 to 8"),
        ((2, 8, 4), (2, 7, 4), "z: seq differs between inputs"),
        ((2, 8, 4), (1, 8, 4), "z: batch differs between inputs"),
    ],
)
def test_an_entry_point_refuses_sizes_that_the_graph_does_not_have(
    vmfb: Path,
    tmp_path: Path,
    shape: tuple[int, ...],
    also: tuple[int, ...],
    words: str,
) -> None:
    np.save(tmp_path / "x.npy", np.ones(shape, np.float32))
    np.save(tmp_path / "z.npy", np.ones(also, np.float32))
    done = subprocess.run(
        [
            toolchain.executable("iree-run-module"),
            f"--module={vmfb}",
            f"--device={HOST.runner.device}",
            "--function=run",
            f"--parameters=model={parameters(tmp_path)}",
            f"--input=@{tmp_path}/x.npy",
            f"--input=@{tmp_path}/z.npy",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (not words), done.stderr
    assert words in done.stderr


def parameters(folder: Path) -> Path:
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    for name in ("w", "b"):
        index.add_buffer(name, np.ones(4, np.float32).view(np.uint8))
    index.create_archive_file(str(folder / "two-norms.irpa"))
    return folder / "two-norms.irpa"
