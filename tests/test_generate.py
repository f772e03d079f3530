"""Test what `doit generate` writes, and when it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ingot.bundles import generator
from ingot.bundles.contract import CHAT_TEMPLATE, unseal
from ingot.bundles.generator import End, Outside, Request, ctx_for, generate
from ingot.bundles.reader import read_bundle
from ingot.bundles.sampler import Sampling
from ingot.cli.generate_command import first_interrupt_noted, read_request, run, summary
from ingot.model.runner import Runner
from tests.scripted import script
from tests.tiny_decoder import BOS, N_CTX, following, lay_out, sealed, text_of

HERE = Runner("local-sync")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("decoder") / "bundle")


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """A bundle's folder that a test may change, where a checkout has it."""
    place = tmp_path / "build/tiny/here/bundle"
    shutil.copytree(made, place)
    return place


def never() -> bool:
    return False


def written(
    folder: Path, request: Request, stopped: Callable[[], bool] = never
) -> tuple[str, generator.Generated]:
    """The text that a bundle writes, and how it came about."""
    pieces: list[str] = []
    outside = Outside(pieces.append, stopped)
    made = generate(read_bundle(folder), HERE, request, outside)
    return "".join(pieces), made


def test_greedy_text_is_what_the_model_says(made: Path) -> None:
    text, told = written(made, Request("hello", 12))
    assert text == text_of(following("hello", 12))
    assert (told.prompt_tokens, told.tokens, told.decodes) == (6, 12, 11)
    assert told.end is End.TOKENS


def test_a_prompt_longer_than_one_call_takes_goes_in_by_parts(made: Path) -> None:
    prompt = "a prompt of more than 16 tokens"
    text, told = written(made, Request(prompt, 8))
    assert text == text_of(following(prompt, 8))
    assert told.prompt_tokens == 1 + len(prompt)


def test_the_restarted_module_writes_the_same(made: Path) -> None:
    pieces: list[str] = []
    # An emulator that is none: the same program, started for every token.
    runner = Runner("local-sync", prefix=("env",))
    bundle = read_bundle(made)
    generate(bundle, runner, Request("hey", 3), Outside(pieces.append, never))
    assert "".join(pieces) == text_of(following("hey", 3))


def test_the_end_token_ends_the_text_and_is_not_written(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, [104, 105, 257, 106])
    text, told = written(made, Request("x"))
    assert text == "hi"
    assert (told.tokens, told.decodes, told.end) == (2, 2, End.SEQUENCE)


