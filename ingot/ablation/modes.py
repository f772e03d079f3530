"""Decide what each mode of an ablation rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.ablation import rounding
from ingot.errors import IngotError, did_you_mean
from ingot.model.graph import Graph
from ingot.model.oracle import Oracle

Array: TypeAlias = Any

MODES = {
    "f32": "values between components rounded to f32",
    "weights": "matrices rounded",
    "activations": "values between components rounded to bf16",
    "both": "matrices rounded, and values between components to bf16",
    "hardware": "MXFP8 matrices, and values between components in bf16",
}
"""By mode: what is rounded. Everything else is float64."""

SCHEMES = tuple(rounding.SCHEMES)[1:]
"""The types that matrices can be rounded to; f32 leaves them as they are."""

# Used where the manifest stores f32 and the command line names no scheme.
DEFAULT_SCHEME = "i8"
HARDWARE_SCHEME = "mxfp8"


@dataclass(frozen=True, slots=True)
class Mode:
    """What one run of the oracles rounds."""

    name: str
    schemes: Mapping[str, str]  # by matrix; the others stay unchanged
    values: Callable[[Array], Array] | None = None  # None: float64, as oracles return

    def parameter(self, name: str, value: Array) -> Array:
        """Return a parameter as this run reads it."""
        scheme = self.schemes.get(name, "f32")
        if scheme == "f32":
            return value
        rows = value.reshape(-1, value.shape[-1])
        return rounding.rounded(rows, scheme).reshape(value.shape)

    def oracle(self, exact: Oracle) -> Oracle:
        """Return the oracle with its results rounded, except integers."""
        round_ = self.values
        if round_ is None:
            return exact

        def narrow(value: Array) -> Array:
            return round_(value) if value.dtype.kind == "f" else value

        def run(**arguments: Any) -> Any:
            results = exact(**arguments)
            if isinstance(results, tuple):
                return tuple(narrow(value) for value in results)
            return narrow(results)

        return run


def read_modes(text: str | None) -> tuple[str, ...]:
    """Return the modes that `modes=` names, in canonical order, or all modes.

    Raises: IngotError for an unknown one.
    """
    if text is None:
        return tuple(MODES)
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in MODES:
            raise IngotError(
                f"modes={word}: no mode named '{word}'",
                did_you_mean(word, list(MODES), "modes"),
            )
    return tuple(name for name in MODES if name in words)


def read_scheme(text: str | None) -> str | None:
    """Return the scheme that `weights=` names, or None.

    Raises: IngotError for an unknown one.
    """
    if text is not None and text not in SCHEMES:
        raise IngotError(
            f"weights={text}: no scheme named '{text}'",
            did_you_mean(text, SCHEMES, "schemes"),
        )
    return text


def matrices(graph: Graph) -> tuple[str, ...]:
    """Return the parameters that schemes apply to; vectors and tables stay f32."""
    return tuple(
        item.name
        for item in graph.parameters
        if len(item.type.shape) > 1 and not item.table and item.type.element == "f32"
    )


def matrix_schemes(
    names: tuple[str, ...], stored: Callable[[str], str], asked: str | None
) -> dict[str, str]:
    """Return each matrix's scheme: the requested one, or the manifest's."""
    if asked is not None:
        return dict.fromkeys(names, asked)
    found = {name: stored(name) for name in names}
    if set(found.values()) <= {"f32"}:
        return dict.fromkeys(names, DEFAULT_SCHEME)
    return found


def modes(names: tuple[str, ...], schemes: Mapping[str, str]) -> tuple[Mode, ...]:
    """Return what each mode rounds; `schemes` applies to modes that round matrices."""
    hardware = dict.fromkeys(schemes, HARDWARE_SCHEME)
    made = {
        "f32": Mode("f32", {}, rounding.f32),
        "weights": Mode("weights", schemes),
        "activations": Mode("activations", {}, rounding.bf16),
        "both": Mode("both", schemes, rounding.bf16),
        "hardware": Mode("hardware", hardware, rounding.bf16),
    }
    return tuple(made[name] for name in names)


def kinds(schemes: Mapping[str, str]) -> tuple[Mode, ...]:
    """Return a mode for each kind of matrix, which rounds it alone, in all layers."""
    found: dict[str, dict[str, str]] = {}
    for name, scheme in schemes.items():
        found.setdefault(kind(name), {})[name] = scheme
    return tuple(Mode(name, of_kind) for name, of_kind in found.items())


def kind(parameter: str) -> str:
    """Return a matrix's kind: "attn_q" for "blk.3.attn_q.weight"."""
    words = parameter.removesuffix(".weight").split(".")
    return ".".join(words[2:] if words[0] == "blk" and len(words) > 2 else words)
