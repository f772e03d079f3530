"""Choose the next token from logits: the most likely one, or a random draw.

The options that narrow the draw apply in this order: temperature, the `top_k` most
likely tokens, the most likely tokens that together have the probability `top_p`. All
sums are in float64, and of equally likely tokens the lower id comes first, so that a
seed reproduces the same tokens.

Source: Holtzman et al. 2020, arXiv:1904.09751 (top_p); Fan et al. 2018,
    arXiv:1805.04833 (top_k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.errors import IngotError

Array: TypeAlias = Any

# Usually enough of the most likely tokens to reach `top_p`; sorting a whole vocabulary
# for every token would take as long as running a small model.
FIRST_SORTED = 1024


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen; by default, always the most likely one."""

    temperature: float = 0.0  # logits are divided by it; 0: no draw
    top_k: int | None = None  # None: all
    top_p: float = 1.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Return whether to take the most likely token without a draw."""
        return self.temperature == 0


class Sampler:
    """Draws one token after the other."""

    def __init__(self, sampling: Sampling, known: Array) -> None:
        """Start the draw from its seed; only the ids `known` are ever drawn.

        Shapes: known [token], i64, rising.
        """
        import numpy as np

        self._sampling = sampling
        self._known = known
        self._random = np.random.default_rng(sampling.seed)

    def pick(self, logits: Array) -> int:
        """Return the next token's id.

        Shapes: logits [n_vocab].
        Raises: IngotError if a logit is not finite.
        """
        import numpy as np

        candidates = np.asarray(logits)[self._known]
        if not np.isfinite(candidates).all():
            raise IngotError(
                "the model's logits are not finite numbers",
                "its weights, or its target's code, are broken: see `doit check`",
            )
        if self._sampling.greedy:
            return int(self._known[candidates.argmax()])
        kept, weights = narrow(candidates, self._sampling)
        ends = weights.cumsum()
        # `right`: a weight of 0 is never drawn, not even by a 0.
        place = np.searchsorted(ends, self._random.random() * ends[-1], side="right")
        return int(self._known[kept[min(int(place), len(kept) - 1)]])


def narrow(logits: Array, sampling: Sampling) -> tuple[Array, Array]:
    """Return the indices of the tokens that may be drawn, and their weights.

    Shapes: logits [token] -> [kept], [kept].
    Units: weights are probabilities up to one factor.
    """
    import numpy as np

    kept = np.arange(len(logits))
    # The temperature does not change the order, so only the `top_k` tokens are divided.
    if sampling.top_k is not None and sampling.top_k < len(logits):
        kept = largest(logits, sampling.top_k)
    scaled = logits[kept].astype(np.float64)
    # A temperature close to 0 makes them infinite, and their weights 0.
    with np.errstate(over="ignore"):
        weights = np.exp((scaled - scaled.max()) / sampling.temperature)
    if sampling.top_p == 1:
        return kept, weights
    wanted = sampling.top_p * weights.sum()
    size = FIRST_SORTED
    while True:
        first = largest(scaled, size)
        enough = int(np.searchsorted(weights[first].cumsum(), wanted)) + 1
        if enough <= len(first) or len(first) == len(kept):
            return kept[first[:enough]], weights[first[:enough]]
        size *= 8


def largest(values: Array, count: int) -> Array:
    """Return the indices of the largest values, the largest first.

    Of equal values, the lower index comes first.

    Shapes: values [n] -> [min(count, n)].
    """
    import numpy as np

    if count >= len(values):
        return np.argsort(-values, kind="stable")
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    equal = np.flatnonzero(values == least)[: count - len(above)]
    places = np.sort(np.concatenate([above, equal]))
    return places[np.argsort(-values[places], kind="stable")]
