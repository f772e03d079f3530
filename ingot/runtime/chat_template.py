"""Write a conversation as a prompt, with the Jinja template of a checkpoint.

A template is a program of whoever made the checkpoint. It runs in Jinja's sandbox,
without a loader for files, and `ingot.programs.render_chat` limits its time and memory.
The environment is the one in which transformers runs templates, so that those of the
hub work.

Source: huggingface/transformers, utils/chat_template_utils.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

from ingot.errors import IngotError

PROMPT = "prompt.txt"
"""The file in which the program that runs a template leaves its text."""

LARGEST = 1 << 20
"""Characters of a prompt; no context of a model holds more."""


class Message(TypedDict):
    """One turn of a conversation."""

    role: str  # "system", "user" or "assistant"
    content: str


def render(template: str, messages: Sequence[Message], names: dict[str, str]) -> str:
    """Return the prompt after which the model answers the last message.

    `names` are the tokens that a template may write: `bos_token`, `eos_token`.

    Raises: IngotError if the template is wrong, does what the sandbox forbids, or
        rejects the conversation.
    """
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

    try:
        environment = _environment()
        pieces = environment.from_string(template).generate(
            messages=list(messages), add_generation_prompt=True, **names
        )
        return _joined(pieces)
    except TemplateSyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        raise _error(f"{place}{error.message}") from error
    except SecurityError as error:
        raise _error(f"it does what the sandbox forbids: {error}") from error
    except TemplateError as error:
        raise _error(str(error)) from error
    except IngotError:
        raise
    except MemoryError as error:
        raise _error("it needs too much memory") from error
    except Exception as error:
        # Jinja has no error of its own for a template that wants another file.
        reading = "no loader" in str(error)
        text = "it reads other files" if reading else f"{type(error).__name__}: {error}"
        raise _error(text) from error


def _joined(pieces: Any) -> str:
    found, size = [], 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise _error(f"it writes more than {LARGEST} characters")
    return "".join(found)


def _error(what: str) -> IngotError:
    return IngotError(
        f"chat_template: {what}",
        "see generation.chat_template of the manifest; template=none does without it",
    )


def _environment() -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Ignore the marks around what an assistant says, which training needs."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            """Return the content of the block."""
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise TemplateError(f"it rejects the conversation: {message}")

    def to_json(value: Any, indent: int | None = None, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
    return environment
