"""doit's command `inspect`: a model at one level of its compilation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doit.exceptions import InvalidCommand

from ingot.cli.build_first import Building
from ingot.cli.commands import guarded, variables
from ingot.project.catalogue import asked, read
from ingot.project.selection import select


class Inspect(Building):
    """Blocks, operations, buffers or the program of a model."""

    name = "inspect"
    doc_purpose = "show a model as its graph, in linalg, as buffers or as a program"
    doc_usage = "model=NAME target=NAME level=graph|linalg|tensor|program [filter=...]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Compile as far as the level, then show; refuse what is wrong before that."""
        requests: list[Any] = []

        def prepare() -> int:
            from ingot.inspection.inspect import read_request

            if args:
                raise InvalidCommand(f"inspect takes no task, found '{args[0]}'")
            root = Path.cwd()
            selection = select(read(root, asked(variables())), variables())
            requests.append(read_request(root, selection, variables()))
            return 0

        def show() -> int:
            from ingot.inspection.inspect import run

            return run(Path.cwd(), requests[0])

        guarded(prepare)
        (request,) = requests
        code = self.build(params, request.task) if request.task else 0
        return code or guarded(show)
