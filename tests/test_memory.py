"""Test that caches stay in their caller's memory, or the model is rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingot.emit.aliasing import memory_of
from ingot.emit.block_functions import _form
from ingot.emit.modules import main_module
from ingot.errors import IngotError
from ingot.model.graph import (
    Argument,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    Instance,
    Port,
)
from ingot.model.shapes import TensorType
from tests import two_norms

CACHE = TensorType((2, "batch", 4), "f32")
ROW = TensorType(("batch", 4), "f32")


def instance(name: str, *arguments: Argument, result: TensorType) -> Instance:
    return Instance(
        name=name,
        component=f"cache/{name}",
        oracle=("oracles/cache.py", name),
        dims=(),
        indices=(),
        scalars=(("layer", "i32"),),
        arguments=arguments,
        results=(Argument("y", result),),
    )


WRITE = instance("write", Argument("cache", CACHE), Argument("x", ROW), result=CACHE)
READ = instance("read", Argument("cache", CACHE), Argument("x", ROW), result=ROW)


def layer(number: int, *calls: Call, **given: str) -> Block:
    """A block that writes a row into the cache and reads another."""
    use = calls or (
        Call("put", "write", ("cache", "x"), (number,), ("written",), (0,)),
        Call("get", "read", ("written", "x"), (number,), ("y",), (0,)),
    )
    types = {"cache": CACHE, "x": ROW, "written": CACHE, "y": ROW}
    return Block(
        name=f"layer.{number}",
        kind="layer",
        inputs=(("cache", given.get("cache", "kept")), ("x", "x")),
        calls=use,
        outputs=((given.get("to", "kept"), "written"), ("x", "y")),
        types=tuple(types.items()),
    )


def graph(*blocks: Block, updates: str = "cache", value: str = "kept") -> Graph:
    return Graph(
        model="toy",
        layout="plain",
        dynamic=(DynamicDim("batch", 1, 4),),
        instances=(WRITE, READ),
        parameters=(),
        entry_points=(
            EntryPoint(
                "decode",
                (Port("cache", CACHE, "cache", "cache"), Port("x", ROW, "hidden", "x")),
                (layer(0, cache="cache"), *blocks),
                (
                    Port("x", ROW, "hidden", "x"),
                    Port("cache", CACHE, "cache", value, updates),
                ),
            ),
        ),
    )


def error_of(model: Graph) -> str:
    with pytest.raises(IngotError) as found:
        main_module(model)
    return str(found.value)


def test_every_layer_writes_into_the_memory_of_the_input() -> None:
    model = graph(layer(1), layer(2))
    memory = memory_of(model, model.entry_points[0])
    assert [step.held for step in memory.steps] == [{"cache": "cache"}] * 3
    text = main_module(model)
    assert text.count("util.func private @decode.layer(") == 1
    assert text.count("        %size.batch, %cache.buffer, ") == 3
    assert "to %cache : !hal.buffer" in text
    assert "util.return %layer.2.y.sized, %cache :" in text


def test_what_was_overwritten_cannot_be_read() -> None:
    assert error_of(graph(layer(1, cache="cache"))) == (
        "toy: decode: block layer.1 reads cache, which an earlier block has"
        " overwritten\n"
        "  use the value that that block returns"
    )


def test_an_output_updates_what_it_is_made_of() -> None:
    expected = (
        "toy: decode: cache cannot update cache: {} does not derive from it\n"
        "  a component updates an operand by a result of the same type"
    )
    assert error_of(graph(layer(1, to="other"))) == expected.format("kept")
    assert error_of(graph(value="cache")) == expected.format("cache")


def test_what_lives_in_an_input_is_an_output_that_updates_it() -> None:
    model = graph()
    (entry,) = model.entry_points
    copy = Port("copy", CACHE, "cache", "kept")
    twice = replace(entry, outputs=(*entry.outputs, copy))
    assert error_of(replace(model, entry_points=(twice,))) == (
        "toy: decode: copy is kept, which aliases cache\n"
        "  add 'updates: cache', or remove the output"
    )


def test_a_trace_has_no_cache_under_any_name() -> None:
    model = graph(layer(1, cache="renamed"))
    (entry,) = model.entry_points
    blocks = (layer(0, cache="cache", to="renamed"), entry.blocks[1])
    entry = replace(entry, blocks=blocks)
    assert entry.traced() == {"layer.0": ("x",), "layer.1": ("x",)}


def test_an_update_is_read_where_it_is_made() -> None:
    blind = layer(
        1,
        Call("put", "write", ("cache", "x"), (1,), ("written",), (0,)),
        Call("get", "read", ("cache", "x"), (1,), ("y",), (0,)),
    )
    assert error_of(graph(blind)) == (
        "toy: block layer.1: written updates cache, but nothing in the block reads it\n"
        "  move a node that reads it into the same block"
    )


def test_blocks_of_other_forms_have_functions_of_their_own() -> None:
    first, second = layer(1).calls
    renamed = replace(second, instance="read_2")
    model = graph(layer(1, first, renamed))
    other = replace(READ, name="read_2")
    text = main_module(replace(model, instances=(*model.instances, other)))
    assert "util.func private @decode.layer(" in text
    assert "util.func private @decode.layer.2(" in text
    # Of several that are inlined the compiler keeps one's writes.
    assert text.count("inlining_policy = #util.inline.never") == 2


def test_a_value_is_not_the_parameter_of_its_name() -> None:
    block = two_norms.BLOCK
    first, last = block.calls
    named = replace(first, operands=("w", "param:w", "param:w"), results=("first",))
    types = tuple({**dict(block.types), "w": two_norms.X}.items())
    taken = replace(block, calls=(named, last), inputs=(("w", "y"),), types=types)
    forms = [
        replace(taken, name=f"layer.{number}", calls=(call, last))
        for number, call in enumerate(
            (named, replace(named, operands=("w", "w", "param:w")))
        )
    ]
    assert len({_form(two_norms.GRAPH, item, frozenset()) for item in forms}) == 2


def test_an_entry_point_with_caches_hands_on_one_value() -> None:
    wide = layer(1)
    wide = replace(wide, outputs=(*wide.outputs, ("kept_row", "x")))
    assert error_of(graph(wide)) == (
        "toy: decode: block layer.1 takes x and returns kept_row and x; if inputs"
        " are updated, each block takes the one value that the previous one returns\n"
        "  combine the values, or merge the blocks that pass them on"
    )


def test_blocks_that_hand_on_several_values_are_inlined() -> None:
    one = two_norms.BLOCK
    blocks = [one]
    for name in ("layer.1", "layer.2", "layer.3"):
        blocks.append(replace(one, name=name, inputs=(("hidden", "y"),)))
    entry = two_norms.GRAPH.entry_points[0]
    points = (replace(entry, blocks=tuple(blocks)),)
    text = main_module(replace(two_norms.GRAPH, entry_points=points))
    # The first takes what the caller gives, the last makes what it gets.
    assert [text.count(f"util.call @run.layer{n}(") for n in ("", ".2", ".3")] == [
        *(1, 2, 1)
    ]
    assert text.count("inlining_policy = #util.inline.never") == 1
    wide = tuple(
        replace(block, outputs=(("y", "last"), (f"first.{block.name}", "first")))
        for block in blocks
    )
    apart = replace(two_norms.GRAPH, entry_points=(replace(entry, blocks=wide),))
    assert "inlining_policy" not in main_module(apart)
