"""Write the vocabulary of a GGUF file as the `tokenizer.json` of Hugging Face.

A GGUF names its algorithm (`tokenizer.ggml.model`) and, for byte-level BPE, the rule
that splits a text into words (`tokenizer.ggml.pre`); the rule itself is part of
llama.cpp. What is unknown here is an error: another rule gives other ids, and nobody
would notice.

Source: ggml-org/ggml, docs/gguf.md; ggml-org/llama.cpp, src/llama-vocab.cpp.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError, did_you_mean
from ingot.weights.gguf import read_arrays, read_gguf

PREFIX = "tokenizer.ggml."
_ARRAYS = ("tokens", "token_type", "scores", "merges", "precompiled_charsmap")
SPACE = "\u2581"

# tokenizer.ggml.token_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_WORD = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_LLAMA3 = _WORD + r"|\p{N}{1,3}" + _MARKS
_QWEN2 = _WORD + r"|\p{N}" + _MARKS
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def _cased(suffix: str, digits: str) -> str:
    """Return the rule of tokenizers that split words where a capital begins."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{start}[{_UPPER}]*[{_LOWER}]+{suffix}|{start}[{_UPPER}]+[{_LOWER}]*{suffix}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + _SPACES
    )


PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), (_GPT2,)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"),
        (r"\p{N}", _GPT2),
    ),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"), (_LLAMA3,)
    ),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), (_QWEN2,)),
    **dict.fromkeys(
        ("gpt-4o", "llama4"), (_cased(_CONTRACTIONS + "?", r"\p{N}{1,3}"),)
    ),
    "tekken": (_cased("", r"\p{N}"),),
}
"""By the name in `tokenizer.ggml.pre`: expressions that split a text, one by one."""

# A word that is a token stays whole, whichever merges there are.
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "tekken")
# These put the first token before a text where the file does not say whether to.
_ADD_BOS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "tekken")


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufVocabulary:
    """What a GGUF states about its vocabulary; an id is the place of its token."""

    label: str  # the file, as messages name it
    model: str  # "gpt2": byte-level BPE; "llama": SentencePiece BPE; "t5": unigram
    pre: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    charsmap: bytes  # of SentencePiece's normalisation; empty if there is none
    unknown: int | None
    before: tuple[int, ...]  # ids that belong before a text
    after: tuple[int, ...]
    add_space_prefix: bool
    remove_extra_whitespaces: bool

    def of_type(self, *types: int) -> list[int]:
        """Return the ids of the tokens of these types."""
        return [number for number, kind in enumerate(self.types) if kind in types]


def read_vocabulary(path: Path, label: str) -> GgufVocabulary:
    """Return the vocabulary of a GGUF file; `label` names it in messages.

    Raises: IngotError with everything that is missing, unknown or of another length.
    """
    metadata = read_gguf(path, label).metadata
    keys = frozenset(PREFIX + name for name in _ARRAYS)
    arrays = {
        key.removeprefix(PREFIX): value
        for key, value in read_arrays(path, label, keys).items()
    }
    given = {
        key.removeprefix(PREFIX): value
        for key, value in metadata.items()
        if key.startswith(PREFIX)
    }
    found = _vocabulary(label, given, arrays)
    if problems := _problems(found):
        raise IngotError(f"{label}: " + f"\n{label}: ".join(problems))
    return found


def _vocabulary(
    label: str, given: dict[str, Any], arrays: dict[str, list[Any]]
) -> GgufVocabulary:
    model = str(given.get("model", ""))
    pre = str(given.get("pre", "default"))
    tokens = tuple(map(str, arrays.get("tokens", ())))
    types = tuple(arrays.get("token_type", [NORMAL] * len(tokens)))
    bos = model == "llama" or (model == "gpt2" and pre in _ADD_BOS)
    sides = (("bos", bos), ("eos", model == "t5"))
    around = [
        (int(given[f"{side}_token_id"]),)
        if given.get(f"add_{side}_token", usual) and f"{side}_token_id" in given
        else ()
        for side, usual in sides
    ]
    return GgufVocabulary(
        label=label,
        model=model,
        pre=pre,
        tokens=tokens,
        types=types,
        scores=tuple(arrays.get("scores", ())),
        merges=tuple(map(str, arrays.get("merges", ()))),
        charsmap=bytes(item % 256 for item in arrays.get("precompiled_charsmap", ())),
        unknown=given.get("unknown_token_id"),
        before=around[0],
        after=around[1],
        add_space_prefix=bool(given.get("add_space_prefix", model != "gpt2")),
        remove_extra_whitespaces=bool(given.get("remove_extra_whitespaces", False)),
    )


