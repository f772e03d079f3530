"""Copy the checkout to build in, and change the copy as a user would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ingot",
    "models/architectures",
    "models/golden",
    "models/licences",
    "models/tokenizers",
    "oracles",
    "targets",
)
TOY, DEFAULT = "toy", "all-minilm-l6-v2"
LINE = re.compile(r"^\[\d+/\d+\] (\S+): (ran|restored|fetched|FAILED)", re.MULTILINE)


def manifest_of(model: str) -> Path:
    """Return the manifest of a model: the toy's is among the tests."""
    return ROOT / ("tests/data/toy.yaml" if model == TOY else f"models/{model}.yaml")


def components_named(*paths: Path) -> set[str]:
    """Return the components that files of a checkout name, as paths."""
    words = re.findall(r"[a-z0-9_]+/[a-z0-9_]+", " ".join(map(Path.read_text, paths)))
    names = {f"components/{word}.mlir" for word in words}
    return {name for name in names if (ROOT / name).is_file()}


def components_of(*models: str) -> set[str]:
    """Return the components that a checkout of models has, as paths.

    These are those of their architectures, and all that a layout may put in place.
    """
    files, pending = (
        set(ROOT.glob("targets/layouts/*.yaml")),
        [*map(manifest_of, models)],
    )
    while pending:
        files.add(path := pending.pop())
        names = re.findall(r"^(?:architecture|extends): (\S+)", path.read_text(), re.M)
        others = {ROOT / f"models/architectures/{name}.yaml" for name in names}
        pending += others - files
    return components_named(*files)


def copy_components(root: Path, *paths: Path) -> None:
    """Copy the components that files name into a checkout."""
    for name in components_named(*paths):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)


def builds(*models: str) -> pytest.MarkDecorator:
    """Mark tests that build models in a checkout: they depend on all that it has."""

    def files(**_: object) -> set[str]:
        paths = {str(manifest_of(model).relative_to(ROOT)) for model in models}
        package = (path for path in ROOT.glob("ingot/**/*.*") if path.is_file())
        # Code counts without its comments.
        data = (path for path in package if path.suffix not in (".py", ".pyc"))
        paths |= {str(path.relative_to(ROOT)) for path in data}
        return paths | components_of(*models)

    return pytest.mark.reads(
        "pyproject.toml",
        "models/*/*",
        "targets/**/*.*",
        files=files,
        code=("dodo.py", "ingot/**/*.py", "oracles/*.py"),
    )


def one_model(root: Path) -> Path:
    """Copy what a checkout of `toy-moe` alone is read from; return the folder."""
    models = ("models/architectures", "models/licences")
    for part in ("targets", "components", "oracles", *models):
        shutil.copytree(ROOT / part, root / part)
    for part in ("pyproject.toml", "models/toy-moe.yaml"):
        shutil.copy(ROOT / part, root / part)
    return root


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def done(self) -> dict[str, str]:
        """Task: "ran", "restored", "fetched" or "FAILED"; none that is up to date."""
        return dict(LINE.findall(self.out))

    @property
    def stages(self) -> set[str]:
        """The stages of which an action ran."""
        return {
            task.partition(":")[0] for task, how in self.done.items() if how == "ran"
        }


@dataclass(frozen=True)
class Project:
    """A checkout with some models, and the store that it uses."""

    root: Path
    cache: Path
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls, root: Path, cache: Path | None = None, models: tuple[str, ...] = (TOY,)
    ) -> Project:
        """Copy the checkout's sources, of models and components what these models need.

        Without a `cache` it uses the store of the test run, which may hold results of
        earlier tests and runs: a test that counts what runs needs a store of its own.
        """
        cache = cache or Path(os.environ["INGOT_CACHE"])
        root.mkdir(parents=True)
        generated = shutil.ignore_patterns("__pycache__")
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, root / folder, ignore=generated)
        files = {name: ROOT / name for name in components_of(*models)}
        files |= {f"models/{model}.yaml": manifest_of(model) for model in models}
        for name, path in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / name)
        for name in ("dodo.py", "pyproject.toml"):
            shutil.copy(ROOT / name, root / name)
        default = "default-model = "
        edit(
            root / "pyproject.toml", f'{default}"{DEFAULT}"', f'{default}"{models[0]}"'
        )
        return cls(root, cache)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `doit` with these words."""
        env = {**os.environ, "INGOT_CACHE": str(self.cache), **self.env}
        return subprocess.Popen(
            [sys.executable, "-m", "ingot.cli.main", *words],
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # What a shell starts in the background ignores it; the tests are such a
            # thing where CI starts them so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def doit(self, *words: str) -> Run:
        """Run `doit` with these words to its end."""
        process = self.start(*words)
        out, err = process.communicate(timeout=900)
        return Run(process.returncode, out, err)

    def build(self, *words: str) -> Run:
        """Run `doit build` and expect it to succeed."""
        run = self.doit("build", *words)
        assert run.code == 0, run.out + run.err
        return run

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill doit alone, as the kernel would; its children must follow."""
        process.send_signal(signal.SIGKILL)
        process.communicate()


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def skipped(unrunnable: Mapping[str, str], target: str) -> list[pytest.MarkDecorator]:
    """What marks a test of a target that this processor cannot run, with the reason."""
    reason = unrunnable.get(target)
    return [pytest.mark.skip(reason=reason)] if reason else []


def with_architecture(name: str, folder: Path) -> Path:
    """Put a model of tests/data into a folder; return its manifest."""
    for part in ("components", "oracles", "models/licences"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "models/architectures").mkdir()
    data, path = ROOT / f"tests/data/{name}", f"models/architectures/{name}.yaml"
    shutil.copy(data / "architecture.yaml", folder / path)
    return Path(shutil.copy(data / "model.yaml", folder / f"models/{name}.yaml"))
