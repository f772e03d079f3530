"""Test shared caches on the command line: settings, messages and errors."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot import dsse
from tests.cache_server import CacheServer, serving
from tests.dask_cluster import dask_cluster, until
from tests.execution_server import running_actions
from tests.project import ROOT, TOY, Project, Run, builds, edit

WRITE = {"INGOT_SHARED_CACHE_MODE": "read-write"}

pytestmark = [pytest.mark.slow, builds(TOY)]


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


def test_a_second_machine_fetches_and_ends_with_the_same_bytes(
    server: CacheServer, tmp_path: Path
) -> None:
    machines = []
    for name in ("a", "b"):
        project = Project.create(tmp_path / name, tmp_path / f"{name}-cache")
        edit(
            project.root / "pyproject.toml",
            "[tool.ingot]\n",
            f'[tool.ingot]\nshared-cache = "{server.url}"\n'
            'shared-cache-mode = "read-write"\n',
        )
        machines.append(project)
    first, second = (each.doit("link") for each in machines)
    assert first.code == second.code == 0, first.err + second.err
    assert set(first.done.values()) == {"ran"}
    assert set(second.done.values()) == {"fetched"}
    assert " fetched; " in second.out.splitlines()[-1]
    assert linked(machines[0]) == linked(machines[1]) != []


def test_a_project_that_trusts_a_key_uses_only_what_it_signed(
    server: CacheServer, tmp_path: Path
) -> None:
    ci, other = (dsse.generate("ed25519") for _ in range(2))
    made = Project.create(tmp_path / "a", tmp_path / "a-cache")
    edit(
        made.root / "pyproject.toml",
        "[tool.ingot]\n",
        f'[tool.ingot]\nshared-cache = "{server.url}"\ntrust = "signed"\n'
        f'keys.ci = {{public-key = "{ci.public.text}", expires = 2199-01-01}}\n',
    )
    task = "specialize:add__n_embd_32"

    def build(private: dsse.PrivateKey | None, store: str, *words: str) -> Run:
        (tmp_path / "key").write_bytes(private.pem if private else b"")
        signed = {"INGOT_SIGNING_KEY": str(tmp_path / "key"), **WRITE}
        variables = signed if private else {}
        shutil.rmtree(made.root / "build", ignore_errors=True)
        return Project(made.root, tmp_path / store, variables).doit(*words, task)

    assert build(other, "one").done == {task: "ran"}
    untrusted = build(None, "two")
    assert untrusted.done == {task: "ran"}
    assert untrusted.err == (
        "trust: 1 result of others was passed over: 1 signed by an unknown key,"
        f" {other.public.key_id[:12]}\n"
    )
    why = build(None, "three", "why")
    assert f"{task} would run" in why.out
    assert why.err.count("trust: ") == 1
    assert build(ci, "four").done == {task: "ran"}
    trusted = build(None, "five")
    assert (trusted.done, trusted.err) == ({task: "fetched"}, "")


def test_why_shows_the_builds_of_another_machine(
    server: CacheServer, tmp_path: Path
) -> None:
    task, source = "specialize:add__n_embd_32", "components/elementwise/add.mlir"
    first, second = (
        Project(made.root, made.cache, {"INGOT_SHARED_CACHE": server.url, **WRITE})
        for name in "ab"
        for made in [Project.create(tmp_path / name, tmp_path / f"{name}-cache")]
    )
    assert first.doit(task).done == {task: "ran"}
    run = second.doit("why", task)
    assert run.out.startswith(f"{task} would be fetched: the shared cache has"), run.err
    edit(second.root / source, "arith.addf", "arith.mulf")
    lines = second.doit("why", task).out.splitlines()
    assert "against its last build elsewhere, " in lines[2]
    assert re.fullmatch(rf"  input {source}: \w{{12}} -> \w{{12}}", lines[3])
    assert len(lines) == 4


def test_a_cache_that_is_down_is_reported_once_and_the_build_succeeds(
    tmp_path: Path,
) -> None:
    variables = {"INGOT_SHARED_CACHE": "http://me:s3cret@127.0.0.1:9"}
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    run = Project(project.root, project.cache, variables).doit("specialize")
    assert run.code == 0, run.err
    assert run.err.count("shared cache http://127.0.0.1:9: no connection") == 1
    assert "s3cret" not in run.out + run.err


def test_a_cache_is_only_read_if_nothing_says_that_it_is_written(
    server: CacheServer, tmp_path: Path
) -> None:
    variables = {"INGOT_SHARED_CACHE": server.url}
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    run = Project(project.root, project.cache, variables).doit("specialize")
    assert run.code == 0, run.err
    assert server.asked["GET"] > 0
    assert server.asked["PUT"] == 0


@pytest.mark.parametrize(
    ("variables", "setting", "message"),
    [
        (
            {"INGOT_SHARED_CACHE": "htp://cache"},
            "",
            "shared cache: no protocol named 'htp'; expected SCHEME://LOCATION\n"
            "  did you mean 'http'?",
        ),
        (
            {"INGOT_SHARED_CACHE": "file:///c", "INGOT_SHARED_CACHE_MODE": "write"},
            "",
            "shared cache: mode is 'write'; expected read or read-write",
        ),
        (
            {"INGOT_SHARED_CACHE_MODE": "rw"},
            "",
            "shared cache: mode is 'rw'; expected read or read-write",
        ),
        (
            {},
            'shared-cache = "https://me:s3cret@cache.example"',
            "pyproject.toml: tool.ingot.shared-cache: names a user; expected none\n"
            "  put it into ~/.netrc, INGOT_SHARED_CACHE or INGOT_SHARED_CACHE_TOKEN",
        ),
    ],
    ids=["protocol", "mode", "mode alone", "password in a file"],
)
def test_a_wrong_setting_is_rejected(
    tmp_path: Path, variables: dict[str, str], setting: str, message: str
) -> None:
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    edit(
        project.root / "pyproject.toml", "[tool.ingot]\n", f"[tool.ingot]\n{setting}\n"
    )
    run = Project(project.root, project.cache, variables).doit("specialize")
    assert run.code == 3
    assert message in run.err
    assert "s3cret" not in run.out + run.err


@pytest.mark.parametrize(
    ("executor", "shared", "message"),
    [
        (
            "desk://127.0.0.1:8786",
            "",
            "executor=desk://127.0.0.1:8786: no executor named 'desk';"
            " expected local, dask://HOST:PORT or grpc://HOST:PORT/INSTANCE\n"
            "  did you mean 'dask'?",
        ),
        (
            "dask://127.0.0.1:8786",
            "",
            "executor=dask://127.0.0.1:8786: workers exchange inputs and results"
            " through a shared cache, and none is set\n"
            "  set INGOT_SHARED_CACHE, or shared-cache in pyproject.toml",
        ),
        (
            "dask://127.0.0.1:9",
            "file:///nowhere",
            "executor=dask://127.0.0.1:9: workers get inputs from the shared cache, and"
            " this machine only reads it\n"
            "  set INGOT_SHARED_CACHE_MODE=read-write, or shared-cache-mode ="
            ' "read-write" in pyproject.toml',
        ),
        (
            "dask://127.0.0.1:9",
            "file:///nowhere read-write",
            "executor=dask://127.0.0.1:9: no scheduler responds there\n"
            "  start one: doit cluster",
        ),
        (
            "grpc://127.0.0.1:9/main?pool=x",
            "",
            "executor=grpc://127.0.0.1:9/main: nothing can be run there: no connection"
            "\n  docs/sharing.md lists what it needs; a password comes from ~/.netrc or"
            " INGOT_SHARED_CACHE_TOKEN",
        ),
        (
            "grpc://me:s3cret@127.0.0.1:9",
            "",
            "executor=grpc: not a server's address;"
            " expected grpc://HOST:PORT/INSTANCE?PROPERTY=VALUE&...\n"
            "  a password comes from ~/.netrc or INGOT_SHARED_CACHE_TOKEN",
        ),
    ],
    ids=[
        "misspelt",
        "no shared cache",
        "only read",
        "no scheduler",
        "no server",
        "password",
    ],
)
def test_a_wrong_executor_is_rejected(
    tmp_path: Path, executor: str, shared: str, message: str
) -> None:
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    address, _, mode = shared.partition(" ")
    variables = {"INGOT_SHARED_CACHE": address, "INGOT_SHARED_CACHE_MODE": mode}
    words = ("specialize", f"executor={executor}")
    run = Project(project.root, project.cache, variables).doit(*words)
    assert run.code == 3
    assert message in run.err
    assert "s3cret" not in run.out + run.err


@pytest.mark.parametrize(
    ("token", "runs", "reason"),
    [("", True, "authentication failed"), ("right", False, "it is a cache without")],
    ids=["no password", "a cache"],
)
def test_a_server_without_execution_is_rejected(
    tmp_path: Path, token: str, runs: bool, reason: str
) -> None:
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    with running_actions() as remote:
        remote.password, remote.runs_actions = "Bearer right", runs
        variables = {"INGOT_SHARED_CACHE_TOKEN": token}
        words = ("specialize", f"executor={remote.address}")
        run = Project(project.root, project.cache, variables).doit(*words)
    assert run.code == 3
    told = f"executor={remote.address}: nothing can be run there: {reason}"
    assert told in run.err
    assert "Traceback" not in run.err


def test_ctrl_c_leaves_nothing_queued_on_a_server(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "a", tmp_path / "cache")
    with running_actions() as remote:
        remote.fault = "takes none"
        process = project.start("specialize", f"executor={remote.address}")
        until(lambda: len(remote.properties) > 3, 120)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130, out + err
        assert "stopped; finished actions are cached" in err
        assert "Traceback" not in err
        assert sorted(remote.cancelled) == sorted(remote.operations)


def test_workers_and_this_machine_link_the_same_bytes(tmp_path: Path) -> None:
    made = {
        name: Project.create(tmp_path / name, tmp_path / f"{name}-cache")
        for name in ("alone", "dask", "served")
    }
    with dask_cluster(tmp_path / "cluster") as running, running_actions() as remote:
        runs = {
            "alone": made["alone"].doit("link"),
            "dask": Project(
                made["dask"].root,
                made["dask"].cache,
                {"INGOT_SHARED_CACHE": running.shared_cache, **WRITE},
            ).doit("link", f"executor={running.address}"),
            "served": made["served"].doit("link", f"executor={remote.address}"),
        }
    for run in runs.values():
        assert run.code == 0, run.out + run.err
        assert set(run.done.values()) == {"ran"}
    modules = {name: linked(project) for name, project in made.items()}
    assert modules["alone"] == modules["dask"] == modules["served"] != []
    # Whoever runs them, actions have the same keys.
    assert len({keys(project) for project in made.values()}) == 1


def keys(project: Project) -> frozenset[str]:
    """The keys of all results in a project's store."""
    return frozenset(p.name for p in (project.cache / "ac").rglob("*") if p.is_file())


def linked(project: Project) -> list[bytes]:
    """The linked modules of a project."""
    found = (project.root / "build/toy").rglob("linked.mlir")
    return [path.read_bytes() for path in sorted(found)]


def test_without_a_shared_cache_none_of_its_modules_is_imported() -> None:
    program = (
        "import sys; from pathlib import Path; from ingot.cli import build_command;"
        "from ingot.project.catalogue import read;"
        "settings = read(Path.cwd()).settings;"
        "assert build_command.open_cache(settings, None, 'local', None) is None;"
        "assert build_command.open_workers('local', None, None) is None;"
        "print([m for m in sys.modules if 'shared' in m or m in"
        " ('urllib3', 'grpc', 'obstore', 'distributed')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
