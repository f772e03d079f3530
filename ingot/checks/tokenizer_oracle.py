"""Compute token ids a second time, in plain Python, from a source's own vocabulary.

The judge of a tokenizer must not be the library that serves it. This one reads a GGUF's
vocabulary as llama.cpp does, and a `tokenizer.json` as its format is documented. Of the
parts that a `tokenizer.json` may have, it knows those of language models; for others
there is no judge, which the check reports.

Source: Sennrich et al. 2016, arXiv:1508.07909 (BPE); Kudo 2018, arXiv:1804.10959
    (unigram); ggml-org/llama.cpp, src/llama-vocab.cpp; Devlin et al. 2018,
    arXiv:1810.04805 (WordPiece).
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

from ingot.weights.gguf_vocabulary import (
    BYTE,
    CONTROL,
    PRE_TOKENIZERS,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
)

Normalize: TypeAlias = Callable[[str], str]
Split: TypeAlias = Callable[[str], list[str]]
Encode: TypeAlias = Callable[[str], list[int]]
Priority: TypeAlias = Callable[[str, str], float | None]

# What SentencePiece subtracts from the worst score for a character without a token.
_UNKNOWN_PENALTY = 10.0


class Unjudged(Exception):
    """Raised for a part of a `tokenizer.json` that is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """A tokenizer as a chain of functions."""

    encode_word: Encode
    split: Split = lambda text: [text]
    normalize: Normalize = str
    # Tokens that are found in a text before anything else.
    added: Mapping[str, int] = field(default_factory=dict)
    # Whether these take the spaces left and right of them.
    strips: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    # Ids as text, special tokens too.
    decode: Callable[[list[int]], str] | None = None

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text, with those around it."""
        ids = [*self.before]
        for piece, number in self._pieces(text):
            if number is not None:
                ids.append(number)
            elif normal := self.normalize(piece):
                for word in self.split(normal):
                    ids += self.encode_word(word)
        return (*ids, *self.after)

    def _pieces(self, text: str) -> list[tuple[str, int | None]]:
        """Return the text in pieces, and the ids of those that are added tokens."""
        if not self.added:
            return [(text, None)]
        found: list[tuple[str, int | None]] = []
        place = 0
        for match in _alternatives(tuple(self.added)).finditer(text):
            token = match[0]
            left, right = self.strips.get(token, (False, False))
            between = text[place : match.start()]
            found.append((between.rstrip() if left else between, None))
            found.append((token, self.added[token]))
            place = match.end()
            if right:
                place += len(text[place:]) - len(text[place:].lstrip())
        found.append((text[place:], None))
        return [item for item in found if item[0]]


@cache
def _alternatives(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Return an expression that finds the first token, and of several the longest."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


# Merges.


def merged(symbols: list[str], priority: Priority) -> list[str]:
    """Return the symbols after all merges: the lowest number first, then the left one.

    `priority` returns None for two symbols that do not merge.
    """
    texts: list[str | None] = [*symbols]
    following = [*range(1, len(symbols)), -1]
    previous = [*range(-1, len(symbols) - 1)]
    queue: list[tuple[float, int, str, str]] = []

    def offer(left: int) -> None:
        right = following[left]
        a, b = texts[left], texts[right] if right >= 0 else None
        if a is not None and b is not None:
            rank = priority(a, b)
            if rank is not None:
                heapq.heappush(queue, (rank, left, a, b))

    for place in range(len(symbols) - 1):
        offer(place)
    while queue:
        _, left, a, b = heapq.heappop(queue)
        right = following[left]
        if texts[left] != a or right < 0 or texts[right] != b:
            continue  # one of both has merged with another since
        texts[left], texts[right] = a + b, None
        following[left] = following[right]
        if following[right] >= 0:
            previous[following[right]] = left
        offer(left)
        if previous[left] >= 0:
            offer(previous[left])
    return [text for text in texts if text is not None]


def _byte_ids(character: str, ids: Mapping[str, int]) -> list[int] | None:
    """Return the tokens of a character's bytes; None if one is missing."""
    names = [f"<0x{byte:02X}>" for byte in character.encode()]
    return [ids[name] for name in names] if all(x in ids for x in names) else None


