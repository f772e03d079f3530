"""Test that renamed words are errors that state the new word, and `doit migrate`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ingot.bundles.reader import read_bundle
from ingot.cli.commands import Call
from ingot.cli.migrate_command import migrate
from ingot.errors import IngotError
from ingot.model import renamed
from ingot.model.architecture import read_architecture
from ingot.model.renamed import RENAMED, Renamed
from ingot.model.target import read_target
from ingot.model.yaml_nodes import format_errors
from tests import tiny_decoder
from tests.manifest_cases import message, place
from tests.project import ROOT, Project, edit, one_model

HINT = "`doit migrate` rewrites the files of the project"
MANIFEST = "models/toy-moe.yaml"
LLAMA = "models/architectures/llama.yaml"
DBRX = "models/architectures/dbrx.yaml"
LAYOUT = "targets/layouts/packed_n8.yaml"
TARGET = "targets/x86_64.yaml"
OLD = {
    MANIFEST: ("  naming: gguf", "  'names': gguf  # of tensors\r\n  experts: last"),
    LLAMA: ("role: last_index", 'role: "last"'),
    DBRX: ("hf_fused", "hf_joined"),
    LAYOUT: ("tile_n: 8", "lane: 8"),
    TARGET: ("layout: packed_n8", "layout: lanes8"),
}
N_FUSED = 3
NOTHING = "nothing to rewrite: no file uses a renamed word\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose files have the old words."""
    root = one_model(tmp_path / "checkout")
    for name, (new, old) in OLD.items():
        text = (root / name).read_text("utf-8")
        assert new in text
        (root / name).write_bytes(text.replace(new, old).encode())
    return root


def position(root: Path, name: str, text: str) -> str:
    """Where a text is first in a file of the checkout: `path:line:column`."""
    before, found, _ = (root / name).read_bytes().decode().partition(text)
    assert found, text
    lines = before.split("\n")
    return f"{name}:{len(lines)}:{len(lines[-1]) + 1}"


