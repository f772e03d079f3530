"""List the mistakes that are planted in decoders with trained weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.real_mistakes import Change, Edit, Layer, Mistake, Weights, swapped

ATTENTION = "attention/attention_causal"


# Most layers of Gemma 3 have windows, and a table of their own.
LOCAL = "rope_local.table"


def llama(layer: int, dims: dict[str, int], table: str = "rope.table") -> list[Mistake]:
    """Return mistakes in a layer of a Llama, its head and its embedding."""
    return [*_archived(layer, dims, table), *_changed(layer), *_elsewhere()]


def gemma(layer: int, dims: dict[str, int]) -> list[Mistake]:
    """Return those of a Llama, and mistakes in what Gemma 3 has in addition."""
    at = f"blk.{layer}."
    more = [
        *(
            _edit(f"the +1 of {name} is forgotten", _add(f"{at}{name}.weight", -1.0))
            for name in (
                "attn_q_norm",
                "attn_k_norm",
                "post_attention_norm",
                "post_ffw_norm",
            )
        ),
        _edit(
            "norms of queries and keys are exchanged",
            _exchange(f"{at}attn_q_norm.weight", f"{at}attn_k_norm.weight"),
        ),
        _edit(
            "norms behind attention and ffn are exchanged",
            _exchange(f"{at}post_attention_norm.weight", f"{at}post_ffw_norm.weight"),
        ),
    ]
    table = _exchange(LOCAL, "rope_global.table")
    more.append(_edit("positions are those of a global layer", table))
    near = "%is_near = arith.cmpi sgt"
    # In a Llama no window ends within the context.
    far = _text("attn", near, "%is_near = arith.cmpi sge")
    end = _change("the window's end is off by one", far)
    return [*llama(layer, dims, LOCAL), *more, end]


def _edit(name: str, edit: Edit, block: str = "layer") -> Mistake:
    return Mistake(name, edit=edit, block=block)


def _change(name: str, change: Change, block: str = "layer") -> Mistake:
    return Mistake(name, change=change, block=block)


def _heads(name: str, head_dim: int) -> Edit:
    """Exchange the rows of the first two heads."""

    def edit(weights: Weights) -> None:
        swapped(weights[name], slice(0, head_dim), slice(head_dim, 2 * head_dim))

    return edit


def _head_columns(name: str, head_dim: int) -> Edit:
    def edit(weights: Weights) -> None:
        columns = weights[name].T
        swapped(columns, slice(0, head_dim), slice(head_dim, 2 * head_dim))

    return edit


def _interleaved(name: str, head_dim: int) -> Edit:
    """Leave the rows of heads in GGUF's order of rotated pairs."""

    def edit(weights: Weights) -> None:
        rows, columns = weights[name].shape
        heads = weights[name].reshape(rows // head_dim, 2, head_dim // 2, columns)
        weights[name][:] = heads.swapaxes(1, 2).reshape(rows, columns)

    return edit


def _exchange(one: str, other: str) -> Edit:
    def edit(weights: Weights) -> None:
        first, second = weights[one].copy(), weights[other].copy()
        weights[one][:], weights[other][:] = second, first

    return edit


def _of_layer(at: str, other: str, name: str) -> Edit:
    """Take a parameter of another layer."""

    def edit(weights: Weights) -> None:
        weights[f"{at}{name}.weight"][:] = weights[f"{other}{name}.weight"]

    return edit


def _to(name: str, new: Callable[[Any], Any]) -> Edit:
    def edit(weights: Weights) -> None:
        weights[name][:] = new(weights[name])

    return edit


def _add(name: str, number: float) -> Edit:
    return _to(name, lambda value: value + np.float32(number))


def _part(name: str, place: Any, new: Callable[[Any], Any]) -> Edit:
    def edit(weights: Weights) -> None:
        weights[name][place] = new(weights[name][place])

    return edit


def _rounded(value: Any) -> Any:
    """Return the numbers with the 8 digits of bfloat16."""
    bits = np.ascontiguousarray(value).view(np.uint32) + np.uint32(0x8000)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def _archived(layer: int, dims: dict[str, int], table: str) -> list[Mistake]:
    at, other = f"blk.{layer}.", f"blk.{layer - 1}."
    head_dim, half = dims["head_dim"], dims["head_dim"] // 2
    q, k, v, o = (f"{at}attn_{x}.weight" for x in ("q", "k", "v", "output"))
    gate, up, down = (f"{at}ffn_{x}.weight" for x in ("gate", "up", "down"))
    norms = [f"{at}attn_norm.weight", f"{at}ffn_norm.weight"]
    column = (slice(0, 8), 5)
    return [
        _edit("two heads of queries are exchanged", _heads(q, head_dim)),
        _edit("two heads of values are exchanged", _heads(v, head_dim))
        if dims["n_head_kv"] > 1
        else _edit("values are turned round", _to(v, np.flipud)),
        _edit("two heads of the output are exchanged", _head_columns(o, head_dim)),
        _edit("queries stay in GGUF's order", _interleaved(q, head_dim)),
        _edit("keys stay in GGUF's order", _interleaved(k, head_dim)),
        _edit("keys and values are exchanged", _exchange(k, v)),
        _edit("gate and up are exchanged", _exchange(gate, up)),
        _edit("the norms are exchanged", _exchange(*norms)),
        _edit("+1 is added to the first norm", _add(norms[0], 1.0)),
        _edit("+1 is added to the second norm", _add(norms[1], 1.0)),
        *(
            _edit(f"{name} is another layer's", _of_layer(at, other, name))
            for name in ("attn_norm", "attn_q", "attn_output", "ffn_norm", "ffn_down")
        ),
        _edit(
            "a row of ffn_down is another layer's",
            lambda w: w[down].__setitem__(7, w[f"{other}ffn_down.weight"][7]),
        ),
        _edit("a tile's column of queries is 0", _part(q, column, np.zeros_like)),
        _edit("a tile's column of values is 0", _part(v, column, np.zeros_like)),
        _edit("a tile's column of ffn_down is 0", _part(down, column, np.zeros_like)),
        _edit("one query weight has another sign", _part(q, (3, 4), np.negative)),
        _edit("rows of ffn_up are one off", _to(up, lambda x: np.roll(x, 1, 0))),
        _edit("queries are rounded to bfloat16", _to(q, _rounded)),
        _edit("ffn_down is rounded to bfloat16", _to(down, _rounded)),
        # Half of it, because a norm behind it would undo a factor of all.
        _edit(
            "half of ffn_down is 0.1 % too large",
            _part(down, slice(0, None, 2), lambda x: x * np.float32(1.001)),
        ),
        _edit(
            "one norm weight is 1 % too large", _part(norms[0], 0, lambda x: x * 1.01)
        ),
        _edit(
            "sines have another sign",
            _part(table, (slice(None), slice(half, None)), np.negative),
        ),
        _edit("positions are one off", _to(table, lambda x: np.roll(x, 1, 0))),
        _edit("the rope base is 1 % larger", _rope(table, 1.01)),
        _edit("the rope base is 10 times as large", _rope(table, 10.0)),
    ]


def _rope(name: str, factor: float) -> Edit:
    """Turn by another base: pair i by position / (factor * base)^(i / half)."""

    def edit(weights: Weights) -> None:
        table = weights[name].astype(np.float64)
        half = table.shape[1] // 2
        slower = factor ** (-np.arange(half) / half)
        # Row 1 has the angle of each pair.
        angle = np.arctan2(table[1, half:], table[1, :half])
        turned = np.arange(len(table))[:, None] * (angle * slower)
        weights[name][:] = np.hstack([np.cos(turned), np.sin(turned)])

    return edit


def _scaled(call: str, scalar: str, factor: float) -> Change:
    return lambda layer: layer.scalar(call, scalar, lambda value: value * factor)


def _shifted(call: str, scalar: str, number: int) -> Change:
    return lambda layer: layer.scalar(call, scalar, lambda value: value + number)


def _with(call: str, **operands: str) -> Change:
    return lambda layer: layer.operands(call, **operands)


def _text(call: str, right: str, wrong: str) -> Change:
    return lambda layer: layer.component(call, right, wrong)


def _changed(layer: int) -> list[Mistake]:
    past = "%is_past = arith.cmpi sle"
    mean = "%mean = arith.divf %row_square_sum, %n_embd_f32 : f32"
    one = "%unit = arith.constant 1.0 : f32\n      "
    less = f"{one}%less = arith.subf %n_embd_f32, %unit : f32\n      "
    return [
        _change(
            "eps of the first norm is 10 times as large",
            _scaled("attn_norm", "eps", 10),
        ),
        _change("eps of the first norm is a tenth", _scaled("attn_norm", "eps", 0.1)),
        _change(
            "eps of the second norm is 10 times as large",
            _scaled("ffn_norm", "eps", 10),
        ),
        _change("eps of the second norm is a tenth", _scaled("ffn_norm", "eps", 0.1)),
        _change("the scale is 0.1 % too large", _scaled("attn", "scale", 1.001)),
        _change("the scale is an eighth", _scaled("attn", "scale", 0.125)),
        _change("the window is shorter by one", _shifted("attn", "window", -1)),
        _change("keys are written to another layer", _shifted("keys", "layer", -1)),
        _change("attention reads another layer", _shifted("attn", "layer", -1)),
        _change("keys and values are taken for each other", _caches),
        _change(
            "gate and up are taken for each other",
            _with("ffn_act", gate="ffn_up", up="ffn_gate"),
        ),
        _change("keys are not turned", _turn("keys", "rope_k")),
        _change("queries are not turned", _turn("attn", "rope_q")),
        _change(
            "the second norm reads the layer's input", _with("ffn_norm", x="hidden")
        ),
        _change(
            "the first residual is left out", _with("attn_residual", b="attn_output")
        ),
        _change(
            "the second residual is the layer's input", _with("output", b="hidden")
        ),
        _change(
            "the mask is off by one", _text("attn", past, "%is_past = arith.cmpi slt")
        ),
        _change(
            "the mean is that of n - 1",
            _text(
                "attn_norm",
                mean,
                f"{less}%mean = arith.divf %row_square_sum, %less : f32",
            ),
        ),
    ]


def _caches(layer: Layer) -> None:
    layer.operands("attn", cache_k="values", cache_v="keys")


def _turn(call: str, turned: str) -> Change:
    """Take what a rope takes in place of what it gives."""

    def change(layer: Layer) -> None:
        (given,) = layer.calls[turned].operands[:1]
        argument = {"keys": "x", "attn": "q"}[call]
        layer.operands(call, **{argument: given})

    return change


def _elsewhere() -> list[Mistake]:
    cast = "%row = arith.index_cast %position : i32 to index"
    earlier = (
        "%one = arith.constant 1 : i32\n      %zero = arith.constant 0 : i32\n"
        "      %before = arith.subi %position, %one : i32\n"
        "      %kept = arith.maxsi %before, %zero : i32\n"
        "      %row = arith.index_cast %kept : i32 to index"
    )
    return [
        _edit("the last norm has +1", _add("output_norm.weight", 1.0), "head"),
        _edit(
            "two tokens of the head are exchanged",
            lambda w: swapped(
                w["token_embd.weight"], slice(1000, 1001), slice(2000, 2001)
            ),
            "head",
        ),
        _edit(
            "a tile's column of the head is 0",
            _part("token_embd.weight", (slice(16, 24), 3), np.zeros_like),
            "head",
        ),
        _change(
            "eps of the last norm is 10 times as large",
            _scaled("norm", "eps", 10),
            "head",
        ),
        _edit(
            "rows of the embedding are one off",
            _to("token_embd.weight", lambda x: np.roll(x, 1, 0)),
            "embed",
        ),
        _change(
            "the last token is one off",
            _text("row", cast, earlier),
            "select",
        ),
    ]