def _ids_of(
    symbols: list[str], ids: Mapping[str, int], bytes_too: bool, unknown: int | None
) -> list[int]:
    """Return the ids of symbols; a run of unknown ones is one unknown token."""
    found: list[int] = []
    was_unknown = False
    for symbol in symbols:
        own = [ids[symbol]] if symbol in ids else None
        if own is None and bytes_too:
            own = _byte_ids(symbol, ids)
        if own is None and unknown is not None and not was_unknown:
            found.append(unknown)
        found += own or []
        was_unknown = own is None
    return found


# Byte-level BPE.


@cache
def byte_characters() -> dict[int, str]:
    """Return the printable character that stands for each byte.

    Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{byte: chr(byte) for byte in plain},
        **{byte: chr(256 + place) for place, byte in enumerate(others)},
    }


@cache
def _bytes_of_characters() -> dict[str, int]:
    return {character: byte for byte, character in byte_characters().items()}


def _as_bytes(word: str) -> str:
    table = byte_characters()
    return "".join(table[byte] for byte in word.encode())


def _from_bytes(text: str, added: Collection[str]) -> bytes:
    table = _bytes_of_characters()
    if text in added or not all(x in table for x in text):
        return text.encode()
    return bytes(table[x] for x in text)


def _bpe_word(
    word: str,
    ids: Mapping[str, int],
    ranks: Mapping[tuple[str, str], int],
    whole: bool,
    bytes_too: bool,
    unknown: int | None,
) -> list[int]:
    if whole and word in ids:
        return [ids[word]]
    symbols = merged(list(word), lambda a, b: ranks.get((a, b)))
    return _ids_of(symbols, ids, bytes_too, unknown)


# Expressions.


@cache
def _class(name: str) -> str:
    """Return the characters of a Unicode category, as ranges of an expression."""
    inside = [
        number
        for number in range(0x110000)
        if unicodedata.category(chr(number)).startswith(name)
    ]
    ends = [a for a, b in pairwise([*inside, -1]) if b != a + 1]
    starts = [b for a, b in pairwise([-2, *inside]) if b != a + 1]
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(starts, ends, strict=True))


# White space as Unicode defines it; Python's \s has four more control characters.
_WHITE = (
    "\\t-\\r\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
)


@cache
def expression(pattern: str) -> re.Pattern[str]:
    r"""Return a tokenizer's expression in Python's syntax, which lacks `\p`.

    Raises: Unjudged if it has parts that Python cannot express.
    """
    found, inside, place = [], False, 0
    while place < len(pattern):
        name = re.compile(r"\\p\{(\w+)\}").match(pattern, place)
        text = pattern[place : place + 2]
        if name:
            body = _class(name[1])
            found.append(body if inside else f"[{body}]")
            place = name.end()
            continue
        if text in ("\\s", "\\S"):
            if text == "\\S" and inside:
                raise Unjudged(f"the expression {pattern}")
            sign = "^" if text == "\\S" else ""
            body = _WHITE if inside else f"[{sign}{_WHITE}]"
            found.append(body)
            place += 2
            continue
        if pattern[place] == "\\":
            found.append(text)
            place += 2
            continue
        if pattern[place] in "[]":
            inside = pattern[place] == "["
        found.append(pattern[place])
        place += 1
    try:
        return re.compile("".join(found))
    except re.error as error:
        raise Unjudged(f"the expression {pattern}") from error


def _isolated(words: list[str], found: re.Pattern[str]) -> list[str]:
    """Return the words, cut around each match, which is a word of its own."""
    cut: list[str] = []
    for word in words:
        place = 0
        for match in found.finditer(word):
            cut += [word[place : match.start()], match[0]]
            place = match.end()
        cut.append(word[place:])
    return [word for word in cut if word]


# A GGUF's vocabulary.


def gguf_oracle(source: GgufVocabulary) -> Oracle:
    """Return the tokenizer that a GGUF's vocabulary stands for.

    Raises: Unjudged if it has a part that is not known here.
    """
    ids = {token: number for number, token in enumerate(source.tokens)}
    added = {
        source.tokens[number]: number
        for number in source.of_type(UNKNOWN, CONTROL, USER_DEFINED)
    }
    chains = {"gpt2": _byte_level_chain, "llama": _piece_chain, "t5": _unigram_chain}
    return replace(
        chains[source.model](source, ids),
        added=added,
        before=source.before,
        after=source.after,
    )


def _byte_level_chain(source: GgufVocabulary, ids: Mapping[str, int]) -> Oracle:
    ranks: dict[tuple[str, str], int] = {}
    for rank, text in enumerate(source.merges):
        left, _, right = text.partition(" ")
        ranks[left, right] = rank
    whole = source.pre in ("llama-bpe", "llama3", "llama-v3", "falcon3", "tekken")
    added = source.of_type(UNKNOWN, CONTROL, USER_DEFINED)
    names = {source.tokens[number] for number in added}

    def split(text: str) -> list[str]:
        words = [" " + text if source.add_space_prefix and text[:1] != " " else text]
        for pattern in PRE_TOKENIZERS[source.pre]:
            words = _isolated(words, expression(pattern))
        return [_as_bytes(word) for word in words]

    decode = partial(
        _byte_level_text,
        tokens=dict(enumerate(source.tokens)),
        added=names,
    )
    word = partial(
        _bpe_word, ids=ids, ranks=ranks, whole=whole, bytes_too=False, unknown=None
    )
    return Oracle(split=split, encode_word=word, decode=decode)


def _byte_level_text(
    numbers: list[int],
    tokens: Mapping[int, str],
    added: Collection[str],
) -> str:
    """Return the text of ids; added tokens stand for themselves."""
    content = b"".join(_from_bytes(tokens[x], added) for x in numbers)
    return content.decode(errors="replace")


def _scores(source: GgufVocabulary) -> dict[str, float]:
    """Return the scores of the tokens that a text can be cut into."""
    scores = dict(zip(source.tokens, source.scores, strict=True))
    for number in source.of_type(UNKNOWN, CONTROL, BYTE):
        del scores[source.tokens[number]]
    return scores


def _piece_chain(source: GgufVocabulary, ids: Mapping[str, int]) -> Oracle:
    scores = _scores(source)
    has_bytes = bool(source.of_type(BYTE))

    def normalize(text: str) -> str:
        return (SPACE if source.add_space_prefix else "") + text.replace(" ", SPACE)

    def rank_of(a: str, b: str) -> float | None:
        score = scores.get(a + b)
        return None if score is None else -score

    def word(text: str) -> list[int]:
        return _ids_of(merged(list(text), rank_of), ids, has_bytes, source.unknown)

    decode = _piece_decode(source)
    return Oracle(normalize=normalize, encode_word=word, decode=decode)


def _piece_decode(source: GgufVocabulary) -> Callable[[list[int]], str]:
    return partial(
        _sentence_piece_text,
        tokens=dict(enumerate(source.tokens)),
        strips=source.add_space_prefix,
    )


def _unigram_chain(source: GgufVocabulary, ids: Mapping[str, int]) -> Oracle:
    if source.charsmap:
        raise Unjudged("a table of characters (precompiled_charsmap)")

    def normalize(text: str) -> str:
        if source.remove_extra_whitespaces:
            text = re.sub(" {2,}", " ", text.strip())
        if source.add_space_prefix and not text.startswith(" "):
            text = " " + text
        return text.replace(" ", SPACE)

    scores = _scores(source)
    word = partial(
        _unigram_word,
        ids=ids,
        scores=scores,
        longest=max(map(len, scores)),
        bytes_too=bool(source.of_type(BYTE)),
        unknown=source.unknown,
    )
    decode = _piece_decode(source)
    return Oracle(
        normalize=normalize, split=_metaspace_words, encode_word=word, decode=decode
    )


def _sentence_piece_text(
    numbers: list[int], tokens: Mapping[int, str], strips: bool
) -> str:
    """Return the text of ids; bytes stand for themselves."""
    content = b""
    for number in numbers:
        token = tokens[number]
        byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
        content += bytes([int(byte[1], 16)]) if byte else token.encode()
    text = content.decode(errors="replace").replace(SPACE, " ")
    return text[1:] if strips and text[:1] == " " else text


def _metaspace_words(text: str) -> list[str]:
    return re.findall(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+", text)


def _unigram_word(
    word: str,
    ids: Mapping[str, int],
    scores: Mapping[str, float],
    longest: int,
    bytes_too: bool,
    unknown: int | None,
) -> list[int]:
    """Return the ids of the pieces whose scores have the largest sum."""
    # A character without a token costs more than any piece.
    worst = min(scores.values()) - _UNKNOWN_PENALTY
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(word) + 1):
        options = [(best[end - 1][0] + worst, end - 1)]
        for start in range(max(0, end - longest), end):
            score = scores.get(word[start:end])
            if score is not None:
                options.append((best[start][0] + score, start))
        best.append(max(options, key=lambda item: item[0]))
    pieces, end = [], len(word)
    while end:
        start = best[end][1]
        pieces.append(word[start:end])
        end = start
    return _ids_of(pieces[::-1], ids, bytes_too, unknown)


# A tokenizer.json.


def json_oracle(content: dict[str, Any]) -> Oracle:
    """Return the tokenizer that a `tokenizer.json` stands for.

    Raises: Unjudged if it has a part that is not known here.
    """
    added = content.get("added_tokens") or []
    normalizes = content.get("normalizer") is not None
    if any(
        item["single_word"] or (item["normalized"] and normalizes) for item in added
    ):
        raise Unjudged("added tokens that are normalised, or single words")
    before, after = _around(content.get("post_processor"))
    split = _splits(content.get("pre_tokenizer"))
    return Oracle(
        added={item["content"]: item["id"] for item in added},
        strips={item["content"]: (item["lstrip"], item["rstrip"]) for item in added},
        normalize=_normalizer(content.get("normalizer")),
        split=lambda text: split([text]),
        encode_word=_model(content["model"]),
        before=before,
        after=after,
        decode=_decoder(content),
    )


def _decoder(content: dict[str, Any]) -> Callable[[list[int]], str] | None:
    """Return how ids become text; None if the model writes none."""
    given, vocabulary = content.get("decoder"), content["model"]["vocab"]
    if given is None or not isinstance(vocabulary, dict):
        return None
    tokens = {number: token for token, number in vocabulary.items()}
    added = {item["id"]: item["content"] for item in content.get("added_tokens") or ()}
    tokens |= added
    if given["type"] == "ByteLevel":
        return partial(_byte_level_text, tokens=tokens, added={*added.values()})
    kinds = [item["type"] for item in given.get("decoders", ())]
    if kinds[:3] != ["Replace", "ByteFallback", "Fuse"]:
        return None
    return partial(_sentence_piece_text, tokens=tokens, strips="Strip" in kinds)


def _around(given: dict[str, Any] | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    kind = given["type"] if given else None
    if given is None or kind == "ByteLevel":
        return (), ()
    if kind == "Sequence":
        parts = [_around(item) for item in given["processors"]]
        return sum((x for x, _ in parts), ()), sum((x for _, x in parts), ())
    if kind == "BertProcessing":
        return (given["cls"][1],), (given["sep"][1],)
    if kind != "TemplateProcessing":
        raise Unjudged(f"the post-processor {kind}")
    sides: list[list[int]] = [[], []]
    side = 0
    for item in given["single"]:
        if "Sequence" in item:
            side = 1
        else:
            name = item["SpecialToken"]["id"]
            sides[side] += given["special_tokens"][name]["ids"]
    return tuple(sides[0]), tuple(sides[1])


def _pattern(given: dict[str, str]) -> re.Pattern[str]:
    if "String" in given:
        return re.compile(re.escape(given["String"]))
    return expression(given["Regex"])


def _normalizer(given: dict[str, Any] | None) -> Normalize:
    kind = given["type"] if given else None
    if given is None:
        return lambda text: text
    if kind == "Sequence":
        parts = [_normalizer(item) for item in given["normalizers"]]

        def chain(text: str) -> str:
            for part in parts:
                text = part(text)
            return text

        return chain
    if kind in ("NFC", "NFD", "NFKC", "NFKD"):
        return partial(unicodedata.normalize, kind)
    if kind == "Prepend":
        return lambda text: given["prepend"] + text if text else text
    if kind == "Replace":
        found, content = _pattern(given["pattern"]), given["content"]
        return lambda text: found.sub(lambda _: content, text)
    if kind == "Lowercase":
        return _lower
    if kind == "BertNormalizer":
        return partial(_bert_text, given)
    raise Unjudged(f"the normalizer {kind}")


def _lower(text: str) -> str:
    """Return the text in lower case, each letter by itself: an s at the end too."""
    return "".join(letter.lower() for letter in text)


def _bert_text(given: dict[str, Any], text: str) -> str:
    """Return what BERT's normalizer makes of a text."""
    if given["clean_text"]:
        kept = (
            x
            for x in text
            if x in "\t\n\r"
            or (x not in "\0\ufffd" and unicodedata.category(x)[0] != "C")
        )
        text = "".join(" " if expression(r"\s").match(x) else x for x in kept)
    if given["handle_chinese_chars"]:
        text = re.sub(
            "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf"
            "\U0002f800-\U0002fa1f])",
            r" \1 ",
            text,
        )
    strips = given["strip_accents"]
    if strips or (strips is None and given["lowercase"]):
        parts = unicodedata.normalize("NFD", text)
        text = "".join(x for x in parts if unicodedata.category(x) != "Mn")
    return _lower(text) if given["lowercase"] else text


