from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ingot.bundles.contract import seal, unseal
from ingot.bundles.reader import TYPES, read_bundle
from ingot.bundles.verify import verify
from ingot.cli import verify_command
from ingot.engine import process, sandbox
from ingot.engine.actions import Limits
from ingot.errors import IngotError
from tests.command_calls import call
from tests.project import ROOT
from tests.tiny_bundle import FILES, pack_whole, resealed
from tests.tiny_model import SENTENCES


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A bundle's folder that a test may damage."""
    shutil.copytree(packed / "bundle", tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_whole_bundle_is_verified_and_its_golden_sentences_run(
    packed: Path, tmp_path: Path
) -> None:
    report = verify(packed / "bundle", tmp_path)
    printed = report.text
    assert report.gap == ""
    assert "complete: 11 files as packed; not signed" in printed
    assert "reads encode" in printed
    assert (
        f"{len(SENTENCES)} sentences of the golden file on local-task: token ids"
        in printed
    )
    assert (
        verify(packed / "tiny-here.tar", tmp_path).text.splitlines()[1:]
        == (printed.splitlines()[1:])
    )


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_in_any_file_is_refused_by_name(
    bundle: Path, name: str
) -> None:
    content = bytearray((bundle / name).read_bytes())
    for place in (0, len(content) // 2, len(content) - 1):
        content[place] ^= 1
        (bundle / name).write_bytes(content)
        with pytest.raises(IngotError, match=f"^{name}: "):
            read_bundle(bundle)
        content[place] ^= 1


def test_one_flipped_bit_anywhere_in_a_tar_is_refused(
    packed: Path, tmp_path: Path
) -> None:
    content = bytearray((packed / "tiny-here.tar").read_bytes())
    flipped = tmp_path / "flipped.tar"
    # Name, mode, size, time, checksum, magic, owner, content, padding, the end.
    places = (0, 100, 130, 140, 150, 258, 270, 512, 600, 1023, len(content) - 1)
    for place in places:
        content[place] ^= 1
        flipped.write_bytes(content)
        with pytest.raises(IngotError):
            verify(flipped, tmp_path)
        content[place] ^= 1
    for length in (0, 511, 512, len(content) - 512):
        flipped.write_bytes(content[:length])
        with pytest.raises(IngotError):
            verify(flipped, tmp_path)


def test_a_missing_file_is_refused_by_name(bundle: Path) -> None:
    (bundle / "model.irpa").unlink()
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == "model.irpa: bundle.json lists it, and it is not there"


def test_a_file_that_nothing_lists_is_refused_by_name(bundle: Path) -> None:
    (bundle / "extra.so").write_bytes(b"")
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == "extra.so: bundle.json does not list it"


def test_a_link_in_a_bundle_is_refused(bundle: Path) -> None:
    (bundle / "model.vmfb").rename(bundle.parent / "model.vmfb")
    (bundle / "model.vmfb").symlink_to(bundle.parent / "model.vmfb")
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == "model.vmfb: not a plain file"


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IngotError, match=r"no bundle\.json: not a bundle"):
        verify(tmp_path)
    with pytest.raises(IngotError, match="no such bundle"):
        verify(tmp_path / "nothing.tar")


def test_a_tar_without_files_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").touch()
    with pytest.raises(IngotError) as caught:
        verify(tmp_path / "empty.tar")
    assert str(caught.value) == "empty.tar: no bundle.json: not a bundle"


def test_another_schema_is_refused(bundle: Path) -> None:
    contract = unseal((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(seal({**contract, "schema": "later.v9"}))
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == (
        "bundle.json: another schema; expected 'ingot.bundle.v3', found 'later.v9'"
    )


def test_a_module_that_the_runtime_does_not_read_is_refused(bundle: Path) -> None:
    resealed(bundle, "model.vmfb", b"no module")
    with pytest.raises(IngotError, match=r"^model\.vmfb: the installed runtime cannot"):
        verify(bundle)


def test_wrong_golden_numbers_are_refused(bundle: Path, tmp_path: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden["cases"][1]["embedding"][0] += 0.01
    resealed(bundle, "golden.json", json.dumps(golden).encode())
    with pytest.raises(IngotError) as caught:
        verify(bundle, tmp_path)
    assert str(caught.value).startswith(
        "golden sentence 1: wrong embedding on local-task\n  worst at [1, 0]: "
    )


def test_wrong_token_ids_are_refused(bundle: Path, tmp_path: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden["cases"][0]["tokens"][1] += 1
    resealed(bundle, "golden.json", json.dumps(golden).encode())
    with pytest.raises(IngotError, match=r"^golden sentence 0: wrong token ids"):
        verify(bundle, tmp_path)


def test_what_cannot_run_here_is_said_and_the_rest_verified(
    bundle: Path, tmp_path: Path
) -> None:
    contract = unseal((bundle / "bundle.json").read_text())
    contract["target"]["machine"] = "riscv64"
    (bundle / "bundle.json").write_text(seal(contract))
    report = verify(bundle, tmp_path)
    assert "  correct: token ids of 3 sentences\n  not tested: the pro" in report.text
    assert report.gap == f"the processor is {platform.machine()}, not riscv64"


def test_a_processor_that_lacks_a_feature_is_told_its_name(
    bundle: Path, tmp_path: Path
) -> None:
    change(bundle, "target.cpu_features", ["unheard_of", "avx9"])
    gap = "the processor lacks unheard_of, avx9"
    assert verify(bundle, tmp_path).gap == gap
    # The checkout's target of that name may ask for less than the bundle was built for.
    change(bundle, "target.name", "x86_64")
    assert verify(bundle, ROOT).gap == gap


def change(bundle: Path, key: str, value: object) -> None:
    """Change a value of `bundle.json`, and seal it as anybody could."""
    contract = unseal((bundle / "bundle.json").read_text())
    *path, last = key.split(".")
    place: Any = contract
    for name in path:
        place = place[int(name) if name.isdigit() else name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    (bundle / "bundle.json").write_text(seal(contract))


def test_nothing_of_a_bundle_is_run_before_its_files_are_right(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(process, "run", lambda *_, **__: started.append(1))
    (bundle / "model.vmfb").write_bytes(b"other code")
    with pytest.raises(IngotError, match=r"^model\.vmfb: changed since it was packed"):
        verify(bundle)
    assert started == []


def test_code_of_a_bundle_runs_in_a_sandbox_and_may_crash_there(bundle: Path) -> None:
    content = bytearray((bundle / "model.vmfb").read_bytes())
    start = content.find(b"\x7fELF")
    assert start >= 0
    offset, size, count = struct.unpack_from("<Q14xHH", content, start + 32)
    for number in range(count):
        header = start + offset + number * size
        _, flags, place, _, _, length = struct.unpack_from("<IIQQQQ", content, header)
        if flags & 1:  # executable
            content[start + place : start + place + length] = b"\xcc" * length
    resealed(bundle, "model.vmfb", bytes(content))
    # A breakpoint, which would end this process too.
    with pytest.raises(IngotError, match="iree-run-module failed with signal 5"):
        verify(bundle)


def test_a_sandbox_that_ends_without_an_outcome_is_reported(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = process.Completed(133, b"first\nTrap\x1b[2J\n")
    monkeypatch.setattr(process, "run", lambda *_, **__: ended)
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == (
        "model.vmfb: what runs it ended with exit code 133\n  Trap[2J"
    )


def test_a_bundle_sees_neither_the_environment_nor_other_files(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    real = process.run

    def note(argv: tuple[str, ...], *rest: Any, **options: Any) -> process.Completed:
        commands.append((argv, rest, options))
        return real(argv, *rest, **options)

    monkeypatch.setattr(process, "run", note)
    verify(bundle)
    ((argv, (_, env, limits), options),) = commands
    assert Path(argv[0]).name == "bwrap"
    assert "--share-net" not in argv
    assert "--unshare-all" in argv
    assert (env, limits, options) == ({}, Limits(), {})
    shown = {argv[n + 1] for n, word in enumerate(argv) if word == "--bind"}
    assert len(shown) == 1
    assert not shown & {str(Path.cwd()), str(Path.home()), str(bundle)}


@pytest.mark.parametrize("archive", ["../model.irpa", "/etc/passwd", "other.irpa"])
def test_the_archive_is_one_of_the_bundles_files(bundle: Path, archive: str) -> None:
    change(bundle, "parameters.archive", archive)
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert caught.value.message == (
        f"bundle.json: parameters.archive: not one of its files: {archive!r}"
    )


@pytest.mark.parametrize(
    "key",
    [
        *("model", "dims", "dynamic_dims", "entry_points", "files", "parameters"),
        *("parameters.archive", "parameters.scope", "runtime", "runtime.package"),
        *("runtime.version", "target", "target.name", "target.machine"),
        *("target.compile_flags", "entry_points.0.name", "entry_points.0.inputs"),
        *("entry_points.0.outputs.0.shape", "entry_points.0.in_place"),
        *("dynamic_dims.batch.max", "files.LICENSE.sha256"),
    ],
)
def test_a_key_that_is_missing_or_of_another_type_is_named(
    bundle: Path, key: str
) -> None:
    named = key if key in TYPES else key.partition(".")[0]
    text = (bundle / "bundle.json").read_text()
    wrong: tuple[object, ...] = (None, 2.5, [[]])
    for value in wrong:
        change(bundle, key, value)
        with pytest.raises(IngotError, match=f"^bundle.json: {named}: "):
            read_bundle(bundle)
        (bundle / "bundle.json").write_text(text)


@pytest.mark.parametrize("name", ["../targets", "a/b", "", "a\x1b[2J"])
def test_a_name_that_leads_elsewhere_is_refused(bundle: Path, name: str) -> None:
    for key in ("model", "target.name"):
        text = (bundle / "bundle.json").read_text()
        change(bundle, key, name)
        with pytest.raises(IngotError) as caught:
            verify(bundle)
        assert caught.value.message == f"bundle.json: {key}: not a name: {name!r}"
        (bundle / "bundle.json").write_text(text)


def test_a_contract_that_is_too_deep_is_damaged(bundle: Path) -> None:
    (bundle / "bundle.json").write_text("[" * 100_000)
    with pytest.raises(IngotError, match=r"^bundle\.json: damaged; "):
        verify(bundle)


NO_CASES = "the bundle has no golden sentences or prompts"
OTHER_RUNTIME = "the bundle is for iree-base-runtime '3.10.0', and {} is installed"


def untested(bundle: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    resealed(bundle, "golden.json", json.dumps({**golden, "cases": []}).encode())


def test_a_bundle_without_golden_cases_is_not_right(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    untested(bundle)
    report = verify(bundle)
    assert report.gap == NO_CASES
    assert "correct" not in report.text
    assert report.text.endswith(f"  not tested: {NO_CASES}")
    assert verify_command.verify(call(bundle=str(bundle))) == 1
    out, err = capsys.readouterr()
    assert out == f"{report.text}\n"
    assert err == (
        f"not verified: {NO_CASES}\n"
        "  run=no is content with the files, and runs nothing of the bundle\n"
    )


def test_a_bundle_for_another_runtime_is_not_run(bundle: Path) -> None:
    change(bundle, "runtime.version", "3.10.0")
    report = verify(bundle)
    installed = importlib.metadata.version("iree-base-runtime")
    assert report.gap == OTHER_RUNTIME.format(installed)
    assert "loads" not in report.text


def test_without_a_sandbox_nothing_of_a_bundle_is_run(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda: "none")
    monkeypatch.setattr(process, "run", None)
    report = verify(bundle)
    assert report.gap == (
        "there is no sandbox here, and code of a bundle runs only in one"
    )
    assert "complete: 11 files" in report.text


def test_a_user_may_be_content_with_the_files(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    untested(bundle)
    monkeypatch.setattr(process, "run", None)
    assert verify_command.verify(call(bundle=str(bundle), run="no")) == 0
    assert capsys.readouterr().out == (
        "bundle: tiny@here\n"
        "  complete: 11 files as packed; not signed\n"
        "  not tested: run=no\n"
    )
    with pytest.raises(IngotError, match="expected yes or no, found 'maybe'"):
        verify_command.verify(call(bundle=str(bundle), run="maybe"))


@pytest.mark.parametrize("golden", [b"[]", b"{}", b"[" * 100_000, b'{"cases": [1]}'])
def test_golden_cases_that_are_none_are_refused(bundle: Path, golden: bytes) -> None:
    resealed(bundle, "golden.json", golden)
    with pytest.raises(IngotError, match=r"^golden\.json: cannot be used; "):
        verify(bundle)


def without_cryptography(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of a plain `pip install ingot-build`, which verifies no signatures."""
    program = "import sys; sys.modules['cryptography'] = None\n"
    program += "from ingot.cli import main; sys.exit(main.run(sys.argv[1:]))"
    argv = (sys.executable, "-c", program, *words)
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)


def test_an_unsigned_bundle_is_verified_without_the_extra_for_signatures(
    packed: Path, tmp_path: Path
) -> None:
    found = without_cryptography("verify", f"bundle={packed / 'bundle'}", "run=no")
    assert (found.returncode, found.stderr) == (0, "")
    assert "not signed" in found.stdout
    found = without_cryptography("keys", f"to={tmp_path}")
    assert found.returncode == 3
    assert found.stderr == (
        "ERROR: doit keys: the package 'cryptography' is not installed\n"
        "  run: pip install 'ingot-build[signing]'\n"
    )
