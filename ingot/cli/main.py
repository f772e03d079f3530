"""The program `doit`: it says so, in place of a traceback, where Ctrl-C ends it."""

from __future__ import annotations

import sys

from ingot.cli import interrupt


def main() -> int:
    """Run doit with the command line's words; return the exit code."""
    interrupt.tell()
    # Only now: to read what it imports takes a tenth of a second.
    from ingot.cli.doit_program import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