Splits: TypeAlias = Callable[[list[str]], list[str]]


def _splits(given: dict[str, Any] | None) -> Splits:
    kind = given["type"] if given else None
    if given is None:
        return lambda words: words
    if kind == "Sequence":
        parts = [_splits(item) for item in given["pretokenizers"]]

        def chain(words: list[str]) -> list[str]:
            for part in parts:
                words = part(words)
            return words

        return chain
    if kind == "Split":
        return _split(given)
    if kind == "Digits":
        digits = expression(r"\p{N}" if given["individual_digits"] else r"\p{N}+")
        return lambda words: _isolated(words, digits)
    if kind == "ByteLevel":
        return partial(_byte_level, given)
    if kind == "BertPreTokenizer":
        return _bert_words
    raise Unjudged(f"the pre-tokenizer {kind}")


def _split(given: dict[str, Any]) -> Splits:
    found, behaviour = _pattern(given["pattern"]), given["behavior"]
    if given["invert"] or behaviour not in ("Isolated", "MergedWithPrevious"):
        raise Unjudged(f"a split of the kind {behaviour}")
    if behaviour == "Isolated":
        return lambda words: _isolated(words, found)

    def merge(words: list[str]) -> list[str]:
        cut: list[str] = []
        for word in words:
            place = 0
            for match in found.finditer(word):
                cut.append(word[place : match.end()])
                place = match.end()
            cut.append(word[place:])
        return [word for word in cut if word]

    return merge