def _problems(found: GgufVocabulary) -> list[str]:
    """Return what is wrong with a vocabulary."""
    count = len(found.tokens)
    if found.model not in WRITERS:
        known = did_you_mean(found.model, list(WRITERS), "vocabularies")
        return [f"{PREFIX}model: no vocabulary of kind '{found.model}'\n  {known}"]
    if not count:
        return [f"{PREFIX}tokens: expected an array of texts, found none"]
    problems = []
    if found.model == "gpt2" and found.pre not in PRE_TOKENIZERS:
        known = did_you_mean(found.pre, list(PRE_TOKENIZERS), "pre-tokenizers")
        problems.append(f"{PREFIX}pre: no pre-tokenizer named '{found.pre}'\n  {known}")
    if found.model == "gpt2" and not found.merges:
        problems.append(f"{PREFIX}merges: expected an array of texts, found none")
    expected = {"token_type": found.types}
    if found.model != "gpt2":
        expected["scores"] = found.scores  # type: ignore[assignment]
    problems += [
        f"{PREFIX}{name}: expected {count} items, one for each token, found {len(got)}"
        for name, got in expected.items()
        if len(got) != count
    ]
    used = (*found.before, *found.after)
    used += () if found.unknown is None else (found.unknown,)
    problems += [
        f"{PREFIX}tokens: no token with id {number}, which a special token has;"
        f" expected ids below {count}"
        for number in used
        if not 0 <= number < count
    ]
    twice = count - len(set(found.tokens))
    if twice:
        problems.append(f"{PREFIX}tokens: {twice} of {count} occur twice")
    return problems


def tokenizer_json(found: GgufVocabulary) -> dict[str, Any]:
    """Return the content of the `tokenizer.json` that computes the same ids.

    Raises: IngotError if a merge is of tokens that there are not.
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(found),
        **WRITERS[found.model](found),
        "post_processor": _post_processor(found),
    }


def _added_tokens(found: GgufVocabulary) -> list[dict[str, Any]]:
    """Return the tokens that a text is searched for before it is split."""
    return [
        {
            "id": number,
            "content": found.tokens[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": found.types[number] != USER_DEFINED,
        }
        for number in found.of_type(UNKNOWN, CONTROL, USER_DEFINED)
    ]


def _post_processor(found: GgufVocabulary) -> dict[str, Any] | None:
    around = (*found.before, *found.after)
    if not around:
        return None
    names = {number: found.tokens[number] for number in around}

    def template(kind: int, text: str) -> list[dict[str, Any]]:
        special = [
            [{"SpecialToken": {"id": names[x], "type_id": kind}} for x in numbers]
            for numbers in (found.before, found.after)
        ]
        return [*special[0], {"Sequence": {"id": text, "type_id": kind}}, *special[1]]

    return {
        "type": "TemplateProcessing",
        "single": template(0, "A"),
        "pair": [*template(0, "A"), *template(1, "B")],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]}
            for number, name in names.items()
        },
    }


def _byte_level(found: GgufVocabulary) -> dict[str, Any]:
    splits = [
        {
            "type": "Split",
            "pattern": {"Regex": expression},
            "behavior": "Isolated",
            "invert": False,
        }
        for expression in PRE_TOKENIZERS[found.pre]
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": found.add_space_prefix,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        "decoder": byte_level,
        "model": {
            **_bpe(found, [item.split(" ", 1) for item in found.merges]),
            "ignore_merges": found.pre in _WHOLE_WORDS,
        },
    }


def _sentence_piece(found: GgufVocabulary) -> dict[str, Any]:
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    normalizers: list[dict[str, Any]] = [replaced]
    if found.add_space_prefix:
        normalizers.insert(0, {"type": "Prepend", "prepend": SPACE})
    unknown = None if found.unknown is None else found.tokens[found.unknown]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": _piece_decoder(found),
        "model": {
            **_bpe(found, merges_of_scores(found)),
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": bool(found.of_type(BYTE)),
        },
    }


def _piece_decoder(found: GgufVocabulary) -> dict[str, Any]:
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if found.add_space_prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": decoders}


def _bpe(found: GgufVocabulary, merges: list[list[str]]) -> dict[str, Any]:
    vocabulary = {token: number for number, token in enumerate(found.tokens)}
    for pair in merges:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise IngotError(
                f"{found.label}: {PREFIX}merges: {' '.join(pair)!r} is no merge of two"
                " tokens into a third",
                "the program that wrote the file is at fault: write it with llama.cpp",
            )
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": merges,
    }


def merges_of_scores(found: GgufVocabulary) -> list[list[str]]:
    """Return every way to merge two tokens into a third, the best score first.

    SentencePiece merges the pair whose token has the best score, however it is split.
    """
    scores = {
        found.tokens[number]: found.scores[number]
        for number in found.of_type(NORMAL, USER_DEFINED, UNUSED)
    }
    pairs = [
        (-score, -place, token[:place], token[place:])
        for token, score in scores.items()
        for place in range(1, len(token))
        if token[:place] in scores and token[place:] in scores
    ]
    pairs.sort(key=lambda pair: pair[:2])
    return [[left, right] for _, _, left, right in pairs]


def _unigram(found: GgufVocabulary) -> dict[str, Any]:
    normalizers: list[dict[str, Any]] = []
    if found.charsmap:
        text = base64.b64encode(found.charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": text})
    if found.remove_extra_whitespaces:
        normalizers += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    space = {
        "type": "Metaspace",
        "replacement": SPACE,
        "prepend_scheme": "always" if found.add_space_prefix else "never",
        "split": True,
    }
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": space,
        "decoder": _piece_decoder(found),
        "model": {
            "type": "Unigram",
            "unk_id": found.unknown,
            "vocab": [list(x) for x in zip(found.tokens, found.scores, strict=True)],
            "byte_fallback": bool(found.of_type(BYTE)),
        },
    }


WRITERS = {"gpt2": _byte_level, "llama": _sentence_piece, "t5": _unigram}
"""By `tokenizer.ggml.model`: what writes the parts that differ."""
