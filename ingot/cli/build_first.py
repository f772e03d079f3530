"""Commands that build what they need first: what they print is theirs alone."""

from __future__ import annotations

import sys
from typing import Any

from ingot.cli.commands import Run


class Building(Run):
    """A command that runs a task before its own work."""

    def build(self, params: Any, task: str) -> int:
        """Run the task and what it needs, told on standard error; return its code."""
        from ingot.cli.reporter import NeededReporter, QuietReporter

        params["outfile"] = sys.stderr
        params["reporter"] = QuietReporter if params["quiet"] else NeededReporter
        streams = sys.stdout, sys.stderr
        try:
            return self.run_tasks(params, [task])
        finally:
            # doit takes them away while a task runs, and where several run at once it
            # gives back what it took from another.
            sys.stdout, sys.stderr = streams