def test_the_end_tokens_of_the_manifest_end_the_text_too(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = unseal((bundle / "bundle.json").read_text())
    content["generation"]["end_tokens"] = [10, 33]
    sealed(bundle, content)
    script(monkeypatch, [104, 105, 33, 106])
    text, told = written(bundle, Request("x"))
    assert (text, told.end) == ("hi", End.SEQUENCE)


def test_an_ordinary_token_with_the_name_of_an_end_is_text(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in Gemma 3 and Qwen 3.
    value = json.loads((bundle / "tokenizer.json").read_text())
    added = {**value["added_tokens"][1], "id": 258, "content": "</s>"}
    value["added_tokens"].append({**added, "special": False})
    (bundle / "tokenizer.json").write_text(json.dumps(value))
    sealed(bundle, unseal((bundle / "bundle.json").read_text()))
    script(monkeypatch, [104, 258, 257])
    text, told = written(bundle, Request("x"))
    assert (text, told.end) == ("h</s>", End.SEQUENCE)


@pytest.mark.parametrize(
    ("stop", "said", "expected"),
    [
        (["lo w"], "hello world", "hel"),
        (["xyz", "or"], "hello world", "hello w"),
        (["lo no"], "hello world", "hello world"),
        (["dd"], "hello world", "hello world"),
    ],
)
def test_a_stop_text_ends_the_text_and_is_not_written(
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: list[str],
    said: str,
    expected: str,
) -> None:
    content = unseal((bundle / "bundle.json").read_text())
    content["generation"]["stop"] = stop
    sealed(bundle, content)
    script(monkeypatch, [*said.encode(), 257])
    text, told = written(bundle, Request("x"))
    assert text == expected
    assert told.end is (End.SEQUENCE if expected == said else End.STOP)


def test_ids_stand_for_a_prompt_and_for_a_text(made: Path) -> None:
    ids = (BOS, *b"hello")
    text, told = written(made, Request("", 5, ids=ids, writes_ids=True))
    assert text == ",".join(map(str, following("hello", 5)))
    assert told.prompt_tokens == 6


def test_a_chat_template_writes_the_prompt(bundle: Path) -> None:
    template = "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}{{ m.content }}"
    (bundle / CHAT_TEMPLATE).write_text(template + "{% endfor %}")
    content = unseal((bundle / "bundle.json").read_text())
    content["generation"] |= {"chat_template": CHAT_TEMPLATE, "bos": BOS}
    sealed(bundle, content)
    assert written(bundle, Request("ab", 4))[0] == text_of(following("uab", 4))
    with_system = Request("ab", 4, system="c")
    assert written(bundle, with_system)[0] == text_of(following("scuab", 4))
    without = Request("ab", 4, template=False)
    assert written(bundle, without)[0] == text_of(following("ab", 4))


def test_a_text_may_end_before_it_begins(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, [257])
    text, told = written(made, Request("x"))
    assert (text, told.tokens, told.decodes) == ("", 0, 0)
    assert "decode without tokens" in summary("tiny@here", Request("x"), told)


def test_characters_are_written_whole(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "äß日\U0001f600."
    script(monkeypatch, [*said.encode(), 257])
    pieces: list[str] = []
    generate(read_bundle(made), HERE, Request("x"), Outside(pieces.append, never))
    assert [piece for piece in pieces if piece] == list(said)


def test_a_character_that_the_limit_cut_is_shown_as_broken(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, list("a日".encode()))
    text, _ = written(made, Request("x", 2))
    assert text == "a\ufffd"


def test_ids_that_no_token_has_are_never_chosen(made: Path) -> None:
    # The model gives them the largest logits: at this temperature nothing else is
    # drawn where they are not left out, and the next by far is the model's own token.
    cold = Sampling(temperature=0.01, seed=1)
    text, _ = written(made, Request("x", 20, cold))
    assert text == text_of(following("x", 20))


def test_a_draw_is_made_again_by_its_seed(made: Path) -> None:
    def drawn(seed: int) -> str:
        return written(made, Request("x", 20, Sampling(100, seed=seed)))[0]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_ctrl_c_ends_after_the_current_token(made: Path) -> None:
    asked: list[int] = []

    def third() -> bool:
        asked.append(1)
        return len(asked) == 3

    text, told = written(made, Request("hello", 12), third)
    assert text == text_of(following("hello", 3))
    assert (told.tokens, told.decodes, told.end) == (3, 2, End.STOPPED)


def test_the_first_ctrl_c_is_noted_and_the_second_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with first_interrupt_noted() as stopped:
        assert not stopped()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_context_ends_the_text(made: Path) -> None:
    prompt = "p" * (N_CTX - 3)  # and <bos>: 2 places are left
    text, told = written(made, Request(prompt, 9))
    assert text == text_of(following(prompt, 3))
    assert (told.tokens, told.end) == (3, End.CONTEXT)


def test_a_prompt_that_fills_the_context_is_followed_by_one_token(made: Path) -> None:
    prompt = "p" * (N_CTX - 1)
    text, told = written(made, Request(prompt, 2))
    assert text == text_of(following(prompt, 1))
    assert told.end is End.CONTEXT


def test_the_caches_hold_what_is_needed_in_steps_of_32(made: Path) -> None:
    bundle = read_bundle(made)
    found = [ctx_for(tokens, bundle) for tokens in (1, 32, 33, 64, 65)]
    assert found == [32, 32, 64, 64, 64]


def test_text_goes_to_standard_output_and_the_rest_to_standard_error(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("hello", 12)
    assert run(read_bundle(bundle), HERE, request, never) == 0
    out, err = capsys.readouterr()
    assert out == text_of(following("hello", 12)) + "\n"
    first, second, third = err.splitlines()
    assert first == "tiny@here: 12 tokens after 6 of the prompt; tokens= is reached"
    assert second.startswith("  first token after 0.")
    assert third.count("tokens/s") == 2


def test_a_full_context_is_noted(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Request("p" * 60, 9)
    assert run(read_bundle(bundle), HERE, request, never) == 0
    note = capsys.readouterr().err.splitlines()[0]
    assert note == "note: the context is full: it has 64 tokens"


def test_ctrl_c_gives_the_summary_and_130(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(read_bundle(bundle), HERE, Request("hello"), lambda: True)
    assert code == 130
    assert "1 token after 6 of the prompt; stopped" in capsys.readouterr().err


def test_a_draw_shows_its_seed(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = read_request({"prompt": "a", "tokens": "2", "temperature": "1"})
    run(read_bundle(bundle), HERE, request, never)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"  to repeat: seed={request.sampling.seed}"
