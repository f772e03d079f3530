"""Test that a loaded module keeps its caches in place, and its errors."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.bundles.reader import read_bundle
from ingot.engine import process, sandbox
from ingot.engine.actions import Limits
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.model.target import Target, read_target
from ingot.runtime.calls import call
from ingot.runtime.decoder import Decoder
from ingot.runtime.invoke import Call, Module
from ingot.runtime.session import Loaded, Restarted, Session, is_native, open_session
from tests import scratch
from tests.component_cases import NUMPY
from tests.project import ROOT
from tests.tiny_decoder import N_VOCAB, W, lay_out
from tests.tiny_model import DATA

HOST = read_target(ROOT / "targets/x86_64.yaml", ROOT)
VULKAN = read_target(ROOT / "targets/vulkan-llvmpipe.yaml", ROOT)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("decoder") / "bundle")


def module(bundle: Path) -> Module:
    return Module(bundle / "model.vmfb", bundle / "model.irpa")


@pytest.fixture(scope="module")
def on_vulkan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same bundle for Mesa's software driver."""
    folder = lay_out(tmp_path_factory.mktemp("vulkan") / "bundle")
    shutil.copy(DATA / "decoder.mlir", folder.parent / "decoder.mlir")
    made = scratch.compiled(VULKAN, folder.parent / "decoder.mlir", folder.parent / "c")
    shutil.copy(made, folder / "model.vmfb")
    return folder


def address(tensor: Any) -> int:
    return int(tensor.to_host().__array_interface__["data"][0])


def test_what_runs_here_is_loaded_and_the_rest_is_restarted(bundle: Path) -> None:
    sessions = [
        open_session(runner, module(bundle))
        for runner in (
            Runner("local-task"),
            Runner("local-sync"),
            Runner("local-sync", prefix=("qemu-aarch64",)),
        )
    ]
    assert [type(item) for item in sessions] == [Loaded, Loaded, Restarted]
    assert is_native(Runner("vulkan"))


def test_a_cache_is_one_piece_of_memory_from_call_to_call(bundle: Path) -> None:
    session = Loaded(Runner("local-task"), module(bundle))
    first = cache = session.zeros((1, 1, 32, 2))
    for position in range(20):
        token, start = np.array([[5]], np.int32), np.array([position], np.int32)
        logits, cache = session.call("decode", (token, start, cache), 2)
        assert address(cache) == address(first)
        # Written there, and nowhere else.
        written = session.array(first)[0, 0]
        assert (written[: position + 1] == 5).all()
        assert (written[position + 1 :] == 0).all()
        assert session.array(logits)[0, 0, :258].argmax() == W + 5 * (position + 1)


@pytest.mark.parametrize("kind", ["loaded", "restarted"])
def test_both_sessions_say_the_same(bundle: Path, kind: str) -> None:
    session: Session = Restarted(Runner("local-sync"), module(bundle))
    if kind == "loaded":
        session = Loaded(Runner("local-sync"), module(bundle))
    decoder = Decoder(session, read_bundle(bundle).entry_points, ctx=32)
    logits = [decoder.prefill((1, 2, 3)), decoder.decode(4), decoder.decode(5)]
    assert [item.shape for item in logits] == [(N_VOCAB,)] * 3
    assert [int(item[:258].argmax()) for item in logits] == [W + 6, W + 10, W + 15]


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", [Loaded, Restarted])
def test_both_sessions_say_the_same_of_vulkan(
    on_vulkan: Path, kind: type[Loaded | Restarted]
) -> None:
    environment = dict(os.environ)
    session: Session = kind(VULKAN.runner, module(on_vulkan))
    assert environment == dict(os.environ)
    cache = session.zeros((1, 1, 32, 2))
    for position in range(4):
        token, start = np.array([[5]], np.int32), np.array([position], np.int32)
        logits, cache = session.call("decode", (token, start, cache), 2)
        best = session.array(logits)[0, 0, :258].argmax()
        assert best == W + 5 * (position + 1)
    written = session.array(cache)[0, 0]
    assert (written[:4] == 5).all()
    assert (written[4:] == 0).all()


