"""The oracle that a component names in, what is wrong with the name out.

The file is not imported: only its functions' names are looked at.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ingot.errors import ManifestError, Position, did_you_mean
from ingot.model.text_files import read_file, why

_FUNCTION = re.compile(r"^def ([A-Za-z_]\w*)\(", re.MULTILINE)


def check_oracle(
    component: str, text: str, oracle: tuple[str, str], root: Path
) -> list[ManifestError]:
    """Return what is wrong where a component's oracle is no function of its file."""
    file, function = oracle
    try:
        known = _functions(str(read_file(root / file), "utf-8", errors="replace"))
    except FileNotFoundError:
        return [_error(component, text, f"no file '{file}'")]
    except OSError as error:
        return [_error(component, text, f"'{file}' {why(error)}")]
    if function in known:
        return []
    public = [name for name in known if not name.startswith("_")]
    hint = did_you_mean(function, public, "functions")
    return [_error(component, text, f"no function '{function}' in {file}", hint)]


# By text: a changed file is another key, so nothing stale is ever returned.
@cache
def _functions(text: str) -> tuple[str, ...]:
    return tuple(_FUNCTION.findall(text))


def _error(component: str, text: str, message: str, hint: str = "") -> ManifestError:
    """Return an error at the line of the header that names the oracle."""
    above = text[: text.index("// Oracle:")]
    position = Position(f"components/{component}.mlir", above.count("\n") + 1, 1)
    return ManifestError(position, "", f"Oracle: {message}", hint)
