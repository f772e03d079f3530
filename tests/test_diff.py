"""Test that `doit diff` finds each planted difference, its meaning and its cause."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from ingot.bundles.change_causes import UNKNOWN
from ingot.bundles.compare_bundles import difference
from ingot.bundles.contract import seal, unseal
from ingot.bundles.difference import Change, Difference
from ingot.bundles.reader import read_bundle
from ingot.cli import diff_command
from ingot.cli.commands import Call
from ingot.codec import to_json
from ingot.errors import IngotError
from ingot.release import locations
from ingot.release.model_image import model_image
from ingot.release.publish import publish
from tests.project import ROOT
from tests.tiny_bundle import pack_whole, resealed, write_tar_of
from tests.tiny_release import written

PAGE = ROOT / "docs/command-line.schema.json"
MANIFEST, GELU = "models/tiny.yaml", "components/activation/gelu.mlir"
TARGET, KERNELS = "targets/here.yaml", "targets/here.kernels.mlir"
Contract = dict[str, Any]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with what a real one records of a check and of its inputs."""
    folder = pack_whole(tmp_path_factory.mktemp("packed")) / "bundle"
    contract = unseal((folder / "bundle.json").read_text())
    contract["check"]["levels"] = {
        "model": {"rows": 6, "max_abs_error": 1e-6, "tolerance": 1e-5}
    }
    for path in (MANIFEST, GELU, TARGET):
        contract["inputs"]["sources"][path] = {"sha256": "0", "size_bytes": 1}
    (folder / "bundle.json").write_text(seal(contract))
    return folder


@pytest.fixture
def other(packed: Path, tmp_path: Path) -> Path:
    """A copy in which a test may plant a difference."""
    return Path(shutil.copytree(packed, tmp_path / "other"))


def plant(folder: Path, change: Callable[[Contract], Any], *sources: str) -> None:
    """Change a contract, as if these sources were the reason."""
    contract = unseal((folder / "bundle.json").read_text())
    change(contract)
    for path in sources:
        contract["inputs"]["sources"][path] = {"sha256": "1", "size_bytes": 1}
    (folder / "bundle.json").write_text(seal(contract))


def found(packed: Path, other: Path) -> Difference:
    made = difference(read_bundle(packed), read_bundle(other))
    jsonschema.validate(json.loads(to_json(made)), json.loads(PAGE.read_text()))
    return made


def only(packed: Path, other: Path) -> Change:
    (change,) = found(packed, other).changes
    return change


def test_a_copy_is_equal(packed: Path, other: Path) -> None:
    same = found(packed, other)
    assert (same.level, same.changes, same.inputs) == ("none", (), ())


def port(contract: Contract) -> Contract:
    made: Contract = contract["entry_points"][0]["inputs"][0]
    return made


def added_entry(contract: Contract) -> None:
    contract["entry_points"].append({**contract["entry_points"][0], "name": "again"})


def removed_entry(contract: Contract) -> None:
    contract["entry_points"][0]["name"] = "embed"


def swapped(contract: Contract) -> None:
    contract["entry_points"][0]["inputs"].reverse()


IN = "entry_points.encode.inputs"


