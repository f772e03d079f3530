"""The specification of one parameter archive."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.weights.parameter_spec import ParameterSpec

ARCHIVE = "model.irpa"
REPORT = "bake.json"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of weights: where the program sees it, and what messages call it."""

    path: str  # "weights/model.safetensors"
    label: str  # as the manifest names it
    sha256: str | None  # that the file must have


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeSpec:
    """The parameters of an archive, and the weights that they are made of.

    Weights come from the files; where there are none, from the seed, or all of them
    are the number `splat`.
    """

    model: str
    layout: str
    origin: str  # of the weights, as the bundle names it
    seed: int | None
    splat: float | None
    files: tuple[InputFile, ...]
    ignore: tuple[str, ...]  # patterns of tensors that no parameter is made of
    parameters: tuple[ParameterSpec, ...]
