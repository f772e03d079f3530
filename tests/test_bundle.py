from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ingot.bundles.declaration import licences
from ingot.bundles.read import read_bundle
from ingot.bundles.seal import seal, unseal
from ingot.edges.tarball import read_tar, write_tar
from ingot.encode import report, run
from ingot.errors import IngotError
from ingot.readers.manifest import read_manifest
from ingot.readers.target import read_target
from ingot.stages.bundle import plan_bundle
from ingot.stages.compile import plan_compile
from ingot.verify import verify
from tests.tiny_model import ROOT, SENTENCES, Tiny, lay_out, run_stage

FILES = [
    "LICENCE",
    "bundle.json",
    "check.json",
    "golden.json",
    "model.irpa",
    "model.vmfb",
    "tokenizer.json",
]


def specification() -> dict[str, Any]:
    port = {"element": "i32", "shape": ["batch", "seq"]}
    embedding = {"element": "f32", "shape": ["batch", 2]}
    return {
        "task": "bundle tiny@here",
        "bundle": "tiny-here",
        "files": FILES,
        "sources": ["models/licences/Apache-2.0.txt"],
        "tolerance": {"max_abs_error": 1e-5, "min_cosine": 0.999},
        "weights_origin": "synthetic, seed 1",
        "contract": {
            "schema": "ingot.bundle.v1",
            "model": "tiny",
            "licence": "Apache-2.0",
            "dims": {"n_vocab": 30522},
            "dynamic_dims": {
                "batch": {"min": 1, "max": 2},
                "seq": {"min": 1, "max": 32},
            },
            "entry_points": [
                {
                    "name": "encode",
                    "inputs": [
                        {"name": "tokens", "role": "tokens", **port},
                        {"name": "mask", "role": "mask", **port},
                    ],
                    "outputs": [
                        {"name": "embedding", "role": "embedding", **embedding}
                    ],
                    "in_place": [],
                }
            ],
            "target": {
                "name": "here",
                "machine": None,
                "cpu_features": [],
                "compile_flags": [],
            },
            "compiler": {"package": "iree-base-compiler", "command": ["iree-compile"]},
        },
    }


def pack(folder: Path, passed: bool = True) -> tuple[int, str]:
    folder.mkdir(parents=True, exist_ok=True)
    lay_out(folder, Tiny(passed=passed))
    (folder / "sources/models/licences").mkdir(parents=True)
    (folder / "sources/models/licences/Apache-2.0.txt").write_text("do as you like\n")
    return run_stage(folder, "bundle", specification())


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    code, printed = pack(folder)
    assert code == 0, printed
    return folder


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A bundle's folder that a test may damage."""
    shutil.copytree(packed / "bundle", tmp_path / "bundle")
    return tmp_path / "bundle"


def test_two_builds_in_two_places_give_the_same_tar(
    packed: Path, tmp_path: Path
) -> None:
    code, _ = pack(tmp_path / "another" / "place")
    assert code == 0
    # Other times, as another machine or another day would give.
    bench = tmp_path / "another/place/bench.json"
    bench.write_text('{"schema": "ingot.bench.v1", "runs": [{"latency_ms": 5}]}')
    code, _ = run_stage(bench.parent, "bundle", specification())
    assert code == 0
    first, second = (
        (folder / "tiny-here.tar").read_bytes() for folder in (packed, bench.parent)
    )
    assert first == second


def test_the_times_beside_the_tar_name_it_by_digest(packed: Path) -> None:
    tar = (packed / "tiny-here.tar").read_bytes()
    times = json.loads((packed / "tiny-here.bench.json").read_text())
    assert times["bundle"] == {
        "file": "tiny-here.tar",
        "sha256": hashlib.sha256(tar).hexdigest(),
        "size_bytes": len(tar),
    }


