"""Test that a bundle runs with iree-base-runtime and NumPy alone, by its run.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.bundles.contract import seal, unseal
from ingot.bundles.generator import Outside, Request, generate
from ingot.bundles.reader import read_bundle
from ingot.bundles.target_runner import runner_for
from ingot.model.runner import Runner
from tests import tiny_decoder
from tests.isolated import NEEDED, TEMPLATES, TEXTS, python_with, run_script
from tests.tiny_bundle import pack_whole, ship
from tests.tiny_decoder import BOS, EOS, N_CTX, N_KNOWN, N_VOCAB
from tests.tiny_model import expected

TEMPLATE = (
    "{{ bos_token }}{% generation %}{% for m in messages %}<{{ m.role }}>"
    "{{ m.content }}{% endfor %}{% endgeneration %}"
)
SPECIAL = {"bos": BOS, "add_bos": True, "end_tokens": [EOS]}
UNUSED = [[N_KNOWN, N_VOCAB - 1]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_with(tmp_path_factory.mktemp("alone"), NEEDED)


@pytest.fixture(scope="module")
def with_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packages = (*NEEDED, *TEXTS, *TEMPLATES)
    return python_with(tmp_path_factory.mktemp("texts"), packages)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("encoder")) / "bundle"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_decoder.lay_out(tmp_path_factory.mktemp("decoder") / "bundle")
    ship(folder)
    contract = tiny_decoder.contract()
    contract["generation"] |= {**SPECIAL, "unused": UNUSED}
    return tiny_decoder.sealed(folder, contract)


def changed(
    bundle: Path, folder: Path, change: Callable[[dict[str, Any]], Any]
) -> Path:
    """A copy of the bundle with another contract."""
    shutil.copytree(bundle, folder)
    contract = unseal((folder / "bundle.json").read_text())
    change(contract)
    (folder / "bundle.json").write_text(seal(contract))
    return folder


def chatting(bundle: Path, folder: Path, template: str) -> Path:
    """A copy of the bundle with a chat template."""
    shutil.copytree(bundle, folder)
    (folder / "chat_template.jinja").write_text(template)
    contract = unseal((folder / "bundle.json").read_text())
    contract["generation"]["chat_template"] = "chat_template.jinja"
    return tiny_decoder.sealed(folder, contract)


def generated(folder: Path, request: Request) -> str:
    """What `doit generate` writes."""
    bundle, written = read_bundle(folder), list[str]()
    runner = runner_for(bundle, folder)
    assert isinstance(runner, Runner)
    generate(bundle, runner, request, Outside(written.append, lambda: False))
    return "".join(written)


@pytest.mark.parametrize("count", [1, 40])
def test_a_decoders_ids_are_those_of_generate(
    alone: Path, decoder: Path, count: int
) -> None:
    # 19 ids are prefilled in two parts.
    ids = [BOS, *b"a prompt in two ca"]
    given = ",".join(map(str, ids))
    ran = run_script(alone, decoder / "run.py", f"--ids={given}", f"--tokens={count}")
    assert (ran.returncode, ran.stderr) == (0, "")
    made = [int(word) for word in ran.stdout.strip().split(",")]
    request = Request("", count, ids=tuple(ids), writes_ids=True)
    assert ran.stdout == generated(decoder, request) + "\n"
    following = tiny_decoder.following("a prompt in two ca", count)
    assert made == following[: len(made)]


def test_a_text_ends_where_the_context_is_full(alone: Path, decoder: Path) -> None:
    given = ",".join(map(str, [BOS] * (N_CTX - 1)))
    ran = run_script(alone, decoder / "run.py", f"--ids={given}", "--tokens=9")
    assert len(ran.stdout.split(",")) == 2
    ran = run_script(alone, decoder / "run.py", f"--ids={given},1,1")
    assert (ran.returncode, ran.stderr) == (1, "expected 1 to 64 tokens, found 65\n")


def test_a_text_is_continued_as_generate_does(with_texts: Path, decoder: Path) -> None:
    words = ("--text=Hello", "--tokens=12")
    ran = run_script(with_texts, decoder / "run.py", *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == generated(decoder, Request("Hello", 12)) + "\n"


def test_a_chat_model_is_asked_with_its_template(
    with_texts: Path, decoder: Path, tmp_path: Path
) -> None:
    bundle = chatting(decoder, tmp_path / "bundle", TEMPLATE)
    words = ("--text=Hi", "--tokens=12")
    ran = run_script(with_texts, bundle / "run.py", *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == generated(bundle, Request("Hi", 12)) + "\n"
    plain = run_script(with_texts, bundle / "run.py", *words, "--plain")
    assert plain.stdout != ran.stdout


def test_a_template_cannot_leave_jinjas_sandbox(
    with_texts: Path, decoder: Path, tmp_path: Path
) -> None:
    leaves = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    bundle = chatting(decoder, tmp_path / "bundle", leaves)
    ran = run_script(with_texts, bundle / "run.py", "--text=Hi")
    assert ran.returncode == 1
    assert "SecurityError: access to attribute '__class__'" in ran.stderr


def test_an_encoders_vector_is_right(alone: Path, encoder: Path) -> None:
    ran = run_script(alone, encoder / "run.py", "--ids=101,7592,102")
    assert (ran.returncode, ran.stderr) == (0, "")
    ids = np.array([[101, 7592, 102]])
    np.testing.assert_allclose(
        json.loads(ran.stdout), expected(ids, np.ones_like(ids))[0], rtol=1e-6
    )


def test_an_encoder_takes_a_sentence(with_texts: Path, encoder: Path) -> None:
    ran = run_script(with_texts, encoder / "run.py", "--text=hello")
    assert (ran.returncode, ran.stderr) == (0, "")
    golden = json.loads((encoder / "golden.json").read_text())["cases"][0]
    np.testing.assert_allclose(json.loads(ran.stdout), golden["embedding"], rtol=1e-6)


def test_any_entry_point_takes_and_gives_arrays(
    alone: Path, encoder: Path, tmp_path: Path
) -> None:
    tokens = np.array([[5, 6, 7], [8, 9, 0]], np.int32)
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    files = [tmp_path / "tokens.npy", tmp_path / "mask.npy"]
    for path, array in zip(files, (tokens, mask), strict=True):
        np.save(path, array)
    words = ("--entry=encode", f"--out={tmp_path}", "--npy", *map(str, files))
    ran = run_script(alone, encoder / "run.py", *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    made = np.load(tmp_path / "embedding.npy")
    np.testing.assert_allclose(made, expected(tokens, mask), rtol=1e-6)


@pytest.mark.parametrize(
    ("section", "key", "value", "says"),
    [
        (
            *("target", "cpu_features", ["sparkle", "glow512"]),
            "this processor lacks sparkle, glow512, which the bundle needs",
        ),
        (*("target", "machine", "riscv64"), "the bundle is for riscv64, this is "),
        (
            *("runtime", "version", "1.2.3"),
            "expected iree-base-runtime==1.2.3, found ",
        ),
    ],
)
def test_what_is_missing_here_is_named(
    alone: Path,
    encoder: Path,
    tmp_path: Path,
    section: str,
    key: str,
    value: object,
    says: str,
) -> None:
    def change(contract: dict[str, Any]) -> None:
        contract[section][key] = value

    bundle = changed(encoder, tmp_path / "bundle", change)
    # Nothing of the bundle is loaded before.
    (bundle / "model.vmfb").unlink()
    ran = run_script(alone, bundle / "run.py", "--ids=1")
    assert ran.returncode == 1
    assert ran.stderr.startswith(says)


def test_a_text_needs_a_tokenizer(alone: Path, encoder: Path, tmp_path: Path) -> None:
    bundle = changed(encoder, tmp_path / "bundle", lambda x: x.update(text=None))
    ran = run_script(alone, bundle / "run.py", "--text=hello")
    assert ran.returncode == 2
    assert ran.stderr.endswith("error: the bundle has no tokenizer; give --ids\n")
