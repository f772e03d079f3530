"""Test whole builds of a toy model: which actions run, and which are restored.

Each test counts actions by what `doit` prints of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.engine.actions import stage_of
from tests.isolated import NEEDED, TEXTS, python_with, run_script
from tests.project import TOY, Project, builds, edit

pytestmark = [pytest.mark.slow, builds(TOY)]

TARGET = "target=x86_64"
# The tasks that compare the toy's pieces.
PIECES = ("check-entry-point-", "check-blocks-", "check-component-")
SHIPPED = ("x86_64/model.vmfb", "x86_64/bundle/bundle.json")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One cold build of the toy model for x86_64, shared by the tests that copy it."""
    base = tmp_path_factory.mktemp("built")
    project = Project.create(base / "checkout", base / "cache")
    run = project.build(TARGET)
    assert set(run.done.values()) == {"ran"}
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Iterator[Project]:
    """A built checkout of the test's own: it may be edited and damaged."""
    shutil.copytree(built.root, tmp_path / "checkout", symlinks=True)
    shutil.copytree(built.cache, tmp_path / "cache")
    project = Project(tmp_path / "checkout", tmp_path / "cache")
    # The copies are other files: this build looks at each again and runs nothing.
    assert "ran" not in project.build(TARGET).done.values()
    yield project
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_second_build_runs_nothing(project: Project) -> None:
    assert project.build(TARGET).done == {}


def test_a_build_says_that_its_weights_are_synthetic(built: Project) -> None:
    run = built.build(TARGET)
    assert run.out.splitlines()[-1] == "synthetic weights: toy"
    assert "synthetic weights" in built.doit("list").out
    folder = built.root / "build/toy/x86_64"
    contract = json.loads((folder / "bundle/bundle.json").read_text())
    assert contract["weights"] == "synthetic weights, seed 1"
    bench = json.loads((folder / "toy-x86_64.bench.json").read_text())
    assert bench["weights"] == "synthetic weights"


def test_its_bundle_gives_the_vectors_of_doit_run(
    built: Project, tmp_path: Path
) -> None:
    ran = built.doit("run", TARGET, "input=an ingot is cast", "--json")
    assert ran.code == 0, ran.err
    vector = json.loads(ran.out)["sentences"][0]["embedding"]
    site = python_with(tmp_path, (*NEEDED, *TEXTS))
    script = built.root / "build/toy/x86_64/bundle/run.py"
    alone = run_script(site, script, "--text=an ingot is cast")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert json.loads(alone.stdout) == vector


def test_an_edit_of_a_components_comment_runs_nothing(project: Project) -> None:
    component = project.root / "components/normalization/layer_norm.mlir"
    edit(component, "// layer_norm: ", "// layer_norm: in other words, ")
    component.write_text(component.read_text() + "\n// a comment at the end\n")
    assert project.build(TARGET).done == {}


def test_an_edited_component_reruns_what_depends_on_it(project: Project) -> None:
    before = project.build(TARGET).done
    assert before == {}
    component = project.root / "components/activation/gelu_erf.mlir"
    text = component.read_text()
    # Another name for a value is no other program; another constant is.
    assert "0.5" in text
    component.write_text(text.replace("0.5", "0.5000001"))
    run = project.doit("build", TARGET)
    ran = {task for task, how in run.done.items() if how == "ran"}
    # The toy is small: all its components are one piece, and all its blocks another.
    links = "link link-component-all link-block-all"
    compiles = "compile-configured compile compile-component-all compile-block-all"
    checks = "check-component-all check-blocks-all check-entry-point-encode check"
    assert ran == {
        "specialize:gelu_erf__n_ff_64",
        *(f"{task}:toy@packed_n8" for task in links.split()),
        *(f"{task}:toy@x86_64" for task in f"{compiles} {checks}".split()),
        *(f"{task}:toy@x86_64" for task in ("bench", "bundle")),
    }


def test_a_killed_check_goes_on_with_the_pieces_that_are_left(
    project: Project,
) -> None:
    edit(project.root / "models/toy.yaml", "seed: 1", "seed: 2")
    process = project.start("check", TARGET)
    assert process.stdout is not None
    finished: set[str] = set()
    for line in process.stdout:
        task = line.split()[1].rstrip(":")
        finished.add(task)
        if task.startswith(PIECES):
            break
    project.kill(process)
    run = project.doit("check", TARGET)
    assert "check:toy@x86_64" in run.done
    assert not finished & run.done.keys()


