"""Test doit's own commands: `info` knows ingot's tasks, others are rejected."""

from __future__ import annotations

import pytest
from doit.doit_cmd import DoitMain

from tests.project import ROOT, TOY, Project, builds

pytestmark = builds(TOY)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout in which nothing is built, of the toy model and another."""
    folder = tmp_path_factory.mktemp("instead")
    made = Project.create(folder / "checkout")
    text = (made.root / "models/toy.yaml").read_text("utf-8")
    other = text.replace("model: toy\n", "model: other\n")
    (made.root / "models/other.yaml").write_text(other, "utf-8")
    return made


def test_info_knows_the_tasks_of_every_model(project: Project) -> None:
    ran = project.doit("info", "bundle:other@x86_64")
    assert (ran.code, ran.err) == (0, "")
    words = ran.out.split()
    assert words[0] == "bundle:other@x86_64"
    assert "check:other@x86_64" in words


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("check:other@x86-64", "did you mean 'check:other@x86_64'?"),
        (
            "nonsense",
            "a task is STAGE:MODEL@TARGET, or a pattern: 'check:*@x86_64'; run: doit"
            " list",
        ),
    ],
)
def test_info_reports_an_unknown_task_like_a_build(
    project: Project, word: str, hint: str
) -> None:
    told = f"ERROR: no task named '{word}'\n  {hint}\n"
    asked, built = project.doit("info", word), project.doit(word)
    assert (asked.code, asked.out, asked.err) == (3, "", told)
    assert (built.code, built.err) == (3, told)


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (
            ["clean"],
            "`rm -r build` removes the build outputs, `doit gc` old results",
        ),
        (
            ["forget", "-a"],
            "`INGOT_CACHE=FOLDER doit ...` runs everything again, with another store",
        ),
        (
            ["ignore", "build"],
            "`doit STAGE`, such as `doit check`, stops at that stage",
        ),
        (["reset-dep"], "`doit why` shows what would run, and which input changed"),
        (["dumpdb"], "`doit report` shows the builds, `doit why` what changed since"),
        (
            ["strace", "build"],
            "an action sees only declared inputs; its failure names missing ones",
        ),
    ],
)
def test_an_unsupported_command_names_the_one_to_use(
    words: list[str],
    instead: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert DoitMain().run(words) == 3
    assert capsys.readouterr().err == (
        f"ERROR: doit {words[0]} has no effect here: ingot keeps its own records\n"
        f"  {instead}\n"
    )


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["list", "check"], "doit list"),
        (["doctor", "now"], "doit doctor"),
        (["report", "toy"], "doit report"),
        (
            ["import", "folder"],
            "doit import source=PATH [model=NAME] [licence=SPDX-ID] [n_ctx=N] "
            "[stored=TYPE] [ignore=KEY,...]",
        ),
    ],
)
def test_a_task_for_a_command_that_takes_none_is_rejected(
    words: list[str],
    usage: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert DoitMain().run(words) == 3
    command, task = words
    assert capsys.readouterr().err == (
        f"ERROR: {command} takes no task, found '{task}'\n  usage: {usage}\n"
    )
