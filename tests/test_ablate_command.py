"""Test the table, the files, the picture and the errors of `doit ablate`."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest

from ingot.ablation.ablation_report import FILES, Report, show, write
from ingot.ablation.line_plot import STYLES, line_plot
from ingot.ablation.modes import MODES, matrices
from ingot.project.catalogue import read
from tests.project import Project, edit
from tests.toy_ablation import reported, toy_subject
from tests.toy_decoder import MODEL, place


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    subject = toy_subject(tmp_path_factory.mktemp("ablate"))
    schemes = dict.fromkeys(matrices(subject.graph), "i8")
    planted = {"blk.1.attn_v.weight": "i4_block32"}
    return reported(subject, tuple(MODES), schemes | planted)


def shown(report: Report) -> list[str]:
    out = StringIO()
    show(report, out)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_every_mode_has_a_table_of_all_blocks(report: Report) -> None:
    lines = shown(report)
    titles = [line for line in lines if line.split(":")[0] in MODES]
    assert titles[:3] == [
        "f32: values between components rounded to f32",
        "weights: matrices rounded; matrices: i4_block32, i8",
        "activations: values between components rounded to bf16",
    ]
    head = lines[lines.index(titles[0]) + 1]
    assert " ".join(head.split()) == (
        "block max error MSE cosine ≤1e-2 ≤1e-3 own error x86_64"
    )
    for block in ("embed", "layer.0", "layer.2", "select", "head: logits"):
        assert sum(line.startswith(f" {block} ") for line in lines) == len(MODES)
    assert not [line for line in lines if "…" in line]


def test_the_last_lines_name_the_worst_block_and_kind(report: Report) -> None:
    lines = shown(report)
    start = lines.index("the block that adds most error, by mode")
    named = dict(line.split()[:2] for line in lines[start + 2 : start + 7])
    assert list(named) == list(MODES)
    assert named["weights"] == named["both"] == "layer.1"
    assert lines[-1] == "weights: of all kinds of matrix, attn_v adds most error"


def test_the_files_contain_the_values_of_the_table(
    report: Report, tmp_path: Path
) -> None:
    write(report, tmp_path / "ablate")
    assert sorted(p.name for p in (tmp_path / "ablate").iterdir()) == sorted(FILES)
    content = json.loads((tmp_path / "ablate/ablate.json").read_text())
    assert content["schema"] == "ingot.ablate.v1"
    assert content["modes"]["weights"]["most_error"] == "layer.1"
    assert content["worst_kind"] == "attn_v"
    assert content["matrices"]["blk.1.attn_v.weight"] == "i4_block32"
    assert content["checked"] == {"target": "x86_64", "max_abs_error": {"head": 2e-6}}
    lines = (tmp_path / "ablate/ablate.csv").read_text().splitlines()
    assert lines[0] == (
        "mode,block,value,max_abs_error,mse,cosine,close_1e-2,close_1e-3,"
        "relative_error,own_error"
    )
    assert len(lines) == 1 + len(report.measured.rows) == 1 + len(content["rows"])
    first = content["rows"][0]
    assert lines[1] == ",".join(str(cell) for cell in first.values())


def test_the_picture_is_the_same_each_time(report: Report, tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        write(report, tmp_path / name)
        texts.append((tmp_path / name / "ablate.svg").read_text())
    assert texts[0] == texts[1]
    for words in ("RMS error / RMS value", "layer.2", "weights (i4_block32, i8)"):
        assert words in texts[0]


def test_the_picture_has_a_line_a_mode_on_a_log_scale(report: Report) -> None:
    picture = line_plot(report)
    for mode, places in zip(MODES, (5, 6, 6, 6, 6), strict=True):
        # An f32 table's rows have no error in f32: there is no point for it.
        line, sample = re.findall(rf'<path d="M(.*)" class="{STYLES[mode]}"/>', picture)
        assert len(line.split(" L")) == places
        assert len(sample.split(" L")) == 2
    powers = [int(power) for power in re.findall(r">1e([+-]\d+)<", picture)]
    assert powers == list(range(powers[0], powers[-1] + 1))
    # Viewers of files know no variables.
    assert "var(" not in picture


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("ablate")
    made = Project.create(folder / "checkout")
    edit(place(made.root), "stored: f32", "stored: i8")
    return made


def test_unconverted_weights_can_be_baked_for_every_stored_type(
    project: Project,
) -> None:
    catalogue = read(project.root)
    assert "vulkan" not in catalogue.models[MODEL].unbuildable
    assert f"bake:{MODEL}@plain" in catalogue.plan.by_task


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("modes=hardwear",), "did you mean 'hardware'?"),
        (("tokens=9999",), "tokens=9999: expected 1 to 24, for toy-decoder"),
        (("prompt=x",), "prompt=x: ablate reads no variable named 'prompt'"),
        (("build",), "ablate takes no task, found 'build'"),
    ],
)
def test_a_wrong_command_line_is_reported_and_nothing_is_baked(
    project: Project, words: tuple[str, ...], says: str
) -> None:
    run = project.doit("ablate", f"model={MODEL}", "target=x86_64", *words)
    assert says in run.err
    assert (run.code, run.out) == (3, "")
    assert not (project.root / f"build/{MODEL}").exists()


def test_it_bakes_what_it_needs_and_rounds_as_is_stored(project: Project) -> None:
    words = ("ablate", f"model={MODEL}", "target=x86_64", "tokens=5")
    first = project.doit(*words)
    assert first.code == 0, first.out + first.err
    assert re.search(f"bake:{MODEL}@plain: (ran|restored)", first.err)
    assert "weights: matrices rounded; matrices: i8" in first.out
    folder = project.root / f"build/{MODEL}/ablate"
    written = {name: (folder / name).read_bytes() for name in FILES}
    again = project.doit(*words)
    assert (again.code, again.out, again.err) == (0, first.out, "")
    assert {name: (folder / name).read_bytes() for name in FILES} == written