@pytest.mark.parametrize(
    ("change", "what", "level"),
    [
        (added_entry, "entry_points.again", "minor"),
        (swapped, IN, "major"),
        (lambda c: port(c).update(element="i64"), f"{IN}.tokens.element", "major"),
        (lambda c: port(c).update(shape=["batch", 8]), f"{IN}.tokens.shape", "major"),
        (lambda c: port(c).update(role="ids"), f"{IN}.tokens.role", "major"),
        (
            lambda c: port(c).update(range={"min": 0, "max": [9]}),
            f"{IN}.tokens.range",
            "major",
        ),
        (
            lambda c: c["dynamic_dims"]["seq"].update(max=64),
            "dynamic_dims.seq",
            "minor",
        ),
        (
            lambda c: c["dynamic_dims"]["seq"].update(max=8),
            "dynamic_dims.seq",
            "major",
        ),
        (lambda c: c["dynamic_dims"].pop("batch"), "dynamic_dims.batch", "major"),
        (lambda c: c["dims"].update(n_vocab=9), "dims.n_vocab", "minor"),
        (
            lambda c: c.update(hyperparameters={"eps": 1e-5}),
            "hyperparameters",
            "minor",
        ),
        (lambda c: c["pooling"].update(normalized=True), "pooling.normalized", "major"),
        (lambda c: c.update(licence="MIT"), "licence", "major"),
        (
            lambda c: c["target"].update(cpu_features=["avx2"]),
            "target.cpu_features",
            "major",
        ),
        (lambda c: c["target"].update(summary="another"), "target.summary", "patch"),
        (lambda c: c["runtime"].update(version="9.9"), "runtime.version", "major"),
    ],
)
def test_a_change_of_the_contract_has_its_level(
    packed: Path,
    other: Path,
    change: Callable[[Contract], Any],
    what: str,
    level: str,
) -> None:
    plant(other, change, MANIFEST)
    one = only(packed, other)
    assert (one.area, one.what, one.level) == ("contract", what, level)
    assert one.causes == (MANIFEST,)
    assert found(packed, other).level == level


def test_an_entry_point_with_another_name_is_one_less_and_one_more(
    packed: Path, other: Path
) -> None:
    plant(other, removed_entry)
    less, more = found(packed, other).changes
    assert (less.what, less.after, less.level) == (
        "entry_points.encode",
        None,
        "major",
    )
    assert (more.what, more.after, more.level) == (
        "entry_points.embed",
        "(tokens, mask) -> (embedding)",
        "minor",
    )


def test_a_wider_range_is_minor(packed: Path, other: Path, tmp_path: Path) -> None:
    third = Path(shutil.copytree(packed, tmp_path / "third"))
    plant(other, lambda c: port(c).update(range={"min": 0, "max": [9]}))
    plant(third, lambda c: port(c).update(range={"min": 0, "max": [99]}))
    assert only(other, third).level == "minor"
    assert only(third, other).level == "major"


@pytest.mark.parametrize(
    ("name", "level", "cause"),
    [
        ("tokenizer.json", "major", (UNKNOWN,)),
        ("LICENSE", "minor", ("models/licences/Apache-2.0.txt",)),
        ("run.py", "patch", (UNKNOWN,)),
        ("README.md", "patch", ("models/licences/Apache-2.0.txt",)),
    ],
)
def test_a_changed_file_has_its_level(
    packed: Path, other: Path, name: str, level: str, cause: tuple[str, ...]
) -> None:
    resealed(other, name, (other / name).read_bytes() + b" ")
    if name in ("LICENSE", "README.md"):
        plant(other, lambda _: None, "models/licences/Apache-2.0.txt")
    one = only(packed, other)
    assert (one.area, one.what, one.level) == ("files", name, level)
    if name != "README.md":
        assert one.causes == cause


def test_a_file_may_be_missing_or_new(packed: Path, other: Path) -> None:
    (other / "run_text.py").unlink()
    plant(other, lambda c: c["files"].pop("run_text.py"))
    gone = only(packed, other)
    assert (gone.what, gone.after, gone.level) == ("run_text.py", None, "major")
    came = only(other, packed)
    assert (came.what, came.before, came.level) == ("run_text.py", None, "minor")


def test_another_module_is_a_patch_with_its_dispatches_and_the_component(
    packed: Path, other: Path
) -> None:
    resealed(other, "model.vmfb", b"another module")

    def change(contract: Contract) -> None:
        contract["module"]["dispatches"]["encode"] += 2
        contract["inputs"]["linked_module"]["sha256"] = "another"

    plant(other, change, GELU, TARGET)
    file, dispatches = found(packed, other).changes
    assert (file.what, file.level) == ("model.vmfb", "patch")
    assert dispatches.what == "dispatches of encode"
    assert dispatches.after == dispatches.before + 2
    assert file.causes == dispatches.causes == (GELU, TARGET)


