"""Mistakes that change no result, or none that a check could hold, with the reason."""

from __future__ import annotations

_GUARD = "keeps a division by zero away; any number that small does"
_UNSEEN = "stands for no score at all; any number that low does"
_STEP = "the last term of a series: less than two steps of f32 at its end"
_VIEW = "the same numbers in the same order: the sizes beside it say all"
_DIGITS = "less than the tolerance of a check; test_components holds these digits"

EQUIVALENT: dict[str, str] = {
    "pooling/mean_pool: %least_count 1.0e-9 -> 1.5000000000000002e-09": _GUARD,
    "attention/attention_bidirectional: "
    "%masked_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_causal: "
    "%unseen_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_sink: "
    "%unseen_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "moe/expert_sum: %x_experts [1], [2,  -> [1, 2], [": _VIEW,
    **{
        f"{component}: {name}": reason
        for component in ("audio/stft", "elementwise/cos", "elementwise/sin")
        for name, reason in {
            "%c10 -2.75573192e-7 -> -4.13359788e-07": _STEP,
            "%s9 2.75573192e-6 -> 4.13359788e-06": _STEP,
        }.items()
    },
    **{
        f"{component}: {name}": _DIGITS
        for component in ("elementwise/cos", "elementwise/sin")
        for name in (
            "%c8 2.48015873e-5 -> 3.720238095e-05",
            "%s7 -1.98412698e-4 -> -0.00029761904699999997",
        )
    },
}

# Components of so little text that there are not three mistakes to make.
FEW = (
    "shape/concat",
    "shape/contiguous",
    "shape/copy",
    "shape/reshape",
    "shape/slice_leading",
)
