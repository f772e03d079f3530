"""Generate text after a prompt with a decoder's bundle, and measure its times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ingot.bundles.reader import Bundle
from ingot.bundles.sampler import Sampler, Sampling
from ingot.bundles.target_runner import module_of
from ingot.bundles.vocabulary import Vocabulary, prompt_tokens, read_vocabulary
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.runtime.decoder import Decoder, decoder_entries
from ingot.runtime.session import open_session

# Caches are allocated in steps, because even lengths suit vectors.
CTX_STEP = 32


class End(Enum):
    """The reason why a text ended."""

    TOKENS = "tokens= is reached"
    SEQUENCE = "the model ended it"
    CONTEXT = "the context is full"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Request:
    """The prompt, the length of the text, and how tokens are chosen."""

    prompt: str
    tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)


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
    try:
        decoder_entries(bundle.entry_points)
    except IngotError as error:
        raise IngotError(f"{bundle.name}: {error.message}") from error
    vocabulary = read_vocabulary(bundle)
    ids = prompt_tokens(bundle, vocabulary, request.prompt)
    decoder = _open(bundle, runner, len(ids) + request.tokens)
    loaded = time.monotonic()
    logits: Any = None
    longest = bundle.limit("seq")
    for place in range(0, len(ids), longest):
        logits = decoder.prefill(tuple(ids[place : place + longest]))
    prefilled = time.monotonic()
    text = Text(decoder, vocabulary, Sampler(request.sampling, vocabulary.known))
    first = text.sampler.pick(logits)
    known = time.monotonic()
    # The last token needs no position in the caches: nothing is computed from it.
    room = bundle.limit("ctx") - len(ids) + 1
    end = text.follow(first, min(request.tokens, room), outside)
    if end is End.TOKENS and room < request.tokens:
        end = End.CONTEXT
    return Generated(
        prompt_tokens=len(ids),
        tokens=text.tokens,
        end=end,
        load_s=loaded - start,
        prefill_s=prefilled - loaded,
        first_token_s=known - start,
        decodes=text.decodes,
        decode_s=time.monotonic() - known,
    )


def _open(bundle: Bundle, runner: Runner, tokens: int) -> Decoder:
    """Return the loaded model, with caches for so many tokens."""
    session = open_session(runner, module_of(bundle))
    return Decoder(session, bundle.entry_points, ctx_for(tokens, bundle))


def ctx_for(tokens: int, bundle: Bundle) -> int:
    """Return the size of the caches for a text of so many tokens."""
    rounded = -(-tokens // CTX_STEP) * CTX_STEP
    return min(max(rounded, bundle.least("ctx")), bundle.limit("ctx"))


class Text:
    """The text after a prompt, while it is generated."""

    def __init__(
        self, decoder: Decoder, vocabulary: Vocabulary, sampler: Sampler
    ) -> None:
        """Start after the prompt."""
        self.tokens = 0
        self.decodes = 0
        self.sampler = sampler
        self._decoder = decoder
        self._vocabulary = vocabulary

    def follow(self, token: int, limit: int, outside: Outside) -> End:
        """Write this token and at most `limit` - 1 more; return why the text ended."""
        stream = self._vocabulary.tokenizer.decode_stream(skip_special_tokens=True)
        end = End.TOKENS
        while True:
            if token in self._vocabulary.ends:
                end = End.SEQUENCE
                break
            # Whole characters only: the stream keeps the bytes of an unfinished one.
            outside.write(stream.feed_one(token))
            self.tokens += 1
            if self.tokens == limit:
                break
            if outside.stopped():
                end = End.STOPPED
                break
            token = self.sampler.pick(self._decoder.decode(token))
            self.decodes += 1
        outside.write(stream.finalize())
        return end