def test_a_component_is_no_cause_if_the_linked_module_is_the_same(
    packed: Path, other: Path
) -> None:
    resealed(other, "model.vmfb", b"another module")
    plant(other, lambda _: None, GELU, TARGET, KERNELS)
    assert only(packed, other).causes == (TARGET, KERNELS)


def test_kernels_for_the_compiler_are_no_cause_of_a_contract(
    packed: Path, other: Path
) -> None:
    plant(other, lambda c: c["dims"].update(n_vocab=9), TARGET, KERNELS)
    assert only(packed, other).causes == (TARGET,)


def test_flags_and_compiler_are_compared(packed: Path, other: Path) -> None:
    def change(contract: Contract) -> None:
        contract["target"]["compile_flags"] = ["--iree-opt-level=O3"]
        contract["compiler"] |= {"version": "9.9.0", "commit": "f" * 40}

    plant(other, change)
    flag, version, commit = found(packed, other).changes
    assert (flag.area, flag.before, flag.after) == (
        "flags",
        None,
        "--iree-opt-level=O3",
    )
    assert (version.area, version.what, version.after) == (
        *("compiler", "version"),
        "9.9.0",
    )
    assert commit.what == "commit"
    assert found(packed, other).inputs == ("compiler", "compile flags")
    assert flag.causes == ("compile flags",)
    assert found(packed, other).level == "patch"


def bake(folder: Path, values: list[float]) -> None:
    """Put other weights into a bundle."""
    from iree.runtime import ParameterIndex

    content = np.array(values, np.float32).tobytes()
    index = ParameterIndex()
    described = 'TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2]}'
    index.add_buffer("w", content, metadata=described)
    index.create_archive_file(str(folder / "new.irpa"))
    resealed(folder, "model.irpa", (folder / "new.irpa").read_bytes())
    (folder / "new.irpa").unlink()
    sha256 = hashlib.sha256(content).hexdigest()

    def change(contract: Contract) -> None:
        contract["parameters"]["types"]["w"]["sha256"] = sha256
        contract["inputs"]["weights"]["files"] = [{"file": "w.bin", "sha256": sha256}]

    plant(folder, change)


def test_weights_are_compared_tensor_by_tensor(packed: Path, other: Path) -> None:
    bake(other, [1.5, -0.75])
    file, tensor = found(packed, other).changes
    assert (file.what, file.level) == ("model.irpa", "minor")
    assert (tensor.area, tensor.what, tensor.level) == ("weights", "w", "minor")
    assert tensor.numbers == {"max_abs": 0.5, "mean_abs": 0.25}
    assert file.causes == tensor.causes == ("weights: w.bin",)


def test_a_tensor_of_another_type_has_no_numbers(packed: Path, other: Path) -> None:
    def change(contract: Contract) -> None:
        contract["parameters"]["types"]["w"] |= {"element": "f16"}
        contract["parameters"]["types"]["v"] = {"element": "f32", "shape": [1]}

    plant(other, change)
    first, second = found(packed, other).changes
    assert (first.what, first.numbers) == ("w", {})
    assert str(first.after).startswith("f16[2] ")
    assert (second.what, second.before, second.after) == ("v", None, "f32[1]")


def test_errors_of_the_check_are_compared(packed: Path, other: Path) -> None:
    plant(other, lambda c: c["check"]["levels"]["model"].update(max_abs_error=9e-6))
    change = only(packed, other)
    assert (change.area, change.what) == ("check", "model max_abs_error")
    assert (change.before, change.after, change.level) == (1e-6, 9e-6, "patch")


