"""Load a `tokenizer.json` with Hugging Face's `tokenizers`, and decode as tokens come.

IREE has a tokenizer too, but it drops every space that Llama 2's decoder keeps, needs
memory without limit where digits are split off, and takes twice as long to load.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ingot.errors import IngotError

REPLACEMENT = "\ufffd"
"""What decoders write for bytes that are no character."""

# In UTF-8, at most.
_CHARACTER_BYTES = 4
# A text is decoded again from this many tokens back, to bound the work for a token.
_WINDOW = 32
_ONE_REVISION = "take tokenizer and weights from one revision of the model"


class Tokenizer:
    """A tokenizer that neither truncates nor pads, whatever its file asks for."""

    def __init__(self, loaded: Any) -> None:
        """Wrap a `tokenizers.Tokenizer`."""
        loaded.no_truncation()
        loaded.no_padding()
        self._loaded = loaded

    def encode(self, text: str, *, around: bool = True) -> tuple[int, ...]:
        """Return the text's ids, with those that belong around a text if asked for."""
        encode = self._loaded.encode
        with _panics("encode a text"):
            return tuple(encode(text, add_special_tokens=around).ids)

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """Return the text of the ids, with special tokens only if asked for."""
        decode, numbers = self._loaded.decode, list(ids)
        with _panics("decode tokens"):
            text: str = decode(numbers, skip_special_tokens=not special)
        return text

    def token(self, number: int) -> str | None:
        """Return the token with an id; None if there is none."""
        found: str | None = self._loaded.id_to_token(number)
        return found

    def number(self, token: str) -> int | None:
        """Return the id of a token; None if there is none."""
        found: int | None = self._loaded.token_to_id(token)
        return found

    def special(self) -> frozenset[int]:
        """Return the ids of special tokens: those that decoding leaves out."""
        added = self._loaded.get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token."""
        found: dict[str, int] = self._loaded.get_vocab(with_added_tokens=True)
        return found

    def stream(self) -> TextStream:
        """Return a decoder of tokens that come one by one."""
        return TextStream(self)


class TextStream:
    """Decodes tokens as they come, whole characters only.

    What a token adds depends on the tokens before it: a decoder may remove the first
    space of a text, and bytes only together are a character. So all tokens in a window
    are decoded again, and what is new is returned.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Start a text."""
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # in the window, and in what was returned
        self._written = ""  # their text
        self._waiting: list[int] = []  # for the end of a character

    def feed(self, token: int) -> str:
        """Return the text that this token completes; it may be empty."""
        self._waiting.append(token)
        text = self._tokenizer.decode(self._ids + self._waiting)
        if text.startswith(self._written) and not text.endswith(REPLACEMENT):
            new = text[len(self._written) :]
            self._ids += self._waiting
            self._waiting, self._written = [], text
            if len(self._ids) >= 2 * _WINDOW:
                self._shorten()
            return new
        return self._skip() if len(self._waiting) == _CHARACTER_BYTES else ""

    def finish(self) -> str:
        """Return the rest of the text; U+FFFD stands for what is no character."""
        rest = ""
        while self._waiting:
            rest += self._skip()
        return rest

    def _shorten(self) -> None:
        """Keep the last tokens of the window, unless that changes the rest."""
        ids = self._ids[-_WINDOW:]
        text = self._tokenizer.decode(ids)
        # A run of bytes may be cut, or all the rest be special tokens.
        if text and self._written.endswith(text):
            self._ids, self._written = ids, text

    def _skip(self) -> str:
        """Return the text without waiting for the first token's character to end.

        Where one byte is broken, a decoder may replace the whole run of bytes around
        it, so the tokens after it start a window of their own.
        """
        first, *others = self._waiting
        self._ids, self._written, self._waiting = [], "", []
        return self._tokenizer.decode([first]) + "".join(map(self.feed, others))


def load_tokenizer(path: Path, n_vocab: int | None = None) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`.

    A special token may lie beyond the model's rows, because only a text that spells it
    out contains it: Gemma 3 has such a token for images.

    Raises: IngotError if the file is not a tokenizer, or has other ids beyond the
        `n_vocab` rows of the model.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise IngotError(f"{path}: cannot be read; {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _no_tokenizer(path, error) from error
    loaded = _parse(path, text)
    tokenizer = Tokenizer(loaded)
    around = tokenizer.encode("")
    ordinary = set(tokenizer.vocabulary().values()) - tokenizer.special()
    highest = max((*ordinary, *around), default=-1)
    if n_vocab is not None and highest >= n_vocab:
        raise IngotError(
            f"{path}: token ids that the model has no row for; expected ids below"
            f" n_vocab = {n_vocab}, found {highest}",
            _ONE_REVISION,
        )
    _check_ids(path, text, loaded)
    return tokenizer


def _parse(path: Path, text: str) -> Any:
    from tokenizers import Tokenizer as Loaded

    try:
        return Loaded.from_str(text)
    except BaseException as error:
        if isinstance(error, Exception) or _is_panic(error):
            raise _no_tokenizer(path, error) from error
        raise


def _is_panic(error: BaseException) -> bool:
    """Return whether the library panicked: a file may contain what no program wrote."""
    # Rust's panics are no `Exception`, and their type is not exported.
    return type(error).__name__ == "PanicException"


@contextlib.contextmanager
def _panics(what: str) -> Iterator[None]:
    """Turn a panic of the library into an IngotError."""
    try:
        yield
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise IngotError(
            f"tokenizer.json: the library cannot {what} with it: {error}",
            "its parts contradict each other: fetch it again from its publisher",
        ) from error


def _check_ids(path: Path, text: str, loaded: Any) -> None:
    """Reject added tokens with other ids than the library gives them.

    It counts on from the vocabulary, whatever the file says.

    Raises: IngotError that names the first.
    """
    for token in json.loads(text).get("added_tokens") or ():
        found = loaded.token_to_id(token["content"])
        if found != token["id"]:
            raise IngotError(
                f"{path}: added_tokens: {token['content']!r} has the id {token['id']};"
                f" expected {found}, which the vocabulary gives it",
                _ONE_REVISION,
            )


def _no_tokenizer(path: Path, error: BaseException) -> IngotError:
    lines = str(error).strip().splitlines()
    return IngotError(
        f"{path}: not a tokenizer; {lines[0] if lines else type(error).__name__}",
        "expected the tokenizer.json of Hugging Face tokenizers",
    )
