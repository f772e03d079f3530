from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ingot.bundles.contract import seal, unseal
from ingot.bundles.reader import read_bundle
from ingot.bundles.verify import verify
from ingot.errors import IngotError
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
    printed = verify(packed / "bundle", tmp_path)
    assert "complete: 7 files as packed" in printed
    assert "reads encode" in printed
    assert (
        f"{len(SENTENCES)} sentences of the golden file on local-task: token ids"
        in printed
    )
    assert (
        verify(packed / "tiny-here.tar", tmp_path).splitlines()[1:]
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
        "bundle.json: another schema; expected 'ingot.bundle.v1', found 'later.v9'"
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
    assert "token ids of 3 sentences; not run: the processor is" in (
        verify(bundle, tmp_path)
    )
