"""Test how the reader and specialize understand a component's header and signature."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from ingot.model.component import (
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
    parse_component,
    read_component,
)
from ingot.model.shapes import parse_dim, parse_type
from ingot.model.yaml_nodes import format_errors

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests/bad_manifests"
HEADS = (CASES / "components/toy/heads.mlir").read_text("utf-8")


def message(text: str) -> str:
    with pytest.raises(ExceptionGroup) as caught:
        parse_component(text, "toy/heads")
    return format_errors(caught.value)


def edited(old: str, new: str) -> str:
    assert old in HEADS
    return HEADS.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "toy.py heads",
            "toy.py haeds",
            "components/toy/heads.mlir:10:1: Oracle: no function 'haeds' in"
            " oracles/toy.py\n  did you mean 'heads'?",
        ),
        (
            "toy.py heads",
            "tools.py heads",
            "components/toy/heads.mlir:10:1: Oracle: no file 'oracles/tools.py'",
        ),
    ],
)
def test_an_oracle_that_is_not_there_is_told_when_the_component_is_read(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    for part in ("components", "oracles"):
        shutil.copytree(CASES / part, tmp_path / part)
    assert read_component("toy/heads", tmp_path).oracle[1] == "heads"
    (tmp_path / "components/toy/heads.mlir").write_text(edited(old, new), "utf-8")
    with pytest.raises(ExceptionGroup) as caught:
        read_component("toy/heads", tmp_path)
    assert format_errors(caught.value) == expected


def test_signature_has_names_types_dims_and_places() -> None:
    found = parse_component(HEADS, "toy/heads")
    x, mask, n_head = found.arguments
    assert isinstance(x, TensorFormal)
    assert isinstance(mask, TensorFormal)
    assert isinstance(n_head, IndexFormal)
    assert (x.name, x.type) == ("x", parse_type("f32[batch, n_head*head_dim]"))
    assert str(x.position) == "components/toy/heads.mlir:14:7"
    assert mask.type == parse_type("i32[batch]")
    assert (n_head.name, n_head.dim) == ("n_head", "n_head")
    assert found.dynamic == {"batch"}
    assert found.oracle == ("oracles/toy.py", "heads")
    assert [(r.name, str(r.type)) for r in found.results] == [
        ("result_0", "f32[batch, n_head*head_dim]"),
        ("result_1", "i32[batch]"),
    ]


def test_a_line_of_dims_without_end_is_an_error_at_once() -> None:
    dims = "seq, " * 14_000
    text = HEADS.replace("batch (dynamic)", f"{dims}batch (dynamic)")
    start = time.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        parse_component(text, "toy/heads")
    assert time.monotonic() - start < 2
    first = format_errors(caught.value).splitlines()[0]
    assert re.fullmatch(
        r"components/toy/heads\.mlir:8:1: Dims: too long:"
        r" 7\d{4} characters are more than 2000",
        first,
    )


def test_a_number_of_the_signature_is_a_scalar_with_its_type() -> None:
    found = parse_component(
        (CASES / "components/toy/norm.mlir").read_text("utf-8"), "toy/norm"
    )
    scalars = [a for a in found.arguments if isinstance(a, ScalarFormal)]
    assert [(a.name, a.type) for a in scalars] == [("eps", "f32")]
    assert [result.name for result in found.results] == ["result"]


def test_a_comment_may_follow_dims_or_say_nothing_more() -> None:
    found = parse_component(edited("[batch] 0 = padding", "[batch]"), "toy/heads")
    assert isinstance(found, ComponentSignature)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "// Oracle:  oracles/toy.py heads\n",
            "",
            "components/toy/heads.mlir:1:1: the header has no 'Oracle:'\n  expected, in"
            " this order: Source, Exports, Imports, Dims, Types, Oracle, Try",
        ),
        (
            "// Imports: none\n",
            "// Imports: none\n// Imports: none\n",
            "components/toy/heads.mlir:8:1: 'Imports:' is in the header twice",
        ),
        (
            "@heads.forward",
            "@head.forward",
            "components/toy/heads.mlir:6:1: Exports: expected '@heads.forward',"
            " found '@head.forward'",
        ),
        (
            "module @heads {",
            "module @head {",
            "components/toy/heads.mlir:12:1: expected 'module @heads', as the file is"
            " named, found '@head'",
        ),
        (
            "module @heads {",
            "builtin.module @heads {",
            "components/toy/heads.mlir:1:1: expected 'module @heads {' below the"
            " header, found none",
        ),
        (
            "util.func public @forward(",
            "util.func private @forward(",
            "components/toy/heads.mlir:12:1: the module has no"
            " 'util.func public @forward('",
        ),
        (
            "tensor<?x?xf32>,  // [batch, n_head*head_dim]",
            "tensor<?x?xf32>,  // [batch, 1, n_head*head_dim]",
            "components/toy/heads.mlir:14:7: x: 'tensor<?x?xf32>' and"
            " '[batch, 1, n_head*head_dim]' disagree",
        ),
        (
            "%mask: tensor<?xi32>, // [batch]",
            "%mask: tensor<?xi64>, // [batch]",
            "components/toy/heads.mlir:15:7: mask: expected a tensor or a number of"
            " f32, f16, bf16, i32, i16, i8, i1, found 'tensor<?xi64>'",
        ),
        (
            "%mask:",
            "%x:",
            "components/toy/heads.mlir:15:7: two arguments are named %x",
        ),
        (
            "%n_head: index        // n_head",
            "%n_head: index",
            "components/toy/heads.mlir:16:7: %n_head: expected its dim in the comment,"
            " found ''\n  %n_head: index  // n_head",
        ),
        (
            "batch (dynamic)",
            "batch, seq (dynamic)",
            "components/toy/heads.mlir:8:1: Dims: 'seq' is in no argument",
        ),
        (
            "n_head, head_dim (fixed",
            "n_head (fixed",
            "components/toy/heads.mlir:14:7: dim 'head_dim' is not in the header's"
            " Dims\ncomponents/toy/heads.mlir:18:7: dim 'head_dim' is not in the"
            " header's Dims",
        ),
        (
            "n_head, head_dim (fixed",
            "n_head, head_dim = n_head + n_past (fixed",
            "components/toy/heads.mlir:8:1: Dims: no dim named 'n_past'",
        ),
        (
            "n_head, head_dim (fixed",
            "n_head, head_dim multiple of n_part (fixed",
            "components/toy/heads.mlir:8:1: Dims: no dim named 'n_part'",
        ),
        (
            "n_head, head_dim (fixed",
            "n_head, even head_dim >= four (fixed",
            "components/toy/heads.mlir:8:1: Dims: 'even head_dim >= four' is in no"
            " argument\ncomponents/toy/heads.mlir:14:7: dim 'head_dim' is not in the"
            " header's Dims\ncomponents/toy/heads.mlir:18:7: dim 'head_dim' is not in"
            " the header's Dims",
        ),
        (
            "batch (dynamic), n_head",
            "even batch (dynamic), n_head",
            "components/toy/heads.mlir:8:1: Dims: 'even batch' needs 'batch' fixed by"
            " specialize, found dynamic",
        ),
        (
            "// [batch] the mask",
            "// [n_past] the mask",
            "components/toy/heads.mlir:19:7: dim 'n_past' is not in the header's Dims",
        ),
    ],
    ids=[
        "label missing",
        "label twice",
        "exports something else",
        "module named otherwise",
        "no module",
        "no public function",
        "rank",
        "element type",
        "argument twice",
        "index without dim",
        "dim of no argument",
        "dim not in header",
        "sum of another dim",
        "multiple of another dim",
        "rule that is none",
        "rule of a dynamic dim",
        "dim of a result only",
    ],
)
def test_a_malformed_component_is_refused_at_its_line(
    old: str, new: str, expected: str
) -> None:
    assert message(edited(old, new)) == expected


LOOKUP = (ROOT / "components/embedding/embedding_lookup_packed.mlir").read_text("utf-8")
CHOICES = "\n  Types: f32 in, weight in {f32, bf16}, f32 out; and !weight = bf16 below"


def test_a_weight_stands_for_each_of_its_types() -> None:
    found = parse_component(LOOKUP, "embedding/embedding_lookup_packed")
    assert (found.weights, found.weight) == (("f32", "bf16", "f16"), "bf16")
    assert found.stem == "embedding_lookup_packed_bf16"
    plain = found.with_weight("f32")
    assert plain.stem == "embedding_lookup_packed"
    weight, ids, _ = plain.arguments
    assert isinstance(weight, TensorFormal)
    assert weight.type == parse_type("f32[n_tile, n_embd, tile_n]")
    assert ids == found.arguments[1]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "!weight = bf16",
            "!weight = i8",
            "15:1: !weight: 'i8' is not among the header's types" + CHOICES,
        ),
        (
            "weight in {f32, bf16, f16}",
            "bf16 weight",
            "15:1: !weight: 'bf16' is not among the header's types" + CHOICES,
        ),
        (
            "!weight = bf16",
            "",
            "1:1: Types: 'weight in' without a line '!weight = ...' below the header",
        ),
    ],
)
def test_a_weight_without_its_types_is_refused(
    old: str, new: str, expected: str
) -> None:
    assert old in LOOKUP
    with pytest.raises(ExceptionGroup) as caught:
        parse_component(LOOKUP.replace(old, new), "embedding/embedding_lookup_packed")
    place = "components/embedding/embedding_lookup_packed.mlir"
    assert f"{place}:{expected}" in format_errors(caught.value)


def test_an_argument_may_say_what_stands_for_it() -> None:
    found = read_component("attention/attention_causal", ROOT)
    *_, block_size, sink = found.arguments
    assert isinstance(block_size, IndexFormal)
    assert block_size.default == 64
    assert isinstance(sink, TensorFormal)
    assert sink.is_optional
    assert (found.stem, found.absent) == ("attention_causal_sink", ())
    alone = found.leaving_out({"q"})
    assert alone.arguments == found.arguments[:-1]
    assert (alone.stem, alone.absent) == ("attention_causal", (10,))
    assert found.leaving_out({"sink"}) == found


def test_text_that_ends_early_is_refused() -> None:
    end = HEADS.index("  ) ->")
    assert message(HEADS[:end]).endswith(
        "components/toy/heads.mlir:17:1: expected the results on this line\n"
        "  ) -> tensor<?x?xf32> {  // [rows, n_embd]"
    )
    assert "expected 'module @heads {'" in message("")


def test_equal_products_are_equal_in_any_order_and_shown_as_written() -> None:
    written, turned = parse_dim("n_head*head_dim"), parse_dim("head_dim*n_head")
    assert written == turned
    assert str(written) == "n_head*head_dim"
    assert written.divided_by(parse_dim("head_dim")) == parse_dim("n_head")
    assert parse_dim("2*n_embd").divided_by(parse_dim("n_ff")) is None
    assert parse_dim("3*n_embd").divided_by(parse_dim("2")) is None
    assert parse_dim("2*3*n_embd").resolve({"n_embd": 4}) == 24