def test_a_tar_tells_no_time_no_owner_and_no_order_of_making(packed: Path) -> None:
    with tarfile.open(packed / "tiny-here.tar") as archive:
        members = archive.getmembers()
    assert [item.name for item in members] == [f"tiny-here/{name}" for name in FILES]
    for item in members:
        assert (item.mtime, item.uid, item.gid, item.mode) == (0, 0, 0, 0o644)
        assert (item.uname, item.gname) == ("", "")


def test_the_contract_tells_no_place_and_every_digest(packed: Path) -> None:
    text = (packed / "bundle/bundle.json").read_text()
    contract = unseal(text)
    assert str(packed) not in text
    assert str(ROOT) not in text
    for name, item in contract["files"].items():
        content = (packed / "bundle" / name).read_bytes()
        assert item["sha256"] == hashlib.sha256(content).hexdigest()
        assert item["size_bytes"] == len(content)
    assert sorted([*contract["files"], "bundle.json"]) == FILES
    assert contract["parameters"]["types"] == {"w": {"element": "f32", "shape": [2]}}
    assert len(contract["compiler"]["commit"]) == 40


def test_a_bundle_whose_check_failed_is_refused(tmp_path: Path) -> None:
    code, printed = pack(tmp_path, passed=False)
    assert code == 1
    assert printed == (
        "bundle tiny@here: not bundled\n  check.json: the check did not pass\n"
    )
    assert not (tmp_path / "tiny-here.tar").exists()


