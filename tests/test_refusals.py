"""Command lines and settings that make no sense, and what is said of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from doit.doit_cmd import DoitMain
from doit.exceptions import InvalidDodoFile

from ingot.edges.store import Store
from ingot.errors import IngotError
from ingot.findings import start
from ingot.front import replaced
from ingot.front.tasks import Front, store_root
from ingot.selection import select
from ingot.workspace import load
from tests.farm import processes, until
from tests.project import ROOT
from tests.test_selection import refusing

DEFAULTS = 'default-model = "toy"\ndefault-target = "host"'
CHANGED = "git diff pyproject.toml shows what was changed"
OPTIONS = "  doit help run lists a build's, before the task: doit -n 2 build"


@pytest.mark.parametrize(
    ("words", "told"),
    [
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
            "  known variables: executor, input, model, target",
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
        (["verify", "bundle="], "verify needs bundle=PATH, a folder or a tar"),
        (["cluster", "port=65536"], "port=65536: expected 65535 or less"),
        (["cluster", "port=x"], "port=x: expected a whole number, 0 or more"),
        (["cluster", "workers=0"], "workers=0: expected a whole number, 1 or more"),
        (["-n", "-3", "build"], "-n -3: expected a whole number, 0 or more"),
        (["--fast"], f"Error parsing Command: option --fast not recognized\n{OPTIONS}"),
        (
            ["why", "-h"],
            f"Error parsing Command: option -h not recognized\n{OPTIONS}",
        ),
    ],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense_is_refused(
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
def test_all_beside_a_name_that_there_is_not_is_refused(kind: str, near: str) -> None:
    with pytest.raises(IngotError) as caught:
        select(refusing(), {kind: "all,other"})
    assert str(caught.value) == (
        f"{kind}=other: no {kind} named 'other'\n  known {kind}s: {near}"
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            "",
            "5:1: tool.ingot.default-model: expected a text, found nothing\n"
            '  default-model = "..."\n'
            "pyproject.toml:5:1: tool.ingot.default-target: expected a text, found"
            ' nothing\n  default-target = "..."',
        ),
        (
            f'{DEFAULTS}\nstore-limit = 5\nshared_cache = "x"',
            "8:1: tool.ingot.store-limit: expected a text, found '5'\n"
            '  store-limit = "..."\n'
            "pyproject.toml:9:1: tool.ingot.shared_cache: unknown key\n"
            "  did you mean 'shared-cache'?",
        ),
        (
            f"{DEFAULTS}\nbootstrap = 'x'",
            "8:1: tool.ingot.bootstrap: expected a table, found text 'x'",
        ),
        (
            f"{DEFAULTS}\nbootstrap.weights = 'x'",
            "8:1: tool.ingot.bootstrap.weights: expected an array of texts, found"
            " text 'x'\n"
            '  weights = ["...", "..."]',
        ),
        (
            f"{DEFAULTS}\nstore-limit = ",
            f"8:15: invalid value\n  {CHANGED}",
        ),
        (
            f"{DEFAULTS}\n[tool",
            f"8:6: expected ']' at the end of a table declaration\n  {CHANGED}",
        ),
        (
            f'{DEFAULTS}\nstore-limit = "5',
            f"8:17: illegal character '\\n'\n  {CHANGED}",
        ),
    ],
    ids=["missing", "unknown", "no-table", "no-array", "no-value", "open", "no-end"],
)
def test_settings_that_are_wrong_are_refused(
    settings: str, told: str, tmp_path: Path
) -> None:
    above = '[project]\nname = "x"\n# [tool.ingot] is below\n\n'
    (tmp_path / "pyproject.toml").write_text(f"{above}[tool.ingot]\n{settings}\n")
    with pytest.raises(IngotError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"pyproject.toml:{told}"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[tool.doit.plugins.command]\nrun = "x"\n[', "3:2: invalid"),
        (
            f"[tool.ingot]\n{DEFAULTS}\n[tool.doit.plugins]\ncommand = 5\n",
            " tool.doit: doit cannot read it: ",
        ),
        (b"# \xe9\n", "1:3: byte 0xe9 is not UTF-8"),
        (None, "1:1: cannot be read: is a named pipe"),
    ],
    ids=["syntax", "type", "bytes", "pipe"],
)
def test_what_doit_cannot_read_is_refused(
    content: str | bytes | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "pyproject.toml"
    if content is None:
        os.mkfifo(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ran = doit(tmp_path, "list")
    assert ran.returncode == 3
    assert ran.stderr.startswith(f"ERROR: pyproject.toml:{told}"), ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [[""], ["build", ""], ["", "model=toy-moe"]])
def test_an_empty_word_is_refused(words: list[str]) -> None:
    ran = doit(ROOT, *words)
    assert (ran.returncode, ran.stderr) == (
        3,
        "ERROR: an empty word; expected a task, a command or NAME=VALUE\n"
        "  a variable of the shell that is not set? doit list shows all names\n",
    )


def doit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `doit` as it is installed."""
    return subprocess.run(
        [Path(sys.executable).with_name("doit"), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_ctrl_c_while_doit_is_imported_is_no_defect(tmp_path: Path) -> None:
    (tmp_path / "doit.py").write_text("raise KeyboardInterrupt")
    ran = subprocess.run(
        [sys.executable, "-m", "ingot.front.main", "list"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == -signal.SIGINT
    assert (ran.stdout, ran.stderr) == ("", "\nstopped; nothing was run\n")


def test_what_doctor_starts_dies_with_it(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/started; sleep 60; :"
    text = f"from ingot.findings import start; start('sh', '-c', '{script}')"
    with subprocess.Popen([sys.executable, "-c", text], cwd=ROOT) as command:
        until((tmp_path / "started").exists)
        command.kill()
    until(lambda: not processes(script))


def test_programs_of_the_system_are_found_without_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path in ("", "/no/such/folder"):
        monkeypatch.setenv("PATH", path)
        replaced.replace()
        assert start("true") == (0, "")


def test_a_store_in_no_home_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CACHE", "~no-such-user/store")
    with pytest.raises(IngotError) as caught:
        store_root()
    assert str(caught.value) == (
        "store ~no-such-user/store: there is no such home folder\n"
        "  set INGOT_CACHE to a folder"
    )


def test_a_file_in_place_of_a_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(IngotError) as caught:
        Store(tmp_path / "store/below", lambda _: None)
    assert str(caught.value) == (
        f"store {tmp_path}/store/below: cannot write: Not a directory\n"
        "  remove the file that is there in place of a folder, or set INGOT_CACHE to"
        " another folder; finished actions are kept"
    )


def test_a_limit_that_is_no_size_is_refused_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'[tool.ingot]\n{DEFAULTS}\nstore-limit = "-5GB"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(IngotError, match="store-limit: expected a size, found '-5GB'"):
        load(tmp_path)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "store"))
    monkeypatch.setenv("INGOT_CACHE_LIMIT", "lots")
    with pytest.raises(InvalidDodoFile, match="LIMIT: expected a size, found 'lots'"):
        Front(ROOT)


def test_a_build_folder_that_cannot_be_written_is_not_called_the_store(
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
        " kept"
    )
