"""Write a conversation as a prompt, within limits of time and memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.render_chat.spec import RenderChatSpec


def main() -> None:
    """Write the prompt of the specification in `argv[1]`."""
    from ingot.runtime.chat_template import PROMPT, Message, render

    path = Path(sys.argv[1])
    specification = from_json(RenderChatSpec, path.read_bytes())
    _limit(resource.RLIMIT_CPU, specification.cpu_s)
    _limit(resource.RLIMIT_AS, specification.memory_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    messages = [Message(role=x, content=y) for x, y in specification.messages]
    try:
        text = render(specification.template, messages, specification.names)
    except IngotError as error:
        sys.exit(str(error))
    path.with_name(PROMPT).write_bytes(text.encode(errors="replace"))


def _limit(what: int, most: int) -> None:
    """Set a limit, unless a lower one holds already."""
    _, hard = resource.getrlimit(what)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (value, value))


if __name__ == "__main__":
    main()