def content(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def run(root: Path, *files: str, dry_run: bool = False) -> int:
    class Here(Call):
        root = Path()

    here = Here(files, {}, {"dry_run": dry_run}, {})
    Here.root = root
    return migrate(here)


def test_each_kind_of_file_is_rewritten_in_place(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(root)
    places = {
        "names -> naming": position(root, MANIFEST, "'names'"),
        "experts -> expert_axis": position(root, MANIFEST, "experts:"),
        "last -> -1": position(root, MANIFEST, "last"),
        "lane -> tile_n": position(root, LAYOUT, "lane:"),
        "lanes8 -> packed_n8": position(root, TARGET, "lanes8"),
        "last -> last_index": position(root, LLAMA, '"last"'),
    }
    assert run(root, dry_run=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "5 files to rewrite"
    assert content(root) == before
    os.chmod(root / MANIFEST, 0o640)
    assert run(root) == 0
    assert capsys.readouterr().out.splitlines() == [*lines[:-1], "5 files rewritten"]
    assert len(lines) == len(places) + N_FUSED + 1
    assert {f"{place}: {change}" for change, place in places.items()} <= set(lines)
    after = content(root)
    assert {name for name in after if after[name] != before[name]} == set(OLD)
    for name, (new, old) in OLD.items():
        if name == MANIFEST:
            new = "  'naming': gguf  # of tensors\r\n  expert_axis: -1"
        elif name == LLAMA:
            new = 'role: "last_index"'
        assert after[name] == before[name].replace(old.encode(), new.encode())
    assert (root / MANIFEST).stat().st_mode & 0o777 == 0o640
    read_target(root / TARGET, root)
    # A second run finds nothing.
    assert run(root) == 0
    assert capsys.readouterr().out == NOTHING
    assert content(root) == after


def test_only_the_named_files_are_rewritten(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(root)
    link = root.parent / "link.yaml"
    link.symlink_to(root / LLAMA)
    place = position(root, LLAMA, '"last"').partition(":")[2]
    assert run(root, str(link)) == 0
    assert capsys.readouterr().out == (
        f"{link}:{place}: last -> last_index\n1 file rewritten\n"
    )
    assert link.is_symlink()
    after = content(root)
    assert {name for name in after if after[name] != before[name]} == {LLAMA}


def test_nothing_is_rewritten_if_a_file_cannot_be_read(root: Path) -> None:
    (root / "targets/broken.yaml").write_text("layout: [\n", "utf-8")
    edit(root / MANIFEST, "  'names': gguf", "  naming: hf\n  'names': gguf")
    (root / LLAMA).write_bytes(
        (root / LLAMA).read_bytes().replace(b'role: "last"', b'role: "la\\x73t"')
    )
    before = content(root)
    role, names = position(root, LLAMA, '"la'), position(root, MANIFEST, "'names")
    with pytest.raises(IngotError) as caught:
        run(root)
    assert str(caught.value).splitlines() == [
        f"{role}: 'last' was renamed to 'last_index'",
        "  its spelling is unusual: rewrite it by hand",
        f"{names}: weights.names: renamed to 'naming', which is here too",
        "  remove one of them",
        "targets/broken.yaml:2:1: did not find expected node content, while parsing a"
        " flow node",
    ]
    assert content(root) == before


def test_a_file_that_is_not_there_is_an_error(root: Path) -> None:
    with pytest.raises(IngotError) as caught:
        run(root, "models/none.yaml")
    assert str(caught.value) == (
        "models/none.yaml:1:1: cannot be read: no such file or directory"
    )


def test_a_name_is_not_an_old_one_while_its_file_exists(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(
        root / "targets/layouts/plain.yaml", root / "targets/layouts/lanes8.yaml"
    )
    assert run(root, TARGET) == 0
    assert capsys.readouterr().out == NOTHING


def test_a_component_is_renamed_wherever_it_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    item = Renamed("*", "moe/old", "moe/mul_mat_id", "components/{}.mlir")
    monkeypatch.setattr(renamed, "RENAMED", (item,))
    layout = root / LAYOUT
    edit(layout, "lane: 8", "tile_n: 8")
    edit(
        layout,
        "  moe/mul_mat_id:\n    f32: moe/mul_mat_id_packed",
        "  moe/old:\n    f32: moe/old",
    )
    edit(root / TARGET, "lanes8", "packed_n8")
    key, value = (position(root, LAYOUT, word) for word in ("moe/old:", "moe/old\n"))
    with pytest.raises(ExceptionGroup) as caught:
        read_target(root / TARGET, root)
    told = format_errors(caught.value)
    assert f"{value}: kernels.moe/old.f32: 'moe/old' was renamed to" in told
    assert run(root, LAYOUT) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{key}: moe/old -> moe/mul_mat_id",
        f"{value}: moe/old -> moe/mul_mat_id",
        "1 file rewritten",
    ]


def test_an_old_word_of_a_manifest_is_an_error_that_states_the_new_one(
    tmp_path: Path,
) -> None:
    path = place(tmp_path, "small")
    edit(path, "  naming: hf", "  names: hf\n  experts: last")
    assert message(path, tmp_path) == (
        "models/small.yaml:11:3: weights.names: 'names' was renamed to 'naming'\n"
        f"  {HINT}\n"
        "models/small.yaml:12:3: weights.experts: 'experts: last' was renamed to"
        f" 'expert_axis: -1'\n  {HINT}\n"
    )


def test_old_words_of_architectures_are_errors(root: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        read_architecture(root / LLAMA, root)
    place = position(root, LLAMA, '"last"')
    assert format_errors(caught.value) == (
        f"{place}: entry_points.prefill.inputs.last.role:"
        f" 'last' was renamed to 'last_index'\n  {HINT}"
    )
    with pytest.raises(ExceptionGroup) as caught:
        read_architecture(root / DBRX, root)
    told = format_errors(caught.value).splitlines()
    place = position(root, DBRX, "hf_joined")
    assert len(told) == 2 * N_FUSED
    assert told[:2] == [
        f"{place}: parameters.blk.{{layer}}.attn_q.weight.hf_joined:"
        " 'hf_joined' was renamed to 'hf_fused'",
        f"  {HINT}",
    ]


def test_old_words_of_targets_and_layouts_are_errors(root: Path) -> None:
    place = position(root, TARGET, "lanes8")
    with pytest.raises(ExceptionGroup) as caught:
        read_target(root / TARGET, root)
    assert format_errors(caught.value) == (
        f"{place}: layout: 'lanes8' was renamed to 'packed_n8'\n  {HINT}"
    )
    edit(root / TARGET, "lanes8", "packed_n8")
    place = position(root, LAYOUT, "lane:")
    with pytest.raises(ExceptionGroup) as caught:
        read_target(root / TARGET, root)
    assert format_errors(caught.value) == (
        f"{place}: lane: 'lane' was renamed to 'tile_n'\n  {HINT}"
    )


def test_the_commands_are_there(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "checkout")
    edit(project.root / "models/toy.yaml", "  naming: ", "  names: ")
    ran = project.doit("migrate", "--dry-run")
    assert ran.out.endswith(": names -> naming\n1 file to rewrite\n")
    ran = project.doit("build")
    assert ran.code == 3
    assert "weights.names: 'names' was renamed to 'naming'" in ran.err
    assert project.doit("migrate", "models/toy.yaml").code == 0
    ran = project.doit("phase-vm:toy@*")
    assert "'phase' was renamed: doit ir-vm:toy@*\n" in ran.err


def test_a_bundle_of_an_earlier_version_may_have_an_old_role(tmp_path: Path) -> None:
    content = tiny_decoder.contract()
    ports = content["entry_points"][0]["inputs"]
    assert [port["role"] for port in ports][2] == "last_index"
    ports[2]["role"] = "last"
    (tmp_path / "model.irpa").write_bytes(b"")
    bundle = read_bundle(tiny_decoder.sealed(tmp_path, content))
    assert [port.role for port in bundle.entry_points[0].inputs][2] == "last_index"


def test_no_word_is_renamed_twice() -> None:
    olds = [(item.section, item.old) for item in RENAMED]
    assert len(set(olds)) == len(olds)
    assert not [item for item in RENAMED if (item.section, item.new) in olds]
    assert all(item.new for item in RENAMED)


@pytest.mark.parametrize("item", [item for item in RENAMED if item.file])
def test_a_name_is_that_of_a_file_that_was_renamed(item: Renamed) -> None:
    assert (ROOT / item.file.format(item.new)).is_file()
    assert not (ROOT / item.file.format(item.old)).exists()