def _byte_level(given: dict[str, Any], words: list[str]) -> list[str]:
    if given["add_prefix_space"] and words and words[0][:1] != " ":
        words = [" " + words[0], *words[1:]]
    if given["use_regex"]:
        words = _isolated(words, expression(PRE_TOKENIZERS["gpt-2"][0]))
    return [_as_bytes(word) for word in words]


def _bert_words(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        for part in expression(r"\s+").split(word):
            found += _isolated([part], expression(r"[!-/:-@\[-`{-~\p{P}]"))
    return found


def _model(given: dict[str, Any]) -> Encode:
    kind = given.get("type", "BPE")
    if kind == "BPE":
        if given.get("continuing_subword_prefix") or given.get("end_of_word_suffix"):
            raise Unjudged("BPE with marks at the ends of words")
        pairs = [x.split(" ", 1) if isinstance(x, str) else x for x in given["merges"]]
        unknown = given.get("unk_token")
        if unknown is not None and not given.get("fuse_unk"):
            raise Unjudged("BPE with a token for each unknown character")
        return partial(
            _bpe_word,
            ids=given["vocab"],
            ranks={(a, b): rank for rank, (a, b) in enumerate(pairs)},
            whole=bool(given.get("ignore_merges")),
            bytes_too=bool(given.get("byte_fallback")),
            unknown=None if unknown is None else given["vocab"][unknown],
        )
    if kind == "WordPiece":
        return partial(_word_piece, given)
    raise Unjudged(f"the model {kind}")


def _word_piece(given: dict[str, Any], word: str) -> list[int]:
    """Return the longest pieces from the left; one unknown token if they do not fit."""
    ids, unknown = given["vocab"], [given["vocab"][given["unk_token"]]]
    if len(word) > given["max_input_chars_per_word"]:
        return unknown
    found: list[int] = []
    place = 0
    while place < len(word):
        prefix = given["continuing_subword_prefix"] if place else ""
        for end in range(len(word), place, -1):
            piece = prefix + word[place:end]
            if piece in ids:
                found.append(ids[piece])
                place = end
                break
        else:
            return unknown
    return found
