"""doit's command `ablate`: where a low-precision model's error comes from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from doit.exceptions import InvalidCommand

from ingot.cli.build_first import Building
from ingot.cli.commands import guarded, variables
from ingot.project.catalogue import asked, read
from ingot.project.selection import refuse_compiled_only, select


class Ablate(Building):
    """The error of every block, rounded in several ways."""

    name = "ablate"
    doc_purpose = "say which block a low-precision model's error comes from"
    doc_usage = "model=NAME [modes=...] [weights=SCHEME]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Bake the weights, then compute; refuse what is wrong before that."""
        requests: list[Any] = []

        def prepare() -> int:
            from ingot.ablation.ablate import read_request

            if args:
                raise InvalidCommand(f"ablate takes no task, found '{args[0]}'")
            root = Path.cwd()
            catalogue = read(root, asked(variables()))
            selection = select(catalogue, variables())
            refuse_compiled_only(catalogue, selection)
            requests.append(read_request(root, selection, variables()))
            return 0

        def compute() -> int:
            from ingot.ablation.ablate import run

            return run(Path.cwd(), requests[0])

        guarded(prepare)
        code = self.build(params, requests[0].task)
        try:
            return code or guarded(compute)
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            return 130
