"""Run `doit chat`: talk to a chat model, line by line.

Each line of standard input is a turn, and each answer goes to standard output, so it
works in a pipe too. Ctrl-C ends an answer, and between answers the conversation; Ctrl-D
ends the conversation.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from ingot.bundles.conversation import chat_prompt
from ingot.bundles.generator import End, Model, Outside, Request, check_decoder
from ingot.bundles.reader import Bundle
from ingot.bundles.vocabulary import Vocabulary, prompt_tokens, read_vocabulary
from ingot.cli.commands import INTERRUPTED, Call
from ingot.cli.generate_command import first_interrupt_noted, sampling, write
from ingot.cli.runnable_model import choose, with_model
from ingot.cli.variables import integer
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.runtime.chat_template import Message

TOKENS = 512
"""The tokens of an answer at most, unless tokens= says otherwise."""

PROMPT = "> "


def chat(call: Call) -> int:
    """Answer each line of standard input; return the exit code."""
    variables = call.variables
    tokens = integer(variables, "tokens", 1) or TOKENS
    sampling(variables)
    chosen = choose(call, "chat")
    if chosen.contract["generation"]["chat_template"] is None:
        raise IngotError(
            f"{chosen.name}: the model has no chat template",
            'it continues a text: doit generate prompt="..."',
        )
    drawn = sampling({**chosen.sampling, **variables})
    request = Request("", tokens, drawn, system=variables.get("system", ""))

    def use(bundle: Bundle, runner: Runner) -> int:
        return converse(bundle, runner, request)

    return with_model(call, chosen, use)


def converse(bundle: Bundle, runner: Runner, request: Request) -> int:
    """Answer each line of standard input; return the exit code."""
    check_decoder(bundle)
    vocabulary = read_vocabulary(bundle)
    model = Model(bundle, runner, vocabulary, bundle.limit("ctx"))
    talk = Conversation(bundle, vocabulary, model, request)
    while True:
        try:
            line = _line()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return INTERRUPTED
        if line is None:
            return 0
        if line.strip():
            talk.answer(line)


def _line() -> str | None:
    """Return the next line; None at the end of the input."""
    if sys.stdin.isatty():
        print(PROMPT, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if line:
        return line.rstrip("\n")
    if sys.stdin.isatty():
        print(file=sys.stderr)
    return None


@dataclass(slots=True)
class Conversation:
    """The turns so far, which the model's caches hold too."""

    bundle: Bundle
    vocabulary: Vocabulary
    model: Model
    request: Request
    messages: list[Message] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the system message, if there is one."""
        system = self.request.system
        self.messages = [Message(role="system", content=system)] if system else []

    def answer(self, line: str) -> None:
        """Write the answer to a line, and remember both.

        Raises: IngotError if one line alone does not fit into the context.
        """
        start = time.monotonic()
        self.messages.append(Message(role="user", content=line))
        ids = self._ids()
        pieces: list[str] = []

        def write_piece(text: str) -> None:
            pieces.append(text)
            write(text)

        with first_interrupt_noted() as stopped:
            outside = Outside(write_piece, stopped)
            made = self.model.continue_text(ids, self.request, outside, start)
        write("\n")
        self.messages.append(Message(role="assistant", content="".join(pieces)))
        if made.end is End.CONTEXT:
            print("note: the context is full: the answer is cut", file=sys.stderr)
        if made.end is End.TOKENS:
            text = f"note: the answer is cut after tokens={self.request.tokens}"
            print(text, file=sys.stderr)

    def _ids(self) -> list[int]:
        """Return the prompt's ids; the oldest turns are left out if it is too long."""
        while True:
            text = chat_prompt(self.bundle, self.vocabulary, self.messages)
            first = 1 if self.messages[0]["role"] == "system" else 0
            ids = self.vocabulary.tokenizer.encode(text, around=False)
            last = len(self.messages) - first <= 1
            if last or len(ids) < self.bundle.limit("ctx"):
                return prompt_tokens(self.bundle, self.vocabulary, text, around=False)
            del self.messages[first : first + 2]
            text = "note: the context is full: the oldest turn is forgotten"
            print(text, file=sys.stderr)
