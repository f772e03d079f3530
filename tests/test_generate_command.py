"""Test that `doit generate` builds what is missing in a checkout, and then writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingot.cli.runnable_model import chosen
from ingot.errors import IngotError
from ingot.project.catalogue import read
from ingot.project.selection import select
from tests.isolated import NEEDED, TEXTS, python_with, run_script
from tests.project import Project, edit
from tests.toy_decoder import BUILDS, MODEL, place

pytestmark = BUILDS

WORDS = ("generate", f"model={MODEL}", "target=x86_64")
TOKENIZER = "tokenizer: {kind: file, path: tokenizers/bytes.json}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("generate")
    made = Project.create(folder / "checkout")
    manifest = place(made.root)
    edit(manifest, "n_vocab: 48", "n_vocab: 300")
    edit(manifest, "\nweights:\n", f"\n{TOKENIZER}\nweights:\n")
    return made


def test_a_model_without_tokenizer_is_rejected_before_a_build(project: Project) -> None:
    manifest = project.root / f"models/{MODEL}.yaml"
    edit(manifest, TOKENIZER, "")
    try:
        catalogue = read(project.root)
        words = {"model": MODEL, "target": "x86_64"}
        with pytest.raises(IngotError) as caught:
            chosen("generate", catalogue, select(catalogue, words))
    finally:
        edit(manifest, "\nweights:\n", f"{TOKENIZER}\nweights:\n")
    assert str(caught.value) == (
        f"{MODEL}@x86_64: the bundle has no tokenizer\n"
        "  add 'tokenizer' to the manifest, with the path of its tokenizer.json"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), 'generate needs prompt="...", or ids=1,2,3'),
        (("prompt=x", "tokens=0"), "tokens=0: expected an integer, 1 or more"),
        (("prompt=x", "temprature=1"), "did you mean 'temperature'?"),
        (("prompt=x", "build"), "generate takes no task, found 'build'"),
        (("prompt=x", "model=toy"), "toy@x86_64: not a decoder; expected the entry"),
    ],
)
def test_a_wrong_command_line_is_reported_and_nothing_is_built(
    project: Project, words: tuple[str, ...], says: str
) -> None:
    own = {word.partition("=")[0] for word in words}
    usual = [word for word in WORDS if word.partition("=")[0] not in own]
    run = project.doit(*usual, *words)
    assert says in run.err
    assert (run.code, run.out) == (3, "")
    assert not (project.root / f"build/{MODEL}").exists()


@pytest.mark.slow
def test_it_builds_once_and_writes_the_same_text_again(project: Project) -> None:
    words = (*WORDS, "prompt=Hello", "tokens=40", "temperature=2", "seed=4")
    alone = project.doit(*words, "--unchecked")
    assert alone.code == 0, alone.out + alone.err
    assert "\nunchecked: this model is not checked\n" in alone.err
    assert not re.search(r"\] (check|bench|bundle)", alone.err)
    first = project.doit(*words)
    assert first.code == 0, first.out + first.err
    assert first.out == alone.out
    # The text comes first: then what is checked, measured and packed.
    places = [
        first.err.index("unchecked: this model is not checked yet; the check follows"),
        first.err.index(f"{MODEL}@x86_64: 27 tokens"),
        first.err.index(f"] check:{MODEL}@x86_64: "),
        first.err.index(f"] bundle:{MODEL}@x86_64: "),
    ]
    assert places == sorted(places)
    again = project.doit(*words)
    assert (again.code, again.out) == (0, first.out)
    # 6 tokens of the prompt fill a context of 32 with 26, and one more comes out.
    note, told, _, speed, seed = again.err.splitlines()
    assert note == "note: the context is full: it has 32 tokens"
    assert told == (
        f"{MODEL}@x86_64: 27 tokens after 6 of the prompt; the context is full;"
        " synthetic weights"
    )
    assert speed.startswith("  prefill ")
    assert seed == "  to repeat: seed=4"
    # It has no golden file: its golden input is prompts with the oracle's logits.
    verified = project.doit("verify", f"bundle=build/{MODEL}/x86_64/bundle")
    assert verified.code == 0, verified.err
    assert "correct: 2 prompts of the oracle on local-task: best tokens" in verified.out


@pytest.mark.slow
def test_its_bundle_writes_the_same_without_ingot(
    project: Project, tmp_path: Path
) -> None:
    site = python_with(tmp_path, (*NEEDED, *TEXTS))
    script = project.root / f"build/{MODEL}/x86_64/bundle/run.py"
    for own, words in (
        (("prompt=Hello",), ("--text=Hello",)),
        (("ids=256,72,105", "--ids"), ("--ids=256,72,105",)),
    ):
        wrote = project.doit(*WORDS, "tokens=24", *own)
        assert wrote.code == 0, wrote.err
        ran = run_script(site, script, "--tokens=24", *words)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout == wrote.out


@pytest.mark.slow
def test_a_text_is_not_to_be_trusted_if_the_check_behind_it_fails(
    project: Project,
) -> None:
    # The artifacts stay as they are; what they are compared with is wrong.
    oracle = project.root / "oracles/elementwise.py"
    edit(oracle, "return a.astype(np.float64) + b", "return a.astype(np.float64) - b")
    run = project.doit(*WORDS, "prompt=Hello", "tokens=4")
    assert (run.code, bool(run.out)) == (1, True)
    first, *_, last = (
        line for line in run.err.splitlines() if re.search("unchecked|trust", line)
    )
    assert first == "unchecked: this model is not checked yet; the check follows"
    assert last == ("do not trust the text above: it is of a model whose build failed")
