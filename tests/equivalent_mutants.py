"""List planted mistakes that no check can find, each with the reason."""

from __future__ import annotations

_GUARD = "keeps a division by zero away; any number that small does"
_UNSEEN = "stands for no score at all; any number that low does"
_STEP = "the last term of a series: less than two steps of f32 at its end"
_HELD = "a clamp that no caller needs who keeps the rule; test_undefined breaks it"
_FLAT = "where tanh is 1 in f32; any number there does"
_MORE = "more keys than any query of the block sees, and all of them masked"
_UNUSED = "divides what a select then leaves out"
_OWN = "the sizes of what a copy fills: the compiler takes those of what it copies"
_WIDER = "half as far again from the middle of a quarter, where the series holds too"
_AGAIN = "one level more, which merges what is one run"
_UNREAD = "stands where nothing is read: behind the k first of a run"
_MASKED = "the bits above are masked, or shifted away"
_SAME = "2^-14, the least normal float16, is the same either way"
_DROPPED = "what is computed of rows that are not there is dropped"
_POSITIVE = "the code is not below zero"
_REASONS = {"ule": _SAME, "arith.uitofp": _POSITIVE}
_HALVES = ("%is_small ult -> ule", "%bits arith.shrui -> arith.shrsi")
_MIN_HALVES = (
    "%min_is_small ult -> ule",
    "%min_bits arith.shrui -> arith.shrsi",
)
_LOWERED = "%lowered arith.shrui -> arith.shrsi"
_HIGH = "%high_lowered arith.shrui -> arith.shrsi"
_UNSIGNED = "%wide arith.sitofp -> arith.uitofp"
_PACKED_U32 = {
    "bf16": (_LOWERED,),
    "f16": _HALVES,
    "i8": (),
    "i8_block32": _HALVES,
    "i4_block32": (*_HALVES, _LOWERED),
    "q4_1": (*_HALVES, *_MIN_HALVES, _LOWERED, _UNSIGNED),
    "q5_0": (*_HALVES, _LOWERED, _HIGH),
    "q4_k": (*_HALVES, *_MIN_HALVES, _LOWERED, _UNSIGNED),
    "q6_k": (*_HALVES, _LOWERED, _HIGH),
}
_SQUARED = "the deviation is squared next: its sign is lost"
_VIEW = "the same numbers in the same order: the sizes beside it say all"
# Of these the compiler makes the same bytes.
_READ = "the sizes of a slice: the loop that reads it has those of x"
_FILLED = "as many numbers, filled by a loop with the sizes of what it reads"
_PASSED = "the size of what a barrier passes on: the compiler takes those of x"

EQUIVALENT: dict[str, str] = {
    "pooling/mean_pool: %least_count 1.0e-9 -> 1.5000000000000002e-09": _GUARD,
    "attention/attention_bidirectional: "
    "%masked_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_causal: "
    "%unseen_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_paged: "
    "%unseen_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_causal: %next_query arith.addi -> arith.subi": _MORE,
    "attention/attention_paged: %one 1.0 -> 1.5": _UNUSED,
    "attention/attention_paged_decode: "
    "%unseen_score -1.0e30 -> -1.5000000000000002e+30": _UNSEEN,
    "attention/attention_paged_decode: %one 1.0 -> 1.5": _UNUSED,
    **{
        f"{component}: {name}": _FLAT
        for component in (
            "attention/attention_paged",
            "attention/attention_paged_decode",
            "elementwise/soft_cap",
            "normalization/dyt",
        )
        for name in ("%flat 10.0 -> 15.0", "%flat_low -10.0 -> -15.0")
    },
    **{
        f"normalization/{norm}: %centred arith.subf with operands swapped": _SQUARED
        for norm in ("group_norm", "layer_norm", "layer_norm_no_bias")
    },
    "moe/expert_sum: %x_experts [1], [2,  -> [1, 2], [": _VIEW,
    "moe/mul_mat_id: %y_joined [0], [1,  -> [0, 1], [": _VIEW,
    "shape/view: %y [1], [2,  -> [1, 2], [": _VIEW,
    "embedding/add_position: %positions (%seq, %n_embd) -> (%n_embd, %seq)": _READ,
    "indexing/scatter: %place_init (%batch, %seq) -> (%seq, %batch)": _FILLED,
    "moe/renormalize: %total_init (%batch, %seq) -> (%seq, %batch)": _FILLED,
    **{
        f"{linear}: %n_in tensor.dim %weight, %c1 -> tensor.dim %weight, %c0": _PASSED
        for linear in ("linear/linear", "linear/linear_bias")
    },
    **{
        f"{component}: {name}": reason
        for component in ("audio/stft", "elementwise/cos", "elementwise/sin")
        for name, reason in {
            "%c10 -2.75573192e-7 -> -4.13359788e-07": _STEP,
            "%s9 2.75573192e-6 -> 4.13359788e-06": _STEP,
        }.items()
    },
    **{
        f"shape/concat: {name}": _OWN
        for name in (
            "%with_left (%batch, %seq, %n_left) -> (%batch, %n_left, %seq)",
            "%y (%batch, %seq, %n_right) -> (%batch, %n_right, %seq)",
            "%n_right tensor.dim %right, %c2 -> tensor.dim %right, %c1",
        )
    },
    **{
        f"shape/stack: {value} "
        "(1, %batch, %seq, %n_embd) -> (1, %batch, %n_embd, %seq)": _OWN
        for value in ("%half", "%y")
    },
    "cache/kv_cache_update: %end arith.subi -> arith.addi": _HELD,
    "cache/paged_cache_gather: %last_block arith.subi -> arith.addi": _HELD,
    **{
        f"shape/clone: {name}": _OWN
        for name in (
            "%batch tensor.dim %x, %c0 -> tensor.dim %x, %c1",
            "%seq tensor.dim %x, %c1 -> tensor.dim %x, %c0",
            "%n_embd tensor.dim %x, %c2 -> tensor.dim %x, %c1",
            "%y_init (%batch, %seq, %n_embd) -> (%batch, %n_embd, %seq)",
        )
    },
    **{
        f"{component}_{stored}: {name}": _REASONS.get(name.rpartition(" ")[2], _MASKED)
        for component in (
            "embedding/embedding_lookup_packed_u32",
            "linear/linear_packed_u32",
        )
        for stored, names in _PACKED_U32.items()
        for name in names
    },
    **{
        f"linear/linear_{kind}: %last arith.subi {change}": _DROPPED
        for kind in (
            *(f"packed_u32_{name}" for name in _PACKED_U32),
            "packed_u32_f32",
            "bias_packed_u32_f32",
        )
        for change in ("-> arith.addi", "with operands swapped")
    },
    "elementwise/cos: %half 0.5 -> 0.75": _WIDER,
    "elementwise/sin: %half 0.5 -> 0.75": _WIDER,
    "reduction/argsort: %bits 32 -> 33": _AGAIN,
    "reduction/topk: %bits 32 -> 33": _AGAIN,
    "reduction/topk: %zero_i32 0 -> 1": _UNREAD,
}

# Components of so little text that there are not three mistakes to make.
FEW = (
    *(
        f"elementwise/{name}"
        for name in (
            *("abs", "add", "div", "exp", "log", "mul", "neg", "sub"),
            *("cast_bf16_to_f32", "cast_f32_to_bf16"),
            *("cast_f32_to_i32", "cast_i32_to_f32"),
        )
    ),
    "shape/clone",
    "shape/contiguous",
    "shape/copy",
    "shape/reshape",
    "shape/slice_leading",
)
