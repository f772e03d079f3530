"""Test the conventions of the repository that a program can check."""

from __future__ import annotations

import graphlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.cli.variables import VARIABLES
from ingot.stages import program
from tests import source_tree as tree
from tests.source_tree import ROOT

# Rooms of `ingot`, lowest first: a room imports those before it in this list. A module
# of the package itself is a room too.
ROOMS = (
    "errors",
    "codec",
    "dsse",
    "engine",
    "engine.cache",
    "engine.remote",
    "weights",
    "model",
    "emit",
    "runtime",
    "checks",
    "bundles",
    "release",
    "programs",
    "stages",
    "project",
    "imports",
    "report",
    "inspection",
    "ablation",
    "cli",
)
# Slow to import: only inside functions, so that `doit list` answers at once.
HEAVY = (
    "gguf",
    "iree",
    "ml_dtypes",
    "numpy",
    "onnxruntime",
    "packaging",
    "rich",
    "torch",
    "transformers",
)
# Scripts that bundles have in them, for machines without ingot.
SHIPPED = "ingot/bundles/shipped/"
HEADER = ("Source", "Exports", "Imports", "Dims", "Types", "Oracle", "Try")

COMPONENTS = [name for name in tree.files() if re.match(r"components/.*\.mlir$", name)]
PROGRAMS = sorted(
    name.split("/")[2]
    for name in tree.python_files("ingot")
    if re.fullmatch(r"ingot/programs/\w+/main\.py", name)
)
# All stages share it, and `plan` puts them in order.
SHARED = "ingot.stages.program"
STAGES = [
    name
    for name in tree.python_files("ingot")
    if re.match(r"ingot/stages/(?!plan\.)\w+\.py", name)
]


def none(wrong: list[str]) -> None:
    """Fail with every complaint on its own line."""
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def room(module: str) -> str:
    """The room of a module of `ingot`; nothing for the package itself."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in ROOMS else "".join(parts[:1])


def modules() -> dict[str, set[str]]:
    """Each module of `ingot`, and those that it imports anywhere in it."""
    found = {}
    for name in tree.python_files("ingot"):
        module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        found[module] = {
            item.module
            for item in tree.imports(name)
            if item.module.partition(".")[0] == "ingot"
        }
    return found


def test_no_room_imports_one_above_it() -> None:
    wrong = []
    for module, imported in modules().items():
        own = room(module)
        if own not in ROOMS and own:
            wrong.append(f"{module}: ROOMS has no place for '{own}'")
            continue
        for other in sorted(imported):
            there = room(other)
            if own and there and ROOMS.index(there) > ROOMS.index(own):
                wrong.append(f"{module} imports {other}, of the room above '{own}'")
    none(wrong)


def test_no_two_modules_have_one_name() -> None:
    # A program's package stands for the program: each has a `main` and a `spec`.
    names = [
        Path(name).stem
        for name in tree.python_files("ingot")
        if not name.endswith("__init__.py") and not name.startswith("ingot/programs/")
    ]
    none(sorted({name for name in names if names.count(name) > 1}))


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = graphlib.TopologicalSorter(modules())
    try:
        graph.prepare()
    except graphlib.CycleError as error:
        none([" -> ".join(error.args[1])])


def test_no_stage_imports_a_stage() -> None:
    wrong = [
        str(item)
        for name in STAGES
        for item in tree.imports(name)
        if item.module.startswith("ingot.stages.") and item.module != SHARED
    ]
    none(wrong)


def test_heavy_packages_are_imported_inside_functions() -> None:
    wrong = [
        str(item)
        for name in (*tree.python_files("ingot"), "dodo.py")
        for item in tree.imports(name)
        if not item.nested
        and item.module.partition(".")[0] in HEAVY
        and not name.startswith(SHIPPED)
    ]
    none(wrong)


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("subprocess", ("ingot/engine/process.py",)),
        ("doit", ("dodo.py", "ingot/cli/")),
        ("yaml", ("ingot/model/yaml_nodes.py",)),
    ],
)
def test_only_its_own_place_imports(package: str, allowed: tuple[str, ...]) -> None:
    wrong = [
        str(item)
        for name in (*tree.python_files("ingot", "oracles"), "dodo.py")
        for item in tree.imports(name)
        if item.module.partition(".")[0] == package and not name.startswith(allowed)
    ]
    none(wrong)


def test_oracles_import_numpy_and_nothing_of_the_project() -> None:
    free = {"numpy", "oracles", *sys.stdlib_module_names}
    wrong = [
        str(item)
        for name in tree.python_files("oracles")
        for item in tree.imports(name)
        if item.module.partition(".")[0] not in free
    ]
    none(wrong)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_given_what_it_imports_and_no_more(name: str) -> None:
    given = set(program.sources(name))
    assert given == tree.closure(f"ingot/programs/{name}/main.py", nested=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_starts_with_the_sources_that_it_is_given(
    name: str, tmp_path: Path
) -> None:
    for path in program.sources(name):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    for module in program.sources(name):
        # Each of them, whoever imports it and when.
        words = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        importlib.import_module(words)
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import ingot.programs.{name}.main"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def header_defects(name: str) -> list[str]:
    """Return what a component's header lacks, beyond what every reader of it needs."""
    lines = tree.text(name).splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    header = lines[:end]
    found = [m[1] for line in header if (m := re.match(r"// ([A-Z][a-z]+): +\S", line))]
    wanted = {
        "a sentence with its name": re.match(
            rf"// {Path(name).stem}: \S.*\.$", header[0]
        ),
        "an empty line below it": header[1] == "//",
        "a formula": any(line.startswith("//   ") for line in header),
        f"the labels {', '.join(HEADER)}": found == list(HEADER),
        "a command to try": f"// Try:     iree-opt {name}" in header,
    }
    return [f"{name}: expected {words}" for words, found in wanted.items() if not found]


