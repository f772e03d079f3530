"""Say which changed inputs of a build can be the reason of a change in its bundle."""

from __future__ import annotations

from collections.abc import Collection

from ingot.bundles.difference import Change

COMPILER, FLAGS, WEIGHTS = "compiler", "compile flags", "weights"
UNKNOWN = "nothing that bundle.json records; ingot itself may differ"

# The kinds of inputs, by how their names begin; a longer one goes before a shorter one.
_KINDS = {
    "models/licences/": "licence",
    "models/": "model",
    "components/": "component",
    "targets/layouts/": "layout",
    "targets/": "target",
    WEIGHTS: WEIGHTS,
    COMPILER: COMPILER,
    FLAGS: FLAGS,
}
_KERNELS = "kernels"
"""Files in `targets/` that only the compiler reads."""

_LINKED = {"model", "component", "layout"}
_CONTRACT = {"model", "target", "layout", WEIGHTS, COMPILER}
_MODULE = {"target", _KERNELS, COMPILER, FLAGS}
_ARCHIVE = {WEIGHTS, "model", "layout"}
_ALL = {*_KINDS.values(), _KERNELS} - {"licence"}

_OF_AREA = {
    "contract": _CONTRACT,
    "module": _MODULE,
    "flags": {"target", FLAGS},
    "compiler": {COMPILER},
    "weights": _ARCHIVE,
    "check": _ALL,
}
# Files that are missing here are written from the contract.
_OF_FILE = {
    "model.vmfb": _MODULE,
    "model.irpa": _ARCHIVE,
    "check.json": _ALL,
    "golden.json": _ALL,
    "tokenizer.json": {"model"},
    "chat_template.jinja": {"model"},
    "LICENSE": {"licence", "model"},
    "run.py": set[str](),
    "run_text.py": set[str](),
}


def causes(change: Change, inputs: Collection[str], linked: bool) -> tuple[str, ...]:
    """Return the changed inputs that can be the reason of a change.

    `linked` says whether the linked module differs: otherwise nothing that it is made
    from is the reason of another compiled one.
    """
    if change.area == "files":
        kinds = _OF_FILE.get(change.what, _CONTRACT)
        # A page or a header comes and goes with the version of ingot.
        if change.what not in _OF_FILE and None in (change.before, change.after):
            kinds = set()
    else:
        kinds = _OF_AREA[change.area]
    if kinds == _MODULE and linked:
        kinds = _MODULE | _LINKED
    return tuple(name for name in inputs if _kind(name) in kinds) or (UNKNOWN,)


def _kind(name: str) -> str:
    kind = next(kind for start, kind in _KINDS.items() if name.startswith(start))
    is_yaml = name.endswith(".yaml")
    return _KERNELS if kind == "target" and not is_yaml else kind
