"""Test what `doit doctor` reports for this machine, and for those that lack things."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingot.cli import doctor_command
from ingot.cli.doctor_command import Finding, Level, last_line, render, start
from ingot.engine import sandbox, toolchain
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.model.target import Target, read_target
from ingot.project.workspace import load
from tests.command_calls import run
from tests.source_tree import ROOT

TARGETS = sorted((ROOT / "targets").glob("*.yaml"))


@dataclass(frozen=True)
class Stub:
    """As much of a target as a trial reads."""

    name: str
    runner: Runner
    compile_flags: tuple[str, ...] = ()
    compile_inputs: tuple[tuple[str, Path], ...] = ()
    reason: str | None = None

    def unrunnable_reason(self) -> str | None:
        return self.reason


def try_target(stub: Any) -> Finding:
    return doctor_command.target_finding(stub)


def markers(target: Target) -> list[pytest.MarkDecorator]:
    if target.runner.runtime == doctor_command.AARCH64_RUNTIME:
        return [pytest.mark.aarch64]
    return [pytest.mark.vulkan] if target.runner.device == "vulkan" else []


def declared() -> list[Any]:
    targets = [read_target(path, ROOT) for path in TARGETS]
    return [pytest.param(t, marks=markers(t), id=t.name) for t in targets]


@pytest.mark.parametrize("target", declared())
def test_every_target_compiles_and_runs_here_or_has_a_reason(target: Target) -> None:
    finding = doctor_command.target_finding(target)
    reason = target.unrunnable_reason()
    if reason:
        assert finding.level is Level.WARNING
        assert finding.found == f"cannot run here: {reason}"
    else:
        expected = f"compiles and runs on {target.runner.device}"
        assert (finding.level, finding.found) == (Level.OK, expected)


def test_the_report_has_a_line_for_each_finding_and_a_count() -> None:
    findings = [
        Finding("numpy", Level.OK, "2.4.6"),
        Finding("disk", Level.WARNING, "2.0 GiB free in the store", "free some"),
        Finding(
            "target vulkan", Level.ERROR, "no Vulkan device", "run: apt-get install x"
        ),
        Finding("vulkan", Level.ERROR, "no Vulkan device"),
    ]
    assert render(findings) == (
        "ok       numpy          2.4.6\n"
        "warning  disk           2.0 GiB free in the store\n"
        "                        free some\n"
        "error    target vulkan  no Vulkan device\n"
        "                        run: apt-get install x\n"
        "error    vulkan         no Vulkan device\n"
        "4 checks: 2 errors, 1 warning"
    )
    assert render(findings[:1]) == "ok       numpy  2.4.6\n1 check: no problems"


def test_a_package_at_another_version_names_the_command() -> None:
    assert doctor_command.package_finding(
        "rich==1.0", "pip install rich==1.0"
    ) == Finding(
        "rich", Level.ERROR, "expected 1.0, found 15.0.0", "run: pip install rich==1.0"
    )
    assert doctor_command.package_finding("no-such==1.0", "./bootstrap") == Finding(
        "no-such", Level.ERROR, "not installed", "run: ./bootstrap"
    )

    # A repository of one's own may name a range, and what other systems need.
    found = [
        doctor_command.package_finding(pin, "pip install it").found
        for pin in ("rich>=14,<16", "rich<15", "rich==1.0; python_version < '3'")
    ]
    assert found == ["15.0.0", "expected <15, found 15.0.0", "not needed here"]
    wrong = doctor_command.package_finding("rich 15", "pip install it")
    assert wrong.remedy == "correct it in pyproject.toml"


def test_the_toolchain_of_this_environment_is_the_pinned_one() -> None:
    findings = list(doctor_command.toolchain_findings(ROOT))
    assert {item.subject for item in findings} >= {
        "python",
        "iree-base-compiler",
        "numpy",
    }
    assert [item for item in findings if item.level is not Level.OK] == []


def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert list(doctor_command.store_findings(blocked / "store")) == [
        Finding(
            "store",
            Level.ERROR,
            f"{blocked}/store: Not a directory",
            "set INGOT_CACHE to a folder on a disk that you can write",
        )
    ]


def test_testing_the_store_leaves_nothing_in_it(tmp_path: Path) -> None:
    store, disk = doctor_command.store_findings(tmp_path)
    assert store.level is Level.OK
    assert disk.found.endswith("GiB free in the store")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_command, "LEAST_DISK_BYTES", 1 << 60)
    _, disk = doctor_command.store_findings(tmp_path)
    assert disk.level is Level.ERROR
    assert disk.remedy == "free some, or set INGOT_CACHE to another disk"


def test_a_missing_sandbox_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda: "none")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    finding = doctor_command.sandbox_finding()
    assert finding.level is Level.WARNING
    assert finding.remedy == "run: apt-get install bubblewrap"


def test_x86_64_levels_need_every_feature_below_them() -> None:
    v2, v3, v4 = doctor_command.LEVELS.values()
    assert doctor_command.x86_64_level(set()) == ""
    assert doctor_command.x86_64_level(v2) == "-v2"
    assert doctor_command.x86_64_level(v2 | v3) == "-v3"
    assert doctor_command.x86_64_level(v2 | v4) == "-v2"
    assert doctor_command.x86_64_level(v2 | v3 | v4) == "-v4"


def test_a_target_that_this_processor_lacks_is_a_warning() -> None:
    stub = Stub("x", Runner("local-task"), reason="the processor lacks avx512f")
    assert try_target(stub) == Finding(
        "target x", Level.WARNING, "cannot run here: the processor lacks avx512f"
    )


def test_a_missing_emulator_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> str:
        raise IngotError(f"tool '{name}' is not installed")

    monkeypatch.setattr(toolchain, "executable", refuse)
    stub = Stub("arm", Runner("local-sync", runtime=doctor_command.AARCH64_RUNTIME))
    assert try_target(stub) == Finding(
        "target arm",
        Level.ERROR,
        "tool 'qemu-aarch64' is not installed",
        "run: apt-get install qemu-user",
    )


@pytest.mark.aarch64
@pytest.mark.parametrize(("name", "package"), doctor_command.AARCH64_LIBRARIES.items())
def test_a_missing_aarch64_library_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    (tmp_path / "lib").mkdir()
    for other in doctor_command.AARCH64_LIBRARIES:
        if other != name:
            (tmp_path / "lib" / other).touch()
    monkeypatch.setattr(doctor_command, "AARCH64_ROOT", tmp_path)
    assert list(doctor_command.emulator_findings()) == [
        Finding(
            name,
            Level.ERROR,
            f"the aarch64 {name} is not installed",
            f"run: apt-get install {package}",
        )
    ]


@pytest.mark.aarch64
def test_a_missing_aarch64_runtime_is_installed_by_bootstrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_AARCH64_RUNTIME", str(tmp_path))
    (finding,) = doctor_command.emulator_findings()
    assert (finding.level, finding.remedy) == (Level.ERROR, "run: ./bootstrap")


def test_no_vulkan_driver_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    finding = try_target(Stub("vulkan", Runner("vulkan")))
    assert finding.level is Level.ERROR
    assert finding.found.startswith("no Vulkan device: ")
    assert finding.remedy == "run: apt-get install libvulkan1 mesa-vulkan-drivers"


def test_a_target_that_does_not_compile_shows_the_compilers_message() -> None:
    finding = try_target(Stub("odd", Runner("local-task"), ("--no-such-flag",)))
    assert finding.level is Level.ERROR
    assert finding.found.startswith("does not compile: ")


def test_wrong_numbers_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "OUTPUT", "4xf32=3 4 6 8")
    flags = (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
    )
    finding = try_target(Stub("odd", Runner("local-task"), flags))
    assert finding.found == (
        "computes wrong numbers: expected '4xf32=3 4 6 8', got '4xf32=2 4 6 8'"
    )


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingot.cli.doctor_command.TIMEOUT_S", 0.2)
    assert start("sleep", "30") == (124, "no response within 0.2 s")


def test_the_reason_is_the_last_line_that_is_not_empty() -> None:
    assert last_line("loading\nreason\n\n") == "reason"
    assert last_line("") == "no output"


def test_a_target_that_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(load(ROOT), targets={}, broken={"zen3": "sumary: unknown key"})
    monkeypatch.setattr("ingot.project.workspace.load", lambda _: broken)
    monkeypatch.setattr(doctor_command, "diagnose", lambda *_: [])
    assert run("doctor") == 1
    assert capsys.readouterr().out == (
        "error    target zen3  cannot be read\n"
        "                      `doit build target=zen3` shows why\n"
        "1 check: 1 error\n"
    )


@pytest.mark.aarch64
@pytest.mark.vulkan
def test_doctor_prints_the_report_and_returns_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run("doctor")
    printed = capsys.readouterr().out
    assert os.environ["INGOT_CACHE"] in printed
    for name in load(ROOT).targets:
        assert f"target {name} " in printed
    assert code == 0, printed
