"""Generate text after a prompt with a decoder's bundle, and measure its times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from ingot.bundles.conversation import chat_prompt, chat_template
from ingot.bundles.reader import Bundle
from ingot.bundles.sampler import Sampler, Sampling
from ingot.bundles.target_runner import module_of
from ingot.bundles.vocabulary import (
    Vocabulary,
    checked_ids,
    prompt_tokens,
    read_vocabulary,
)
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.runtime.chat_template import Message
from ingot.runtime.decoder import Decoder, decoder_entries
from ingot.runtime.session import open_session

Array: TypeAlias = Any

# Caches are allocated in steps, because even lengths suit vectors.
CTX_STEP = 32


class End(Enum):
    """The reason why a text ended."""

    TOKENS = "tokens= is reached"
    SEQUENCE = "the model ended it"
    STOP = "a stop text ended it"
    CONTEXT = "the context is full"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Request:
    """What comes before the text, its length, and how tokens are chosen."""

    prompt: str
    tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)
    ids: tuple[int, ...] = ()  # in place of the prompt
    system: str = ""  # what a chat model is told before the prompt
    template: bool = True  # write the prompt with the chat template, if there is one
    writes_ids: bool = False  # write the ids of the tokens, not their text


@dataclass(frozen=True, slots=True)
class Generated:
    """The text's tokens and times.

    Units: seconds. `first_token_s` is the time from before the tokenizer and the module
        were read until the first token was known; `load_s` is its part before prefill.
    """

    prompt_tokens: int
    tokens: int  # without one that ends the text
    end: End
    load_s: float
    prefill_s: float
    first_token_s: float
    decodes: int
    decode_s: float


@dataclass(frozen=True, slots=True)
class Outside:
    """What happens outside the model during generation."""

    write: Callable[[str], None]
    stopped: Callable[[], bool]  # called after each token


def generate(
    bundle: Bundle, runner: Runner, request: Request, outside: Outside
) -> Generated:
    """Write the text that the model generates after the prompt.

    Raises: IngotError if the bundle is not a decoder, the prompt is too long, or the
        module fails.
    """
    start = time.monotonic()
    check_decoder(bundle)
    vocabulary = read_vocabulary(bundle)
    ids = request_ids(bundle, vocabulary, request)
    model = Model(bundle, runner, vocabulary, len(ids) + request.tokens)
    return model.continue_text(ids, request, outside, start)


def check_decoder(bundle: Bundle) -> None:
    """Reject a bundle that is not a decoder's.

    Raises: IngotError that names the bundle.
    """
    try:
        decoder_entries(bundle.entry_points)
    except IngotError as error:
        raise IngotError(f"{bundle.name}: {error.message}") from error


def request_ids(bundle: Bundle, vocabulary: Vocabulary, request: Request) -> list[int]:
    """Return the ids of a request's prompt.

    Raises: IngotError if the model does not accept them, or its template fails.
    """
    if request.ids:
        return checked_ids(bundle, vocabulary, list(request.ids))
    if not request.template or chat_template(bundle) is None:
        if request.system:
            raise IngotError(
                f"{bundle.name}: without a chat template, there is no system message",
                "write it into the prompt",
            )
        return prompt_tokens(bundle, vocabulary, request.prompt)
    messages = [Message(role="user", content=request.prompt)]
    if request.system:
        messages.insert(0, Message(role="system", content=request.system))
    text = chat_prompt(bundle, vocabulary, messages)
    return prompt_tokens(bundle, vocabulary, text, around=False)


def ctx_for(tokens: int, bundle: Bundle) -> int:
    """Return the size of the caches for a text of so many tokens."""
    rounded = -(-tokens // CTX_STEP) * CTX_STEP
    return min(max(rounded, bundle.least("ctx")), bundle.limit("ctx"))


class Model:
    """A loaded decoder with the tokens that its caches hold."""

    def __init__(
        self, bundle: Bundle, runner: Runner, vocabulary: Vocabulary, tokens: int
    ) -> None:
        """Load the module; its caches have room for so many tokens."""
        session = open_session(runner, module_of(bundle))
        self._bundle = bundle
        self._vocabulary = vocabulary
        self._decoder = Decoder(session, bundle.entry_points, ctx_for(tokens, bundle))
        self._cached: list[int] = []

    def continue_text(
        self, ids: list[int], request: Request, outside: Outside, start: float
    ) -> Generated:
        """Write the text after these tokens; `start` is when the request came.

        What the caches hold of the tokens already is not computed again.

        Raises: IngotError if the module fails.
        """
        loaded = time.monotonic()
        logits, computed = self._prefill(ids)
        prefilled = time.monotonic()
        sampler = Sampler(request.sampling, self._vocabulary.known)
        text = Text(self._decoder, self._vocabulary, sampler, request.writes_ids)
        first = sampler.pick(logits)
        known = time.monotonic()
        # The last token needs no position in the caches: nothing is computed from it.
        room = self._bundle.limit("ctx") - len(ids) + 1
        end = text.follow(first, min(request.tokens, room), outside)
        self._cached = [*ids, *text.ids][: self._decoder.length]
        if end is End.TOKENS and room < request.tokens:
            end = End.CONTEXT
        return Generated(
            prompt_tokens=computed,
            tokens=len(text.ids),
            end=end,
            load_s=loaded - start,
            prefill_s=prefilled - loaded,
            first_token_s=known - start,
            decodes=text.decodes,
            decode_s=time.monotonic() - known,
        )

    def _prefill(self, ids: list[int]) -> tuple[Array, int]:
        """Return the logits after these tokens, and how many were computed for it."""
        pairs = zip(self._cached, ids, strict=False)
        same = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        )
        # The last token is always computed: its logits are what is wanted.
        place = first = min(same, len(ids) - 1)
        self._decoder.rewind(first)
        logits: Array = None
        longest = self._bundle.limit("seq")
        for place in range(first, len(ids), longest):
            logits = self._decoder.prefill(tuple(ids[place : place + longest]))
        return logits, len(ids) - first


class Text:
    """The text after a prompt, while it is generated."""

    def __init__(
        self,
        decoder: Decoder,
        vocabulary: Vocabulary,
        sampler: Sampler,
        writes_ids: bool = False,
    ) -> None:
        """Start after the prompt."""
        self.ids: list[int] = []  # without one that ends the text
        self.decodes = 0
        self._sampler = sampler
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._writes_ids = writes_ids

    def follow(self, token: int, limit: int, outside: Outside) -> End:
        """Write this token and at most `limit` - 1 more; return why the text ended."""
        stream = self._vocabulary.tokenizer.stream()
        stop = StopTexts(self._vocabulary.stop)
        end = End.TOKENS
        while True:
            if token in self._vocabulary.ends:
                end = End.SEQUENCE
                break
            # Whole characters only: the stream keeps the bytes of an unfinished one.
            new = stop.feed(stream.feed(token))
            if self._writes_ids:
                new = f",{token}" if self.ids else str(token)
            self.ids.append(token)
            outside.write(new)
            if stop.found:
                return End.STOP
            if len(self.ids) == limit:
                break
            if outside.stopped():
                end = End.STOPPED
                break
            token = self._sampler.pick(self._decoder.decode(token))
            self.decodes += 1
        rest = stop.feed(stream.finish()) + stop.finish()
        if not self._writes_ids:
            outside.write(rest)
        return end


class StopTexts:
    """Looks for texts that end a text; neither they nor what follows is written."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Look for any of these."""
        self.found = False
        self._texts = texts
        self._held = ""  # the end so far, where one of the texts may begin

    def feed(self, piece: str) -> str:
        """Return what can be written now."""
        if self.found:
            return ""
        text = self._held + piece
        places = [place for x in self._texts if (place := text.find(x)) >= 0]
        if places:
            self.found, self._held = True, ""
            return text[: min(places)]
        held = max((_overlap(text, x) for x in self._texts), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """Return what was held back for nothing."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text with which `stop` begins."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
