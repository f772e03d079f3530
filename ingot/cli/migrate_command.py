"""Run `doit migrate`: rewrite YAML files that use renamed words."""

from __future__ import annotations

from ingot.cli.commands import Call
from ingot.errors import IngotError, counted
from ingot.model.yaml_nodes import format_errors
from ingot.project.migrate import read, write, yaml_files


def migrate(call: Call) -> int:
    """Rewrite the named files, or all of the project; print every change.

    Raises: IngotError for a file that cannot be read; then no file is rewritten.
    """
    paths = [call.root / word for word in call.words] or yaml_files(call.root)
    try:
        found = read(list(dict.fromkeys(paths)), call.root)
    except ExceptionGroup as group:
        raise IngotError(format_errors(group)) from None
    for file in found:
        if not call.options["dry_run"]:
            write(file)
        for change in file.changes:
            print(f"{change.position}: {change.old} -> {change.new}")
    if found:
        done = "to rewrite" if call.options["dry_run"] else "rewritten"
        print(f"{counted(len(found), 'file')} {done}")
    else:
        print("nothing to rewrite: no file uses a renamed word")
    return 0