def test_times_are_shown_and_do_not_count(packed: Path, other: Path) -> None:
    for folder, median in ((packed, 2.0), (other, 3.0)):
        run = {"entry_point": "encode", "sizes": {"batch": 1}}
        times = {"runs": [{**run, "latency_ms": {"median": median}}]}
        (folder.parent / "tiny-here.bench.json").write_text(json.dumps(times))
    same = found(packed, other)
    assert same.level == "none"
    (case,) = same.benchmarks
    assert (case.before_ms, case.after_ms) == (2.0, 3.0)
    (packed.parent / "tiny-here.bench.json").unlink()
    assert found(packed, other).notes == (
        "benchmarks: not at hand; their file is beside a built bundle",
    )


def test_a_bundle_of_the_version_before_differs_by_its_version_only(
    packed: Path, other: Path
) -> None:
    def older(contract: Contract) -> None:
        contract["schema"] = "ingot.bundle.v2"
        contract["files"]["LICENCE"] = contract["files"].pop("LICENSE")
        for key in ("text", "module"):
            del contract[key]
        del contract["parameters"]["types"]["w"]["sha256"]

    (other / "LICENSE").rename(other / "LICENCE")
    plant(other, older)
    assert found(other, packed).changes == ()
    assert "dispatches: one of the bundles does not record them" in (
        found(other, packed).notes
    )


def run(*words: str, **options: bool) -> int:
    return diff_command.diff(Call(words, {}, options, {}))


def test_the_command_takes_tars_and_says_what_differs(
    packed: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(packed), str(packed)) == 0
    assert capsys.readouterr().out.startswith("tiny@here and tiny@here: equal\n")
    bake(other, [1.5, -0.75])
    plant(other, lambda c: c["dynamic_dims"]["seq"].update(max=8), MANIFEST)
    tar = write_tar_of(other)
    assert run(str(packed), str(tar)) == 1
    assert capsys.readouterr().out.splitlines()[:4] == [
        "tiny@here -> tiny@here: major",
        "contract",
        "  dynamic_dims.seq: 1 to 32 -> 1 to 8 (major)",
        f"    because of {MANIFEST}",
    ]
    assert run(str(packed), str(tar), json=True) == 1
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json.loads(PAGE.read_text()))
    assert printed["level"] == "major"
    assert run(str(packed), str(tar), markdown=True) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## tiny@here: major change"
    row = next(line for line in lines if line.startswith("| weights "))
    assert row.endswith(
        f"; max_abs 0.5, mean_abs 0.25 | minor | {MANIFEST}, weights: w.bin |"
    )


def test_a_build_is_compared_with_a_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ("x86_64", "aarch64")
    bundles = [written(tmp_path / target, target) for target in targets]
    place = f"{tmp_path}/releases"
    image = model_image(bundles, "1.4.0")
    publish(locations.open_repository(place), image, "dev")
    words = (f"{place}:1.4.0", str(tmp_path / "aarch64"))
    assert diff_command.diff(Call(words, {"target": "aarch64"}, {}, {})) == 0
    capsys.readouterr()
    assert diff_command.diff(Call(words, {"target": "x86_64"}, {}, {})) == 1
    assert "target.machine: x86_64 -> aarch64 (major)" in capsys.readouterr().out
    with pytest.raises(IngotError, match="it has several targets"):
        run(*words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("a",), "diff compares two bundles, found 1"),
        (("a", "b"), "a: no such bundle\n  a bundle is a folder, a tar, or MODEL@TARG"),
        (("oci://host/repo", "b"), "oci://host/repo: a tag or a digest is missing"),
    ],
)
def test_what_is_no_bundle_is_rejected(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(IngotError) as caught:
        run(*words)
    assert str(caught.value).startswith(says)


def test_a_damaged_bundle_is_not_compared(packed: Path, other: Path) -> None:
    (other / "run.py").write_text("other")
    with pytest.raises(IngotError, match=r"^run\.py: changed since it was packed"):
        run(str(packed), str(other))