def test_a_changed_flag_touches_only_its_target(project: Project) -> None:
    both = "target=x86_64,vulkan-llvmpipe"
    assert project.doit("compile", both).done
    assert project.doit("compile", both).done == {}
    target = project.root / "targets/x86_64.yaml"
    edit(target, "pproc-strategy=peel", "pproc-strategy=mask")
    run = project.doit("compile", both)
    changed = {"compile:toy@x86_64", "compile-configured:toy@x86_64"}
    assert changed <= run.done.keys()
    assert {stage_of(task) for task in run.done} == {"compile"}
    assert all(task.endswith(":toy@x86_64") for task in run.done)
    # The bundle records the compiler's command line, so it differs.
    assert project.build(TARGET).done["bundle:toy@x86_64"] == "ran"


def test_a_changed_weight_reruns_bake_check_bench_and_bundle(project: Project) -> None:
    edit(project.root / "models/toy.yaml", "seed: 1", "seed: 2")
    ran = {stage_of(task) for task in project.build(TARGET).done}
    assert ran == {"bake", "check", "bench", "bundle"}


@pytest.mark.parametrize("shown", SHIPPED)
@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_an_output_is_restored_from_the_store(
    project: Project, shown: str, damage: str
) -> None:
    path = project.root / "build/toy" / shown
    digest = hash_of(path)
    path.unlink()
    if damage == "changed":
        path.write_bytes(b"damaged")
    run = project.build(TARGET)
    assert set(run.done.values()) == {"restored"}
    assert hash_of(path) == digest


def test_a_second_checkout_with_the_same_store_runs_nothing(
    project: Project, tmp_path: Path
) -> None:
    other = Project.create(tmp_path / "second", project.cache)
    run = other.build(TARGET)
    assert set(run.done.values()) == {"restored"}
    assert shipped(other) == shipped(project)


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_build_killed_at_any_moment_is_finished_by_the_next(
    built: Project, tmp_path: Path, kills: int
) -> None:
    project = Project.create(tmp_path / "checkout", tmp_path / "cache")
    moments = random.Random(1)
    for _ in range(kills):
        process = project.start("build", TARGET)
        time.sleep(moments.uniform(0.1, 4.0))
        project.kill(process)
    run = project.build(TARGET)
    assert "FAILED" not in run.done.values()
    assert shipped(project) == shipped(built)
    assert not orphans(project)
    assert not list((project.cache / "tmp").iterdir())


@pytest.mark.parametrize("checkouts", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_two_builds_at_once_share_a_store_and_give_the_bytes_of_another(
    built: Project, tmp_path: Path, checkouts: int
) -> None:
    first = Project.create(tmp_path / "elsewhere/deeper", tmp_path / "cache")
    second = first
    if checkouts == 2:
        second = Project.create(tmp_path / "second", tmp_path / "cache")
    processes = [each.start("build", TARGET) for each in (first, second)]
    for process in processes:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, out + err
    assert shipped(first) == shipped(second) == shipped(built)
    assert hash_of(irpa(first)) == hash_of(irpa(second)) == hash_of(irpa(built))
    assert first.build(TARGET).done == {}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_stopped_build_leaves_no_process_and_caches_finished_actions(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    # Its actions are short: the next command runs those that are missing.
    project = Project.create(tmp_path / "checkout", tmp_path / "cache")
    process = project.start("link", TARGET)
    assert process.stdout is not None
    finished = process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert "finished actions are cached" in err
    assert not orphans(project)
    run = project.doit("link", TARGET)
    assert run.code == 0, run.out + run.err
    assert finished.split()[1].rstrip(":") not in run.done


def shipped(project: Project) -> dict[str, str]:
    """Return the digests of what the project ships."""
    return {name: hash_of(project.root / "build/toy" / name) for name in SHIPPED}


def irpa(project: Project) -> Path:
    """Return the baked weights."""
    return next((project.root / "build/toy").rglob("*.irpa"))


def hash_of(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def orphans(project: Project) -> list[str]:
    """Return the command lines of processes that still work for the project."""
    time.sleep(0.5)
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(project.cache) in words or str(project.root) in words:
                left.append(words)
    return left
