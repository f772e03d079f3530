"""Test the errors of wrong command lines and of stores that cannot exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from doit.doit_cmd import DoitMain

from ingot.cli import startup
from ingot.cli.connections import store_root
from ingot.cli.doctor_command import start
from ingot.engine.store import Store
from ingot.errors import IngotError
from ingot.project.selection import select
from tests.dask_cluster import processes, until
from tests.project import ROOT
from tests.test_selection import refusing

OPTIONS = "  `doit help run` lists a build's options"


REFUSED = [
    (
        ["build", "model=a", "model=b"],
        "model= is set twice, to 'a' and to 'b'\n  for both: model=a,b",
    ),
    (
        ["gc", "limit=1GB", "limit=2GB"],
        "limit= is set twice, to '1GB' and to '2GB'",
    ),
    (
        ["build", "limit=5GB"],
        "limit=5GB: a build reads no variable named 'limit'\n"
        "  known variables: executor, model, target",
    ),
    (
        ["run", "input=x", "prompt=y"],
        "prompt=y: doit run input=... reads no variable named 'prompt'\n"
        "  known variables: executor, input, inputs, long, model, other, target, to",
    ),
    (
        ["why", "tokens=5"],
        "tokens=5: why reads no variable named 'tokens'\n"
        "  known variables: executor, model, target",
    ),
    (
        ["gc", "model=toy"],
        "model=toy: gc reads no variable named 'model'\n  known variables: limit",
    ),
    (
        ["list", "model=toy"],
        "model=toy: list reads no variable named 'model'\n  known variables: none",
    ),
    (
        ["import", "source=x", "target=host"],
        "target=host: import reads no variable named 'target'\n"
        "  known variables: ignore, licence, model, n_ctx, source, stored",
    ),
    (["import"], "import needs source=PATH, a checkpoint's folder or a GGUF file"),
    (
        ["generate", "prompt=x", "input=a"],
        "input=a: generate reads no variable named 'input'\n"
        "  known variables: ids, model, prompt, seed, system, target, temperature, "
        "template, tokens, top_k, top_p",
    ),
    (["build", "-n", "2", "--fast"], f"option --fast not recognized\n{OPTIONS}"),
    (["-r", "json", "build"], f"option -r not recognized\n{OPTIONS}"),
    (["verify", "bundle="], "bundle=: expected a folder or a tar, found nothing"),
    (["cluster", "port=65536"], "port=65536: expected 65535 or less"),
    (["cluster", "port=x"], "port=x: expected an integer, 0 or more"),
    (["cluster", "workers=0"], "workers=0: expected an integer, 1 or more"),
    (["-n", "-3", "build"], "-n -3: expected an integer, 0 or more"),
    (
        ["-n", "many", "build"],
        f"num_process: expected an integer, found 'many'\n{OPTIONS}",
    ),
    (
        ["build", "--model=toy-moe"],
        "option --model not recognized\n  did you mean model=...?",
    ),
    (
        ["-n", "2", "why"],
        "no task named 'why'\n  a command goes before its options: doit why",
    ),
    (
        ["build", "toy-moe"],
        "no task named 'toy-moe'\n  it is a model: doit build model=toy-moe",
    ),
    (
        ["aarch64"],
        "no task named 'aarch64'\n  it is a target: doit build target=aarch64",
    ),
    (["--fast"], f"option --fast not recognized\n{OPTIONS}"),
    (
        ["why", "-h"],
        f"option -h not recognized\n{OPTIONS}",
    ),
]


@pytest.mark.parametrize(
    ("words", "told"),
    [pytest.param(words, told, id=" ".join(words)) for words, told in REFUSED],
)
def test_a_wrong_command_line_is_rejected(
    words: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["doit", *words])
    assert DoitMain().run(words) == 3
    assert capsys.readouterr().err == f"ERROR: {told}\n"


@pytest.mark.parametrize(("kind", "near"), [("model", "a, b"), ("target", "x, y")])
def test_all_next_to_an_unknown_name_is_rejected(kind: str, near: str) -> None:
    with pytest.raises(IngotError) as caught:
        select(refusing(), {kind: "all,other"})
    assert str(caught.value) == (
        f"{kind}=other: no {kind} named 'other'\n  known {kind}s: {near}"
    )


@pytest.mark.parametrize("path", ["models/a.yaml", "/checkout/models/A.yaml", "A"])
def test_the_path_of_a_manifest_names_a_model(path: str) -> None:
    with pytest.raises(IngotError) as caught:
        select(refusing(), {"model": path})
    assert str(caught.value) == (
        f"model={path}: no model named '{path}'\n  did you mean 'a'?"
    )


def test_a_program_that_doctor_starts_dies_with_it(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/started; sleep 60; :"
    text = f"from ingot.cli.doctor_command import start; start('sh', '-c', '{script}')"
    with subprocess.Popen([sys.executable, "-c", text], cwd=ROOT) as command:
        until((tmp_path / "started").exists)
        command.kill()
    until(lambda: not processes(script))


def test_programs_of_the_system_are_found_without_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path in ("", "/no/such/folder"):
        monkeypatch.setenv("PATH", path)
        startup.prepare()
        assert start("true") == (0, "")


def test_a_store_in_an_unknown_home_folder_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INGOT_CACHE", "~no-such-user/store")
    with pytest.raises(IngotError) as caught:
        store_root()
    assert str(caught.value) == (
        "store ~no-such-user/store: there is no such home folder\n"
        "  set INGOT_CACHE to a folder"
    )


def test_a_store_among_the_sources_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for place in ("models/store", f"{ROOT}/oracles"):
        monkeypatch.setenv("INGOT_CACHE", place)
        with pytest.raises(IngotError, match="sources are in this folder"):
            store_root()
    monkeypatch.setenv("INGOT_CACHE", "build/store")
    assert store_root() == ROOT / "build/store"


def test_a_file_in_place_of_a_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(IngotError) as caught:
        Store(tmp_path / "store/below", lambda _: None)
    assert str(caught.value) == (
        f"store {tmp_path}/store/below: cannot write: Not a directory\n"
        "  remove the file that is there in place of a folder, or set INGOT_CACHE to"
        " another folder; finished actions are cached"
    )


def test_a_build_folder_that_cannot_be_written_is_reported_as_such(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "store", lambda _: None)
    digest = store.put_bytes(b"abc")
    (tmp_path / "build/out").mkdir(parents=True)
    with pytest.raises(IngotError) as caught:
        store.copy_to(digest, tmp_path / "build/out", tmp_path / "temporary")
    assert str(caught.value) == (
        f"{tmp_path}/build: cannot write: Is a directory\n"
        "  remove the folder that is there in place of a file; finished actions are"
        " cached"
    )
