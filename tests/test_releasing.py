"""Walk docs/releasing.md: from keys to a signed release to a customer's machine.

The registry is Debian's, on loopback. The customer's machine has the wheel of
`ingot-verify` with the packages that it requires, and neither doit nor the compiler.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.installed_packages import link, required
from tests.project import Project
from tests.registry_server import docker_registry
from tests.source_tree import ROOT, closure, text

PAGE = "docs/releasing.md"
PLACE = "oci://127.0.0.1:5000/models/toy-moe"
VERIFIER = "distributions/ingot-verify/pyproject.toml"


@dataclass(frozen=True)
class Customer:
    """A folder with the customer's files, and the environment of `ingot-verify`."""

    folder: Path
    environment: Path

    def run(
        self, *words: str, path: str = "/usr/bin:/bin"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.environment / "bin" / words[0], *words[1:]],
            cwd=self.folder,
            env={"PATH": path, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(folder),
    ]
    source = (ROOT / VERIFIER).parent
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def customer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Customer:
    folder = tmp_path_factory.mktemp("customer")
    environment = folder / "venv"
    python = [sys.executable, "-m"]
    subprocess.run([*python, "venv", "--without-pip", str(environment)], check=True)
    version = "{}.{}".format(*sys.version_info)
    site = environment / f"lib/python{version}/site-packages"
    needs = (Requirement(item).name for item in declared()["dependencies"])
    for name in {other: None for need in needs for other in required(need, {})}:
        link(name, site)
    pip = [*python, "pip", "--python", str(environment / "bin/python"), "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    (folder / "files").mkdir()
    return Customer(folder / "files", environment)


def declared(name: str = VERIFIER) -> dict[str, list[str]]:
    project: dict[str, list[str]] = tomllib.loads(text(name))["project"]
    return project


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text(PAGE), re.DOTALL)


def commands(program: str) -> list[list[str]]:
    lines = "".join(blocks("sh")).splitlines()
    return [line.split() for line in lines if line.split()[0] == program]


@pytest.fixture(scope="module")
def walked(
    customer: Customer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, str]]:
    """The publisher's checkout after all of the page's commands."""
    folder = tmp_path_factory.mktemp("publisher")
    project = Project.create(folder / "checkout", models=("toy-moe",))
    (policy,) = blocks("yaml")
    (project.root / "policy.yaml").write_text(policy)
    with docker_registry(folder / "registry") as address:
        place = address.replace("models/tiny", "models/toy-moe")
        after: list[list[str]] = []
        for _, *words in commands("doit"):
            given = [word.replace(PLACE, place) for word in words]
            if given[0] in ("pull", "verify"):
                after.append(given)
                continue
            ran = project.doit(*given)
            assert ran.code == 0, ran.out + ran.err
        (customer.folder / "keys").mkdir()
        for name in ("policy.yaml", "keys/release.pub"):
            shutil.copy(project.root / name, customer.folder / name)
        for given in after:
            ran = project.doit(*given)
            assert ran.code == 0, ran.out + ran.err
        yield project, place


@pytest.mark.registry
def test_the_page_leads_from_keys_to_a_customers_machine(
    walked: tuple[Project, str], customer: Customer
) -> None:
    project, place = walked
    ((program, *words),) = commands("ingot-verify")
    given = [word.replace(PLACE, place) for word in words]
    ran = customer.run(program, *given)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "version 1.4.0, signed by the release team" in ran.stdout
    assert "as the policy demands" in ran.stdout
    assert "loads: iree-base-runtime" in ran.stdout
    built = project.root / "build/toy-moe/x86_64/bundle"
    names = {path.name for path in built.iterdir()}
    assert {path.name for path in (customer.folder / "toy-moe").iterdir()} == names
    for name in names:
        fetched = customer.folder / "toy-moe" / name
        assert fetched.read_bytes() == (built / name).read_bytes()
    assert {path.name for path in (customer.folder / "toy-moe.evidence").iterdir()} == {
        "bom.cdx.json",
        "model.sig",
        "provenance.dsse.json",
        "test-result.dsse.json",
    }


@pytest.mark.registry
def test_without_bubblewrap_nothing_is_run_and_the_exit_code_is_not_0(
    walked: tuple[Project, str], customer: Customer
) -> None:
    _, place = walked
    words = (f"bundle={place}:1.4.0", "target=x86_64", "key=keys/release.pub", "to=x")
    ran = customer.run("ingot-verify", *words, path="/nonexistent")
    assert ran.returncode == 1
    assert "signed by release.pub" in ran.stdout
    assert "  not run: there is no sandbox here" in ran.stdout
    assert not list(customer.folder.glob("x*"))
    ran = customer.run("ingot-verify", *words, "run=no", path="/nonexistent")
    assert ran.returncode == 0, ran.stderr
    assert (customer.folder / "x/model.vmfb").is_file()


@pytest.mark.registry
def test_a_customer_rejects_what_the_policy_does_not_allow(
    walked: tuple[Project, str], customer: Customer
) -> None:
    _, place = walked
    policy = (customer.folder / "policy.yaml").read_text()
    newer = policy.replace("minimum_version: 1.4.0", "minimum_version: 1.5.0")
    (customer.folder / "newer.yaml").write_text(newer)
    words = (f"bundle={place}:release", "target=x86_64", "policy=newer.yaml", "to=y")
    ran = customer.run("ingot-verify", *words)
    assert ran.returncode == 1
    assert "minimum_version: expected 1.5.0 or newer, found 1.4.0" in ran.stderr
    assert not list(customer.folder.glob("y*"))


@pytest.mark.registry
def test_releasing_again_moves_no_blob_and_signs_nothing(
    walked: tuple[Project, str],
) -> None:
    project, place = walked
    words = ("model=toy-moe", "target=x86_64", "version=1.4.0", f"to={place}")
    ran = project.doit("release", *words, "key=keys/release.key")
    assert ran.code == 0, ran.err
    assert "  sent: nothing, for all of it is there\n  signed already: key" in ran.out


def test_the_wheel_has_what_the_verifier_imports_and_no_more_rooms(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert closure("ingot/cli/verifier.py", nested=True) <= names
    rooms = {name.split("/")[1] for name in names if name.startswith("ingot/")}
    assert not rooms & {"programs", "stages", "project", "imports", "report"}
    own = {name for name in names if name.startswith("ingot/cli/")}
    assert own == {"ingot/cli/__init__.py", "ingot/cli/verifier.py"}


def test_the_verifier_is_pinned_as_ingot_is() -> None:
    own, other = declared(), declared("pyproject.toml")
    assert own["version"] == other["version"]
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    pinned = {*other["dependencies"], *extras["signing"]}
    assert set(own["dependencies"]) <= pinned


def test_the_wrong_words_of_the_verifier_are_errors(customer: Customer) -> None:
    for words, message in (
        ((), "usage: ingot-verify bundle="),
        (("bundel=x",), "bundel: no such variable\n  did you mean 'bundle'?"),
        (("bundle=x", "run=maybe"), "run=: expected yes or no, found 'maybe'"),
        (("bundle=nothing",), "nothing: no such bundle"),
    ):
        ran = customer.run("ingot-verify", *words)
        assert ran.returncode in (1, 3)
        assert message in ran.stderr
