"""What is said when Ctrl-C ends a command before a build begins."""

from __future__ import annotations

import sys
from typing import Any


def tell() -> None:
    """Say it, from now on, in place of a traceback; once more changes nothing."""
    sys.excepthook = _end


def _end(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Show what nobody caught; Ctrl-C is no defect."""
    if issubclass(kind, KeyboardInterrupt):
        print("\nstopped; nothing was run", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
