"""Test that actions see only declared files, and that failures name the others."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import missing_inputs, network, run_action, sandbox, toolchain
from ingot.engine.actions import Action, InlineText, Limits, Output, Source, SourceFile
from ingot.engine.run_action import ActionFailed
from tests.checkout import Checkout
from tests.dask_cluster import processes, until

pytestmark = pytest.mark.skipif(
    sandbox.kind() == "none", reason="no sandbox; run: apt-get install bubblewrap"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a", tmp_path / "cache")


def shell(script: str, tools: tuple[str, ...] = ()) -> Action:
    return Action("probe:x", ("sh", "-c", script), (), ("out.txt",), tools)


def python(program: str, *tools: str) -> Action:
    argv = ("python", "-c", f"{program}\nopen('out.txt', 'w').close()")
    return Action("probe:x", argv, (), ("out.txt",), tools)


def large(checkout: Checkout) -> Action:
    """An action that fails with an input that is shown, not copied."""
    place = checkout.root / "large.bin"
    place.write_bytes(bytes(run_action.KEPT_BYTES + 1))
    inputs = (("large.bin", SourceFile(place)),)
    return Action("probe:x", ("sh", "-c", "wc -c < large.bin; exit 7"), inputs, ("o",))


def refusal(checkout: Checkout, action: Action) -> str:
    with pytest.raises(ActionFailed) as caught:
        checkout.executor.execute(action)
    return str(caught.value)


def test_an_undeclared_file_of_the_checkout_is_named(checkout: Checkout) -> None:
    (checkout.root / "data").mkdir()
    (checkout.root / "data/table.txt").write_text("1")
    text = refusal(checkout, shell("cat data/table.txt > out.txt"))
    named = "data/table.txt exists but is not among the inputs of probe:x: declare it"
    assert named in text.splitlines()
    assert "run again: sh " in text


def test_an_undeclared_file_of_the_machine_is_named(
    checkout: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.txt"
    secret.write_text("1")
    text = refusal(checkout, python(f"open({str(secret)!r})", "python"))
    assert f"{secret} exists but is not among the inputs of probe:x" in text
    assert f"No such file or directory: '{secret}'" in text


def test_a_declared_file_is_not_reported(checkout: Checkout) -> None:
    (checkout.root / "in.txt").write_text("abc")
    action = Action(
        "probe:x",
        ("sh", "-c", "cat in.txt; echo in.txt: No such file; exit 1"),
        (("in.txt", SourceFile(checkout.root / "in.txt")),),
        ("out.txt",),
    )
    assert "is not among" not in refusal(checkout, action)


def test_an_undeclared_module_of_the_checkout_is_named(checkout: Checkout) -> None:
    (checkout.root / "oracles").mkdir()
    (checkout.root / "oracles/norm.py").write_text("")
    (checkout.root / "oracles/__init__.py").write_text("")
    text = refusal(checkout, python("import oracles.norm", "python"))
    assert "oracles/__init__.py exists but is not among the inputs of probe:x" in text


def test_an_undeclared_wheel_is_named_and_a_declared_one_works(
    checkout: Checkout,
) -> None:
    text = refusal(checkout, python("import ml_dtypes", "python", "numpy"))
    assert "is not among the tools of probe:x: declare 'ml-dtypes'" in text
    tools = ("python", "numpy", "ml_dtypes")
    assert checkout.build(python("import ml_dtypes", *tools)) == [("probe:x", "ran")]


def test_the_interpreter_is_a_tool_too(checkout: Checkout) -> None:
    assert "No such file" in refusal(checkout, python("pass"))


def test_the_sandbox_has_neither_checkout_nor_home_nor_other_folders(
    checkout: Checkout,
) -> None:
    places = [checkout.root, checkout.store.root, Path.home(), Path("/usr/local")]
    places += [Path("/var"), Path("/etc/passwd"), Path(__file__)]
    tests = "; ".join(f"ls {shlex.quote(str(place))}" for place in places)
    checkout.build(shell(f"({tests}) > out.txt 2> /dev/null; true"))
    record = checkout.executor.records.get("probe:x")
    assert record is not None
    seen = checkout.store.blob(dict(record.outputs)["out.txt"]).read_text().split()
    # The interpreter may be below the home folder; its path is all that is seen of it.
    assert not {"a", "cache", "passwd", Path(__file__).name} & set(seen)
    assert set(seen) <= set(Path(toolchain.paths("python")[0]).parts)


def test_an_undeclared_tool_of_the_system_cannot_run(checkout: Checkout) -> None:
    if not os.path.exists("/usr/bin/qemu-aarch64"):
        pytest.skip("no qemu-user")
    run_action = "qemu-aarch64 -version > out.txt"
    assert "ermission denied" in refusal(checkout, shell(run_action))
    assert checkout.build(shell(run_action, ("qemu-aarch64",))) == [("probe:x", "ran")]


def test_an_action_has_no_network(checkout: Checkout) -> None:
    checkout.build(shell("cat /proc/net/dev > out.txt"))
    record = checkout.executor.records.get("probe:x")
    assert record is not None
    devices = checkout.store.blob(dict(record.outputs)["out.txt"]).read_text()
    assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]


def test_running_a_failed_action_again_fails_for_the_same_reason(
    checkout: Checkout,
) -> None:
    (checkout.root / "table.txt").write_text("1")
    # Given as an absolute path, it would be read if the command ran unconfined.
    text = refusal(checkout, shell(f"cat {checkout.root}/table.txt > out.txt"))
    script = text.rpartition("run again: sh ")[2]
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "table.txt: No such file or directory" in done.stderr


def test_the_sandbox_shows_only_the_files_of_a_tool() -> None:
    seen = sandbox.visible_paths(("numpy",), network=False)
    names = {path.name.partition("-")[0] for path in seen}
    assert names == {"numpy", "numpy.libs"}
    compiler = {
        path.name for path in sandbox.visible_paths(("iree-base-compiler",), False)
    }
    assert "compiler" in compiler
    assert not compiler & {"runtime", "_runtime_libs"}


def test_file_names_are_found_in_the_messages_of_many_tools() -> None:
    for words in (
        "error: could not open input file 'data/x.mlir'",
        "cat: data/x.mlir: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.mlir'",
        "INVALID_ARGUMENT; failed to open file 'data/x.mlir'; openat",
        "/tmp/ingot/data/x.mlir not found",
    ):
        assert "data/x.mlir" in set(missing_inputs._named(words)), words


def test_without_user_namespaces_actions_run_without_a_sandbox_under_another_key(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = shell("echo made > out.txt")
    confined = checkout.executor.resolve(action)
    checkout.build(action)
    monkeypatch.setattr(sandbox, "kind", lambda: "none")
    assert dict(checkout.executor.resolve(action).platform)["sandbox"] == "none"
    assert checkout.executor.resolve(action) != confined
    assert checkout.build(action) == [("probe:x", "ran")]


def test_a_failure_without_a_sandbox_runs_again_without_one(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda: "none")
    script = refusal(checkout, large(checkout)).rpartition("run again: sh ")[2]
    assert "bwrap" not in Path(script).read_text()
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"{run_action.KEPT_BYTES + 1}\n")


def test_a_large_input_is_there_when_a_failed_action_runs_again(
    checkout: Checkout,
) -> None:
    script = refusal(checkout, large(checkout)).rpartition("run again: sh ")[2]
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, f"{run_action.KEPT_BYTES + 1}\n")


@pytest.mark.parametrize("size", [6, run_action.LARGE_BYTES + 1])
@pytest.mark.parametrize("kind", ["text", "source", "output"])
def test_nobody_can_write_to_an_input(checkout: Checkout, kind: str, size: int) -> None:
    text = "x" * size
    (checkout.root / "in.txt").write_text(text)
    make = Action(
        "make:x", ("sh", "-c", "cat i > o"), (("i", InlineText(text)),), ("o",)
    )
    checkout.build(make)
    sources: dict[str, Source] = {
        "text": InlineText(text),
        "source": SourceFile(checkout.root / "in.txt"),
        "output": Output("make:x", "o"),
    }
    names = ("top", "only/inputs", "with/outputs")
    action = Action(
        "probe:x",
        (
            "sh",
            "-c",
            "for name in top only/inputs with/outputs; do"
            "  chmod u+w $name; echo EVIL >> $name; echo EVIL > new; mv new $name;"
            "  rm -f $name; mount -o remount,rw,bind /tmp/ingot/$name; ls $name; done;"
            # The folder itself is there to write in.
            " cat top only/inputs with/outputs > with/made",
        ),
        tuple((name, sources[kind]) for name in names),
        ("with/made",),
    )
    assert checkout.build(action) == [("probe:x", "ran")]
    record = checkout.executor.records.get("probe:x")
    assert record is not None
    assert checkout.store.blob(record.outputs[0][1]).read_text() == text * 3
    assert "Read-only file system" in checkout.executor.log("probe:x")
    assert (checkout.root / "in.txt").read_text() == text


def test_what_an_action_does_to_its_input_reaches_no_other(checkout: Checkout) -> None:
    make = Action("make:x", ("sh", "-c", "echo start > mid"), (), ("mid",))
    checkout.build(make)
    mid = (("mid", Output("make:x", "mid")),)
    script = "chmod u+w mid; echo EVIL >> mid; sleep 1; echo > two"
    two = Action("two:x", ("sh", "-c", script), mid, ("two",))
    three = Action(
        "three:x", ("sh", "-c", "sleep 0.5; cat mid > three"), mid, ("three",)
    )
    threads = [
        threading.Thread(target=checkout.executor.execute, args=(action,))
        for action in (three, two)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = checkout.executor.records.get("three:x")
    assert record is not None
    assert checkout.store.blob(record.outputs[0][1]).read_text() == "start\n"


@pytest.mark.parametrize("how", [sandbox.kind(), "none"])
def test_a_failed_actions_folder_has_copies_of_its_inputs(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda: how)
    sizes = {"small": 10, "large": run_action.LARGE_BYTES + 1}
    script = "; ".join(f"head -c {n} /dev/zero > {name}" for name, n in sizes.items())
    make = Action("make:x", ("sh", "-c", script), (), tuple(sizes))
    checkout.build(make)
    inputs = tuple((name, Output("make:x", name)) for name in sizes)
    text = refusal(checkout, Action("probe:x", ("sh", "-c", "exit 3"), inputs, ("o",)))
    kept = Path(text.rpartition("run again: sh ")[2]).parent
    for name, size in sizes.items():
        assert (kept / name).stat().st_size == size
    (kept / "small").write_text("changed to see what happens")
    record = checkout.executor.records.get("make:x")
    assert record is not None
    blob = checkout.store.blob(dict(record.outputs)["small"])
    assert blob.read_bytes() == bytes(10)


def test_a_command_has_no_capability(checkout: Checkout) -> None:
    checkout.build(shell("grep Cap /proc/self/status > out.txt"))
    record = checkout.executor.records.get("probe:x")
    assert record is not None
    lines = checkout.store.blob(record.outputs[0][1]).read_text().split("\n")
    assert {
        line.split()[1]
        for line in lines
        if line.startswith(("CapPrm", "CapEff", "CapBnd"))
    } == {"0" * 16}


def test_the_target_of_a_network_link_is_mounted_too(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/stub.conf").write_text("nameserver 127.0.0.53")
    link = tmp_path / "resolv.conf"
    link.symlink_to("run/stub.conf")
    monkeypatch.setattr(network, "SYSTEM_PATHS", (str(link),))
    network.paths.cache_clear()
    sandbox.bind_mounts.cache_clear()
    action = replace(shell(f"cat {link} > out.txt"), platform=(("network", "yes"),))
    assert checkout.build(action) == [("probe:x", "ran")]
    network.paths.cache_clear()
    sandbox.bind_mounts.cache_clear()


def test_only_a_download_gets_the_proxy_variables(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "here")
    tell = shell('echo "$https_proxy $NO_PROXY" > out.txt')
    download = replace(tell, task="probe:y", platform=(("network", "yes"),))
    checkout.build(tell, download)
    found = [
        checkout.store.blob(record.outputs[0][1])
        for task in ("probe:x", "probe:y")
        if (record := checkout.executor.records.get(task))
    ]
    assert [path.read_text() for path in found] == [" \n", "http://proxy:3128 here\n"]


@pytest.mark.parametrize("name", ["n" * 300, "a/" * 3000 + "b"])
def test_a_message_with_an_impossible_file_name_is_shown(
    checkout: Checkout, name: str
) -> None:
    text = refusal(checkout, shell(f"echo {name}: No such file; exit 3"))
    assert text.startswith(f"probe:x: sh failed with exit code 3\n{name}: No such file")


def test_a_failure_is_shown_even_if_its_folder_cannot_be_saved(
    checkout: Checkout,
) -> None:
    checkout.root.joinpath("build/.ingot/failed").write_text("in the way")
    text = refusal(checkout, shell("echo the reason; exit 3"))
    assert text.startswith("probe:x: sh failed with exit code 3\nthe reason\n")
    assert "  cannot save its folder to run it again: [Errno " in text


@pytest.mark.parametrize("how", [sandbox.kind(), "none"])
@pytest.mark.parametrize("name", ["out.txt", "folder/out.txt"])
def test_a_link_is_no_output(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda: how)
    secret = checkout.root / "secret"
    secret.mkdir()
    (secret / "out.txt").write_text("mine")
    (secret / "out.txt").chmod(0o600)
    link = name.partition("/")[0]
    target = secret / "out.txt" if link == name else secret
    script = f"rm -rf {link}; ln -s {target} {link}"
    text = refusal(checkout, Action("probe:x", ("sh", "-c", script), (), (name,)))
    assert text.startswith(f"probe:x: sh did not write {name}")
    assert (secret / "out.txt").stat().st_mode & 0o777 == 0o600
    assert not list(checkout.store.root.glob("ac/*/*"))


def test_an_action_that_takes_too_long_is_stopped_with_its_children(
    checkout: Checkout,
) -> None:
    mark = f"mark-{os.getpid()}-slow"
    script = f"echo begun; sh -c ': {mark}; sleep 60' & wait"
    slow = replace(shell(script), limits=Limits(time_s=1))
    start = time.monotonic()
    text = refusal(checkout, slow)
    assert time.monotonic() - start < 30
    lines = text.splitlines()
    assert lines[0] == "probe:x: sh was killed by signal 9"
    assert lines[1:5] == [
        "begun",
        "",
        "ingot stopped it after 1 s",
        "  raise it: time_s under limits in the manifest, or in the target",
    ]
    until(lambda: not processes(mark))
    quick = replace(shell("echo 1 > out.txt"), limits=Limits(time_s=60))
    assert checkout.build(quick) == [("probe:x", "ran")]


@pytest.mark.parametrize(
    ("limits", "script", "told"),
    [
        (
            Limits(memory_bytes=200 << 20),
            # Two processes, each of which is below the limit.
            "for i in 1 2; do perl -e '$x = \"x\" x (150 << 20); sleep 60' & done;"
            " wait",
            r"when it used 0\.\d GiB of memory; its limit is 0\.2 GiB\n"
            "  raise it: memory_gib under limits in the manifest, or in the target",
        ),
        (
            Limits(processes=20),
            "for i in $(seq 40); do sleep 60 & done; wait",
            r"when it had \d+ processes; its limit is 20\n"
            "  raise it: processes under limits in the manifest, or in the target",
        ),
    ],
    ids=["memory", "processes"],
)
def test_an_action_that_uses_too_much_is_stopped(
    checkout: Checkout, limits: Limits, script: str, told: str
) -> None:
    start = time.monotonic()
    text = refusal(checkout, replace(shell(script), limits=limits))
    assert time.monotonic() - start < 30
    assert re.search(f"ingot stopped it {told}", text), text
    quick = replace(shell("echo 1 > out.txt"), limits=limits)
    assert checkout.build(quick) == [("probe:x", "ran")]
