"""List what a module, at the compiler's stream level, copies without computing."""

from __future__ import annotations

import re

# Anything of `stream.async` that is left was not made a command: it may be a copy yet.
_COPIES = re.compile(
    r"stream\.(?:cmd\.(?:copy|fill)|tensor\.(?:clone|encode)|async\.\w+)"
)


def copies(text: str) -> list[str]:
    """Return the names of all copies, fills and packings, in the order of the text.

    Raises: AssertionError where nothing is dispatched: such a text says nothing.
    """
    assert "stream.cmd.dispatch" in text
    return _COPIES.findall(text)