@pytest.mark.vulkan
def test_a_driver_gets_the_variables_of_its_own_runner(on_vulkan: Path) -> None:
    Loaded(VULKAN.runner, module(on_vulkan))
    none = replace(VULKAN.runner, env=(("VK_LOADER_DRIVERS_SELECT", "nothing*"),))
    with pytest.raises(IngotError, match=r"^model.vmfb: cannot be loaded here; \S"):
        Loaded(none, module(on_vulkan))


@pytest.mark.vulkan
def test_a_device_is_closed_with_its_last_session(on_vulkan: Path) -> None:
    # The threads of a software driver keep processors busy.
    before = threads()
    first, second = (Loaded(VULKAN.runner, module(on_vulkan)) for _ in range(2))
    opened = threads()
    assert opened > before
    del first
    assert threads() == opened
    del second
    assert threads() == before


def threads() -> int:
    """Return the number of this process's threads, without those of lost sessions."""
    # The runtime's modules and their functions refer to each other.
    gc.collect()
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("element", ["i8", "i32", "bf16", "f32"])
@pytest.mark.parametrize(
    "target", [HOST, pytest.param(VULKAN, marks=pytest.mark.vulkan)], ids=str
)
def test_every_element_type_comes_back(
    target: Target, element: str, tmp_path: Path
) -> None:
    vector = f"tensor<?x{element}>"
    source = tmp_path / "same.mlir"
    source.write_text(
        f"func.func @same(%x: {vector}) -> {vector} {{ return %x : {vector} }}"
    )
    vmfb = scratch.compiled(target, source, tmp_path / "vmfb")
    # Not a multiple of 32-bit words.
    numbers = np.arange(-3, 4).astype(NUMPY[element])
    (found,) = call(target.runner, Module(vmfb), Call("same", (numbers,)))
    assert found.dtype == numbers.dtype
    assert found.tolist() == numbers.tolist()


def test_a_sequence_in_two_parts_is_the_sequence(bundle: Path) -> None:
    entries = read_bundle(bundle).entry_points
    whole = Decoder(Loaded(Runner("local-sync"), module(bundle)), entries, ctx=32)
    parts = Decoder(Loaded(Runner("local-sync"), module(bundle)), entries, ctx=32)
    parts.prefill((1, 2))
    assert (parts.prefill((3, 4)) == whole.prefill((1, 2, 3, 4))).all()


def test_a_module_that_may_only_be_read_is_loaded(bundle: Path, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.append({str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from ingot.runtime.session import Loaded, Module, Runner\n"
        "Loaded(Runner('local-sync'), Module(Path('model.vmfb'), Path('model.irpa')))\n"
    )
    tools = ("python", "iree-base-runtime", "ml-dtypes", "numpy")
    ingot = str(ROOT / "ingot")
    mounts = {name: bundle / name for name in ("model.vmfb", "model.irpa")}
    argv: tuple[str, ...] = (sys.executable, "-c", program)
    sandboxed = sandbox.kind() == "bubblewrap"
    if sandboxed:
        *words, end = sandbox.bubblewrap(tmp_path, {}, mounts, tools, network=False)
        argv = (*words, "--ro-bind", ingot, ingot, end, *argv)
    done = process.run(argv, tmp_path, {}, Limits() if sandboxed else None)
    assert done.exit_code == 0, done.output.decode()


def test_a_damaged_module_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.vmfb").write_bytes(b"no module")
    with pytest.raises(IngotError, match=r"^model.vmfb: cannot be loaded here; \S"):
        Loaded(Runner("local-sync"), Module(tmp_path / "model.vmfb"))


def test_missing_parameters_are_an_error(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(IngotError, match=r"^model.vmfb: cannot be loaded here; \S"):
        Loaded(
            Runner("local-sync"), Module(bundle / "model.vmfb", tmp_path / "none.irpa")
        )


def test_a_function_that_is_not_there_is_an_error(bundle: Path) -> None:
    session = Loaded(Runner("local-sync"), module(bundle))
    with pytest.raises(IngotError, match=r"^@encode of model.vmfb does not run\n"):
        session.call("encode", (), 1)


def test_another_number_of_results_is_an_error(bundle: Path) -> None:
    session = Loaded(Runner("local-sync"), module(bundle))
    token, start = np.array([[5]], np.int32), np.array([0], np.int32)
    with pytest.raises(IngotError) as caught:
        session.call("decode", (token, start, session.zeros((1, 1, 8, 2))), 1)
    assert str(caught.value) == "@decode of model.vmfb: expected 1 result, found 2"
