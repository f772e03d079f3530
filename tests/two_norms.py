"""Provide a graph whose emitted text is short enough to compare whole."""

from __future__ import annotations

from ingot.model.graph import (
    Argument,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    Instance,
    Parameter,
    Port,
)
from ingot.model.shapes import TensorType

X = TensorType(("batch", "seq", 4), "f32")
W = TensorType((4,), "f32")
NORM = Instance(
    name="layer_norm__n_embd_4",
    component="normalization/layer_norm",
    oracle=("oracles/normalization.py", "layer_norm"),
    dims=(("batch", None), ("seq", None), ("n_embd", 4)),
    indices=(),
    scalars=(("eps", "f32"),),
    arguments=(Argument("x", X), Argument("weight", W), Argument("bias", W)),
    results=(Argument("y", X),),
)
# The same weight twice: tied, it is loaded once.
BLOCK = Block(
    name="layer.0",
    kind="layer",
    inputs=(("hidden", "x"),),
    calls=(
        Call(
            "first", NORM.name, ("hidden", "param:w", "param:w"), (1e-12,), ("first",)
        ),
        Call("last", NORM.name, ("first", "param:w", "param:b"), (0.5,), ("last",)),
    ),
    outputs=(("y", "last"),),
    types=(("hidden", X), ("first", X), ("last", X)),
)
GRAPH = Graph(
    model="two-norms",
    layout="plain",
    dynamic=(DynamicDim("batch", 1, 4), DynamicDim("seq", 1, 8)),
    instances=(NORM,),
    parameters=(Parameter("w", W, "w"), Parameter("b", W, "b")),
    entry_points=(
        EntryPoint(
            "run",
            (Port("x", X, "hidden", "x"), Port("z", X, "hidden", "z")),
            (BLOCK,),
            (Port("y", X, "hidden", "y"),),
        ),
    ),
)