def test_parameters_that_do_not_fit_the_module_are_refused(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    (tmp_path / "sources/models/licences").mkdir(parents=True)
    text = (tmp_path / "linked.mlir").read_text()
    (tmp_path / "linked.mlir").write_text(text.replace('"w">', '"v">'))
    code, printed = run_stage(tmp_path, "bundle", specification())
    assert code == 1
    assert printed.startswith("bundle tiny@here: not bundled\n")
    assert "parameter 'v': not loaded by model.vmfb" in printed


def test_a_whole_bundle_is_verified_and_its_golden_sentences_run(
    packed: Path, tmp_path: Path
) -> None:
    printed = verify(packed / "bundle", tmp_path)
    assert "whole: 7 files are as packed" in printed
    assert "reads encode" in printed
    assert f"{len(SENTENCES)} golden sentences on local-task: token ids" in printed
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


def test_another_schema_is_refused(bundle: Path) -> None:
    contract = unseal((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(seal({**contract, "schema": "later.v9"}))
    with pytest.raises(IngotError) as caught:
        verify(bundle)
    assert str(caught.value) == (
        "bundle.json: another schema; expected 'ingot.bundle.v1', found 'later.v9'"
    )


def resealed(bundle: Path, name: str, content: bytes) -> None:
    """Change a file as who packs a bundle could: with digests that are right."""
    (bundle / name).write_bytes(content)
    contract = unseal((bundle / "bundle.json").read_text())
    contract["files"][name] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    (bundle / "bundle.json").write_text(seal(contract))


def test_a_module_that_the_runtime_does_not_read_is_refused(bundle: Path) -> None:
    resealed(bundle, "model.vmfb", b"no module")
    with pytest.raises(IngotError, match=r"^model\.vmfb: the installed runtime does"):
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
    assert "token ids of 3 golden sentences; not run: the processor is" in (
        verify(bundle, tmp_path)
    )


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    item = tarfile.TarInfo(name)
    item.type = kind
    item.linkname = "/etc/passwd"
    return item


@pytest.mark.parametrize(
    ("strange", "message"),
    [
        (member("b/../../x"), "is no file of one folder"),
        (member("/etc/x"), "is no file of one folder"),
        (member("x"), "is no file of one folder"),
        (member("b/.."), "is no file of one folder"),
        (member("b/c/d"), "is no file of one folder"),
        (member("b\\c/d"), "is no file of one folder"),
        (member("other/x"), "is in a second folder"),
        (member("b/good"), "is there twice"),
        (member("b/link", tarfile.SYMTYPE), "is not a plain file"),
        (member("b/hard", tarfile.LNKTYPE), "is not a plain file"),
        (member("b/dev", tarfile.CHRTYPE), "is not a plain file"),
        (member("b/fifo", tarfile.FIFOTYPE), "is not a plain file"),
        (member("b", tarfile.DIRTYPE), "is not a plain file"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
def test_a_tar_that_leads_elsewhere_writes_nothing(
    tmp_path: Path, strange: tarfile.TarInfo, message: str
) -> None:
    path = tmp_path / "strange.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(member("b/good"), io.BytesIO())
        archive.addfile(strange)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(IngotError, match=message):
        read_tar(path, folder)
    assert list(folder.iterdir()) == []


def test_a_compressed_tar_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w:gz") as archive:
        archive.addfile(member("b/good"), io.BytesIO())
    (tmp_path / "out").mkdir()
    with pytest.raises(IngotError, match="not a whole tar"):
        read_tar(tmp_path / "x.tar", tmp_path / "out")


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1" * 513)
    (tmp_path / "b").write_bytes(b"")
    files = {name: tmp_path / name for name in ("b", "a")}
    write_tar(tmp_path / "x.tar", "top", files)
    (tmp_path / "out").mkdir()
    assert read_tar(tmp_path / "x.tar", tmp_path / "out") == ("a", "b")
    assert (tmp_path / "out/a").read_bytes() == b"1" * 513


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("Apache-2.0", ("Apache-2.0",)),
        ("(MIT OR Apache-2.0) AND MIT", ("MIT", "Apache-2.0")),
        ("GPL-2.0-only WITH X-exception-1.0", ("GPL-2.0-only", "X-exception-1.0")),
    ],
)
def test_every_licence_of_an_expression_is_shipped(
    expression: str, names: tuple[str, ...]
) -> None:
    assert licences(expression) == names


def test_the_plan_ships_the_parts_and_keeps_times_out_of_the_tar() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    compiled = plan_compile(manifest.graph, target)
    action = plan_bundle(manifest, target, compiled, ROOT)
    assert action.outputs == (
        *(f"bundle/{name}" for name in FILES),
        "all-minilm-l6-v2-x86_64.tar",
        "all-minilm-l6-v2-x86_64.bench.json",
    )
    spec = dict(action.inputs)["spec.json"]
    assert "iree-llvmcpu-target-cpu=x86-64-v3" in repr(spec)
    assert "components/linear/linear_bias.mlir" in repr(spec)


def test_sentences_run_through_a_built_bundle(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    run(tmp_path, "tiny", "here", "hello | hello|The cat sits outside.")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny@here"
    assert lines[1] == '[0] "hello", 3 tokens'
    # 101 + 7592 + 102, by 1000, by 1.5; and 3 tokens by -0.25.
    assert lines[2].split()[:2] == ["+11.69250", "-0.75000"]
    assert lines[7] == "cosine"
    assert lines[9].split() == ["[0]", "1.0000", "1.0000", "1.0000"]


def test_one_sentence_has_no_matrix(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    run(tmp_path, "tiny", "here", "hello")
    assert "cosine" not in capsys.readouterr().out


def test_a_sentence_that_is_too_long_is_an_error(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    with pytest.raises(IngotError) as caught:
        run(tmp_path, "tiny", "here", "short|" + "word " * 40)
    assert str(caught.value) == (
        "sentence 1 is too long; expected 32 tokens or less, found 42\n"
        "  split it into several sentences: nothing is cut off silently"
    )


def test_what_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(IngotError) as caught:
        run(tmp_path, "tiny", "here", "hello")
    assert str(caught.value) == (
        "tiny@here is not built\n  run: doit build model=tiny target=here"
    )


def test_a_report_shortens_long_sentences() -> None:
    import numpy as np

    from ingot.bundles.encoder import Encoded

    encoded = Encoded(((1, 2),), np.array([[3.0, 4.0]], np.float32))
    text = report("tiny@here", ("x" * 60,), encoded)
    assert f'[0] "{"x" * 45}...", 2 tokens' in text
    assert "(2 dims, norm 5.000000)" in text
