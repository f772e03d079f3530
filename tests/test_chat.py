"""Test that `doit chat` answers line by line and remembers the conversation."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ingot.bundles.contract import CHAT_TEMPLATE, unseal
from ingot.bundles.generator import Request
from ingot.bundles.reader import read_bundle
from ingot.cli import chat_command
from ingot.cli.chat_command import converse
from ingot.model.runner import Runner
from tests.tiny_decoder import BOS, following, lay_out, sealed, text_of

# A letter for the role of each turn, and no more: a context has 64 tokens.
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}{{ m.content }}"
TEMPLATE += "{% endfor %}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay_out(tmp_path_factory.mktemp("chat") / "bundle")
    (folder / CHAT_TEMPLATE).write_text(TEMPLATE)
    content = unseal((folder / "bundle.json").read_text())
    content["generation"] |= {"chat_template": CHAT_TEMPLATE, "bos": BOS}
    return sealed(folder, content)


def said(
    bundle: Path,
    lines: str,
    request: Request,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    """What a conversation writes to standard output and standard error."""
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code = converse(read_bundle(bundle), Runner("local-sync"), request)
    out, err = capsys.readouterr()
    return code, out, err


def test_each_line_gets_an_answer_to_the_whole_conversation(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("", 3)
    code, out, err = said(bundle, "hi\n\nyou\n", request, monkeypatch, capsys)
    first = text_of(following("uhi", 3))
    second = text_of(following(f"uhia{first}uyou", 3))
    assert (code, out) == (0, f"{first}\n{second}\n")
    assert err.splitlines() == ["note: the answer is cut after tokens=3"] * 2


def test_a_system_message_comes_first(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("", 3, system="be")
    out = said(bundle, "hi\n", request, monkeypatch, capsys)[1]
    assert out == text_of(following("sbeuhi", 3)) + "\n"


def test_the_oldest_turn_is_forgotten_when_the_context_is_full(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("", 1)
    lines = f"{'a' * 40}\n{'b' * 40}\n"
    code, out, err = said(bundle, lines, request, monkeypatch, capsys)
    second = text_of(following("u" + "b" * 40, 1))
    assert (code, out.splitlines()[1]) == (0, second)
    assert "note: the context is full: the oldest turn is forgotten" in err


def test_ctrl_c_between_answers_ends_the_conversation(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(chat_command, "_line", interrupted)
    assert converse(read_bundle(bundle), Runner("local-sync"), Request("")) == 130
