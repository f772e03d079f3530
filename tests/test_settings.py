"""Test the program `doit`, and the errors of settings in pyproject.toml."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.cli.store_commands import check_limit
from ingot.errors import IngotError
from ingot.project.workspace import load
from tests.project import ROOT

DEFAULTS = 'default-model = "toy"\ndefault-target = "host"'
CHANGED = "git diff pyproject.toml shows what was changed"


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
def test_wrong_settings_are_rejected(settings: str, told: str, tmp_path: Path) -> None:
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
        (
            "x = " + "[" * 100_000,
            "1:1: not TOML that can be read: nested too deeply",
        ),
        (
            "x = " + "9" * 5000,
            "1:1: not TOML that can be read: a number has too many digits",
        ),
        (
            "#" * 300_000,
            "1:1: cannot be read: it is too large: 300000 bytes are more than 262144",
        ),
    ],
    ids=["syntax", "type", "bytes", "pipe", "deep", "digits", "large"],
)
def test_settings_that_doit_cannot_read_are_rejected(
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
def test_an_empty_argument_is_rejected(words: list[str]) -> None:
    ran = doit(ROOT, *words)
    assert (ran.returncode, ran.stderr) == (
        3,
        "ERROR: empty argument; expected a task, a command or NAME=VALUE\n"
        "  is a shell variable not set? `doit list` shows all names\n",
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


def test_ctrl_c_while_doit_is_imported_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "doit.py").write_text("raise KeyboardInterrupt")
    ran = subprocess.run(
        [sys.executable, "-m", "ingot.cli.main", "list"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == -signal.SIGINT
    assert (ran.stdout, ran.stderr) == ("", "\nstopped; nothing was run\n")


def test_a_command_of_doit_without_an_exit_code_has_succeeded() -> None:
    ran = doit(ROOT, "tabcompletion")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_limit_that_is_not_a_size_is_rejected_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'[tool.ingot]\n{DEFAULTS}\nstore-limit = "-5GB"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(IngotError, match="store-limit: expected a size, found '-5GB'"):
        load(tmp_path)
    monkeypatch.setenv("INGOT_CACHE_LIMIT", "lots")
    with pytest.raises(IngotError, match="LIMIT: expected a size, found 'lots'"):
        check_limit()
