from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from ingot.bundles.contract import unseal
from ingot.cli import tar_command
from ingot.engine.actions import Output
from ingot.errors import IngotError
from ingot.model.component import Components
from ingot.model.licence import licences
from ingot.model.manifest import read_manifest
from ingot.model.target import read_target
from ingot.stages.bundle import plan_bundle
from ingot.stages.compile import plan_compile
from tests.command_calls import call
from tests.tiny_bundle import (
    FILES,
    pack,
    pack_whole,
    ship,
    specification,
    write_tar_of,
)
from tests.tiny_model import ROOT, WEIGHT, Tiny, lay_out, run_stage


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("packed"))


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
    write_tar_of(bench.parent / "bundle")
    first, second = (
        (folder / "tiny-here.tar").read_bytes() for folder in (packed, bench.parent)
    )
    assert first == second


def test_the_times_name_the_bundle_by_digest(packed: Path) -> None:
    contract = (packed / "bundle/bundle.json").read_bytes()
    times = json.loads((packed / "tiny-here.bench.json").read_text())
    assert times["bundle"] == {
        "file": "bundle.json",
        "sha256": hashlib.sha256(contract).hexdigest(),
        "size_bytes": len(contract),
    }


def test_without_redistribution_there_is_no_tar(tmp_path: Path) -> None:
    pack(tmp_path)
    changed = specification()
    changed["contract"] |= {"licence": "LicenseRef-own", "redistribution": "no"}
    code, printed = run_stage(tmp_path, "bundle", changed)
    assert code == 0, printed
    says = "LicenseRef-own does not let you give these weights to others"
    assert printed.startswith(f"redistribution: no; {says}\nbundle.json: ")
    with pytest.raises(IngotError) as caught:
        tar_command.tar(call(bundle=str(tmp_path / "bundle")))
    assert str(caught.value) == (
        f"tiny@here: {says}, so no tar is packed for them\n"
        "  if its text allows it, write `redistribution: true` into the manifest"
    )
    assert [*tmp_path.glob("*.tar")] == []


def test_a_tar_is_written_where_it_is_asked_for(
    packed: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    expected = (packed / "tiny-here.tar").read_bytes()
    path, folder = tmp_path / "own.tar", str(packed / "bundle")
    assert tar_command.tar(call(bundle=folder, to=str(path))) == 0
    sha256 = hashlib.sha256(expected).hexdigest()
    said = f"{path}: {len(expected)} bytes, sha256 {sha256}\n"
    assert capfdbinary.readouterr().out == said.encode()
    assert path.read_bytes() == expected
    assert tar_command.tar(call(bundle=folder, to="-")) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == expected
    with pytest.raises(IngotError, match="are two ways to name a bundle"):
        tar_command.tar(call(bundle=folder, model="toy"))


def test_a_file_that_changed_is_not_packed(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "bundle")
    (tmp_path / "bundle/run.py").write_text("other code\n")
    with pytest.raises(IngotError, match=r"^run\.py: changed since it was packed; "):
        tar_command.tar(call(bundle=str(tmp_path / "bundle")))
    (tmp_path / "bundle/run.py").unlink()
    with pytest.raises(IngotError, match=r"^run\.py: No such file or directory"):
        tar_command.tar(call(bundle=str(tmp_path / "bundle")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


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
    sha256 = hashlib.sha256(WEIGHT.tobytes()).hexdigest()
    expected = {"element": "f32", "shape": [2], "sha256": sha256}
    assert contract["parameters"]["types"] == {"w": expected}
    assert set(contract["module"]["dispatches"]) == {"encode"}
    assert len(contract["compiler"]["commit"]) == 40


def test_a_bundle_whose_check_failed_is_refused(tmp_path: Path) -> None:
    code, printed = pack(tmp_path, passed=False)
    assert code == 1
    assert printed == (
        "bundle tiny@here: not bundled\n  check.json: the check did not pass\n"
    )
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("key", "expected", "found"),
    [
        ("origin", "synthetic, seed 1", "synthetic, seed 666"),
        ("model", "tiny", "tinier"),
        ("layout", "plain", "lanes8"),
    ],
)
def test_an_archive_that_was_baked_from_something_else_is_refused(
    tmp_path: Path, key: str, expected: str, found: str
) -> None:
    lay_out(tmp_path, Tiny())
    ship(tmp_path)
    report = tmp_path / "bake.json"
    report.write_text(json.dumps({**json.loads(report.read_text()), key: found}))
    code, printed = run_stage(tmp_path, "bundle", specification())
    assert code == 1
    assert printed == (
        "bundle tiny@here: not bundled\n"
        f"  bake.json: wrong {key}; expected '{expected}', found '{found}'\n"
    )


def test_parameters_that_do_not_fit_the_module_are_refused(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    ship(tmp_path)
    (tmp_path / "sources/models/licences").mkdir(parents=True)
    text = (tmp_path / "linked.mlir").read_text()
    (tmp_path / "linked.mlir").write_text(text.replace('"w">', '"v">'))
    code, printed = run_stage(tmp_path, "bundle", specification())
    assert code == 1
    assert printed.startswith("bundle tiny@here: not bundled\n")
    assert "parameter 'v': not loaded by model.vmfb" in printed


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


def test_the_plan_ships_the_parts_and_keeps_times_out_of_the_bundle() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    compiled = tuple(plan_compile(manifest.graph, target))
    action = plan_bundle(manifest, target, compiled, Components(ROOT))
    assert action.outputs == (
        *(f"bundle/{name}" for name in FILES),
        "all-minilm-l6-v2-x86_64.bench.json",
    )
    spec = dict(action.inputs)["spec.json"]
    assert "iree-llvmcpu-target-cpu=x86-64-v3" in repr(spec)
    assert "components/linear/linear_bias.mlir" in repr(spec)


def test_bundles_of_one_layout_share_one_archive() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    archives = set()
    for name in ("x86_64", "aarch64"):
        target = read_target(ROOT / f"targets/{name}.yaml", ROOT)
        action = plan_bundle(manifest, target, (), Components(ROOT))
        archives.add(dict(action.inputs)["model.irpa"])
    assert archives == {Output("bake:all-minilm-l6-v2@packed_n8", "model.irpa")}
