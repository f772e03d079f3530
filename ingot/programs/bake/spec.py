"""Define the specification of one parameter archive."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.weights.parameter_spec import ParameterSpec

ARCHIVE = "model.irpa"
REPORT = "bake.json"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of weights, with its path in the sandbox and its name in messages."""

    path: str  # "weights/model.safetensors"
    label: str  # its name in the manifest
    sha256: str | None  # the pinned one


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeSpec:
    """The parameters of an archive, and the weights that they are made of.

    The weights come from the files. Without files, the seed generates them, or every
    one of them is the number `splat`.
    """

    model: str
    layout: str
    origin: str  # of the weights, as the bundle names it
    seed: int | None
    splat: float | None
    files: tuple[InputFile, ...]
    ignore: tuple[str, ...]  # patterns of tensors that no parameter needs
    parameters: tuple[ParameterSpec, ...]
