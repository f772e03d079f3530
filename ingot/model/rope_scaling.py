"""Scale the angles of a rope table, so that a model reads longer texts.

A manifest states a scaling in the words of its paper. What it does to the angles is one
factor for each pair of columns, and one for all cosines and sines, so that the table is
still a parameter and no component knows of it.

Logarithms and powers are computed in decimal arithmetic: the archive has the same bits
on every machine.

Source: linear: Chen et al. 2023, arXiv:2306.15595, eq. 4; yarn: Peng et al. 2023,
    arXiv:2309.00071, section 3.2 and its code for the rounded limits; longrope: Ding et
    al. 2024, arXiv:2402.13753, section 3.1; llama3: Meta 2024, llama-models,
    models/llama3/model.py, apply_scaling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from ingot.errors import ManifestError
from ingot.model.schema_types import (
    Boolean,
    Integer,
    ListOf,
    Number,
    Section,
    Tagged,
    key,
    optional,
)
from ingot.weights.rope_table import RopeTable

# More digits than a float64 has, so that rounding to float64 is correct.
_DIGITS = 40
_TWO_PI = 2 * Decimal("3.141592653589793238462643383279502884197169399375")

_FACTOR = "by which positions are divided"
_TRAINED = "positions of the model before it was scaled"
_ATTENTION = "by which cosines and sines are multiplied"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearSection(Section):
    """Every angle is divided."""

    kind: str
    factor: float = key(Number(), _FACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Section(Section):
    """Slow pairs are divided, fast ones are kept, those between are mixed."""

    kind: str
    factor: float = key(Number(), _FACTOR)
    low_freq_factor: float = key(
        Number(), "turns within n_ctx_trained up to which a pair is divided"
    )
    high_freq_factor: float = key(
        Number(), "turns within n_ctx_trained from which a pair is kept"
    )
    n_ctx_trained: int = key(Integer(1), _TRAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnSection(Section):
    """Slow pairs are divided, fast ones are kept, with a ramp over those between."""

    kind: str
    factor: float = key(Number(), _FACTOR)
    beta_fast: float = optional(
        Number(),
        "turns within n_ctx_trained from which a pair is kept",
        default=32.0,
    )
    beta_slow: float = optional(
        Number(),
        "turns within n_ctx_trained up to which a pair is divided",
        default=1.0,
    )
    truncate: bool = optional(
        Boolean(), "whether the ramp begins and ends at whole pairs", default=True
    )
    attention_factor: float = key(Number(), _ATTENTION)
    n_ctx_trained: int = key(Integer(1), _TRAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRopeSection(Section):
    """Each pair has a divisor of its own, and another one for long contexts.

    All positions have the same ones: those of n_ctx, as in llama.cpp and vLLM.
    """

    kind: str
    short: tuple[float, ...] = key(
        ListOf(Number(), min=1), "divisors of the pairs if n_ctx <= n_ctx_trained"
    )
    long: tuple[float, ...] = key(
        ListOf(Number(), min=1), "divisors of the pairs if n_ctx is larger"
    )
    attention_factor: float = key(Number(), _ATTENTION)
    n_ctx_trained: int = key(Integer(1), _TRAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisorsSection(Section):
    """Each pair has a divisor of its own, as GGUF's rope_freqs.weight states them."""

    kind: str
    divisors: tuple[float, ...] = key(
        ListOf(Number(), min=1), "by which the angles of each pair are divided"
    )


ScalingSection = (
    LinearSection | Llama3Section | YarnSection | LongRopeSection | DivisorsSection
)

ROPE_SCALING = Tagged(
    "kind",
    "how the angles are scaled",
    (
        ("linear", LinearSection),
        ("llama3", Llama3Section),
        ("yarn", YarnSection),
        ("longrope", LongRopeSection),
        ("divisors", DivisorsSection),
    ),
)


def scaling_errors(section: ScalingSection, n_rot: int) -> Iterator[ManifestError]:
    """Yield why a table whose rows have n_rot values cannot be scaled so."""
    half = n_rot // 2
    for name in section.at.names("") or ():
        value = getattr(section, name)
        if isinstance(value, tuple) and len(value) != half:
            message = f"expected a number for each of {half} pairs, found {len(value)}"
            yield section.at.error(name, message)
        for item in value if isinstance(value, tuple) else (value,):
            if not isinstance(item, str | bool) and item <= 0:
                yield section.at.error(name, f"expected numbers above 0, found {item}")
                break
    for low, high in (
        ("low_freq_factor", "high_freq_factor"),
        ("beta_slow", "beta_fast"),
    ):
        least, most = getattr(section, low, 0), getattr(section, high, 1)
        if least >= most:
            message = f"expected more than {low} = {least:g}, found {most:g}"
            yield section.at.error(high, message)


def scaled(section: ScalingSection, base: float, n_rot: int, n_ctx: int) -> RopeTable:
    """Return what a table of n_ctx rows is computed from."""
    half = n_rot // 2
    with localcontext() as context:
        context.prec = _DIGITS
        match section:
            case LinearSection(factor=factor):
                found = [1 / Decimal(factor)] * half
            case Llama3Section():
                found = [_llama3(section, base, i, n_rot) for i in range(half)]
            case YarnSection():
                found = _yarn(section, base, n_rot)
            case LongRopeSection(short=short, long=long):
                divisors = long if n_ctx > section.n_ctx_trained else short
                found = [1 / Decimal(item) for item in divisors]
            case DivisorsSection(divisors=divisors):
                found = [1 / Decimal(item) for item in divisors]
    factor = getattr(section, "attention_factor", 1.0)
    return RopeTable(base, tuple(map(float, found)), factor)


def _llama3(section: Llama3Section, base: float, i: int, n_rot: int) -> Decimal:
    """Return the multiplier of pair i, by its turns within the trained context."""
    low, high = Decimal(section.low_freq_factor), Decimal(section.high_freq_factor)
    frequency = Decimal(base) ** (Decimal(-2 * i) / n_rot)
    turns = section.n_ctx_trained * frequency / _TWO_PI
    kept = min(max((turns - low) / (high - low), Decimal(0)), Decimal(1))
    return kept + (1 - kept) / Decimal(section.factor)


def _yarn(section: YarnSection, base: float, n_rot: int) -> list[Decimal]:
    """Return the multipliers of all pairs, along a ramp from kept to divided ones."""

    def pair(turns: float) -> Decimal:
        """Return the pair, not a whole one, that makes so many turns."""
        ratio = section.n_ctx_trained / (Decimal(turns) * _TWO_PI)
        return n_rot * ratio.ln() / (2 * Decimal(base).ln())

    first, last = pair(section.beta_fast), pair(section.beta_slow)
    if section.truncate:
        first = first.to_integral_value(ROUND_FLOOR)
        last = last.to_integral_value(ROUND_CEILING)
    first, last = max(first, Decimal(0)), min(last, Decimal(n_rot - 1))
    if first == last:
        last += Decimal("0.001")  # as in the paper's code
    found = []
    for i in range(n_rot // 2):
        divided = min(max((i - first) / (last - first), Decimal(0)), Decimal(1))
        found.append(1 - divided + divided / Decimal(section.factor))
    return found