def test_component_headers_have_their_parts_in_order() -> None:
    none([defect for name in COMPONENTS for defect in header_defects(name)])


def test_readme_tables_say_what_the_project_has_in_its_folders() -> None:
    for heading, folder in (("model", "models"), ("target", "targets")):
        told = [tree.code_words(row[0])[0] for row in tree.table("README.md", heading)]
        # The README does not list files that users add.
        files = tree.tracked(f"{folder}/*.yaml")
        assert sorted(told) == sorted(Path(name).stem for name in files)
    told = [row[0].strip("`") for row in tree.table("README.md", "family")]
    families = {name.split("/")[1] for name in tree.tracked("components/*/*.mlir")}
    assert sorted(told) == sorted(families)


def test_a_users_own_files_are_none_of_the_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("ours", "own"):
        (tmp_path / f"models/{name}.yaml").touch()
    # An unpacked archive of the project says no more.
    assert tree.tracked("models/*.yaml") == ["models/ours.yaml", "models/own.yaml"]
    for words in (("init", "-q"), ("add", "models/ours.yaml")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert tree.tracked("models/*.yaml") == ["models/ours.yaml"]


def documents() -> list[str]:
    return [name for name in tree.files() if name.endswith(".md")]


@pytest.mark.parametrize("name", documents())
def test_links_lead_to_files(name: str) -> None:
    folder = (ROOT / name).parent
    prose = re.sub(r"```.*?```", "", tree.text(name), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    broken = [
        link
        for link in links
        if not re.match(r"[a-z]+:", link) and not (folder / link).exists()
    ]
    none(broken)


@pytest.mark.parametrize("name", documents())
def test_every_documented_command_exists(name: str) -> None:
    dodo = tree.text("dodo.py")
    commands = set(re.findall(r"^def task_(\w+)", dodo, re.MULTILINE))
    plugins = tree.text("pyproject.toml").partition("[tool.doit.plugins.command]")[2]
    commands |= set(re.findall(r"^(\w+) =", plugins.partition("\n[")[0], re.MULTILINE))
    for line in command_lines(tree.text(name)):
        words = line.removeprefix("./bootstrap ").split()
        if words[0] == "./bootstrap" or "--help" in words:
            continue
        if words[0] not in ("doit", "ingot"):
            assert shutil.which(words[0]) or (ROOT / words[0]).exists(), line
            continue
        plain = [word for word in words[1:] if not word.startswith("-")]
        assert plain, line
        assert plain[0].partition(":")[0] in commands, line
        for word in plain[1:]:
            if "=" in word:
                assert word.partition("=")[0] in VARIABLES, line


def command_lines(markdown: str) -> list[str]:
    """Lines of shell blocks, without comments and assignments before the command."""
    blocks = re.findall(r"```(?:sh|shell|console)\n(.*?)```", markdown, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    plain = [re.sub(r"\s+#.*|^#.*|^\$ |^(\w+=\S+ )+", "", line) for line in lines]
    starts = ("doit ", "ingot ", "./bootstrap")
    return [line for line in plain if line.startswith(starts)]


def test_no_file_has_unfinished_work_or_a_machine_path() -> None:
    unfinished = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    places = "|".join(("/work" + "/", "/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/"))
    pattern = re.compile(rf"\b(?:{unfinished})\b|(?<![\w.])(?:{places})")
    wrong = []
    for name in tree.files():
        data = (ROOT / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if pattern.search(line):
                wrong.append(f"{name}:{number}: {line.strip()}")
    none(wrong)


@pytest.mark.parametrize(
    "words",
    [("ruff", "format", "--check", "--diff"), ("ruff", "check"), ("mypy",)],
    ids=["format", "lint", "types"],
)
def test_the_tools_find_nothing(words: tuple[str, ...]) -> None:
    env = dict(os.environ)
    if "INGOT_TEST_STORE" in env:
        # A new clone then checks the files again that differ, and those only.
        env["MYPY_CACHE_DIR"] = f"{env['INGOT_TEST_STORE']}/mypy"
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
