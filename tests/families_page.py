"""Write the page on families, docs/families.md, from what is tested and refused.

It needs the extra `golden`, as it asks for every kind of model that transformers knows
whether `doit import` takes a checkpoint whose configuration has the defaults:

    python -m tests.families_page > docs/families.md
"""

from __future__ import annotations

import ast
import json
import logging
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ingot.errors import IngotError
from ingot.imports import encoders, families, mixtures
from ingot.imports.families import Family
from ingot.imports.hf_config import CONFIG, KNOWN, survey_directory
from ingot.imports.hyperparameters import check_rules, read_numbers
from ingot.imports.known_keys import check_keys, unknown_keys
from tests.family_checkpoints import CASES
from tests.project import ROOT

SHOWN = 5  # of the keys that Llama does not have
HEAD = """\
# Families

`doit import` takes a checkpoint of each family below, as safetensors; those marked GGUF
also as a GGUF file. transformers is the judge of each: the cases are small checkpoints
that it named and computed (`tests/family_checkpoints.py`), compared at lengths below
and above every window, and every context before a scaling. The lines are what the
family takes: its architecture without comments, and its description in `ingot/imports`.

Written by `python -m tests.families_page > docs/families.md`.
[How to add a family](skills/family-from-a-checkpoint.md).
"""


def families_table() -> Iterator[str]:
    """Yield the table of the families that are taken."""
    yield "| `model_type` | architecture | extends | lines | GGUF | cases |"
    yield "|---|---|---|---|---|---|"
    for family in sorted(KNOWN, key=lambda item: item.model_type):
        for item in (family, *(other for _, other in family.instead)):
            yield _row(item)


def _row(family: Family) -> str:
    path = ROOT / f"models/architectures/{family.architecture}.yaml"
    text = path.read_text()
    lines = [x for x in text.splitlines() if x.strip() and not x.startswith("#")]
    base = next((x.split()[1] for x in lines if x.startswith("extends: ")), "-")
    cases = [
        name
        for name, case in CASES.items()
        if (case.model_type, case.architecture)
        == (family.model_type, family.architecture)
    ]
    cells = (
        f"`{family.model_type}`",
        f"`{family.architecture}`",
        base,
        f"{len(lines)}, {_description_lines(family)}",
        "yes" if family in families.FAMILIES else "",
        ", ".join(cases),
    )
    return f"| {' | '.join(cells)} |"


def _description_lines(family: Family) -> int:
    """The lines of the expression that describes a family."""
    for module in (families, mixtures, encoders):
        for node in ast.parse(Path(str(module.__file__)).read_bytes()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            name = target.id if isinstance(target, ast.Name) else ""
            if getattr(module, name or "none", None) is family:
                return (node.end_lineno or node.lineno) - node.lineno + 1
    raise KeyError(family.hf_class)


def models_table() -> Iterator[str]:
    """Yield a row for each causal language model and encoder of transformers."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    logging.disable(logging.WARNING)
    causal = dict(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    masked = dict(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    bodies = dict(auto.MODEL_MAPPING_NAMES)
    config: Any = transformers.AutoConfig
    yield "| `model_type` | class | `doit import` |"
    yield "|---|---|---|"
    for kind, names in (("causal", causal), ("encoder", masked)):
        for model_type in sorted(names):
            name = names[model_type] if kind == "causal" else bodies.get(model_type)
            if not isinstance(name, str):
                continue
            try:
                stated = config.for_model(model_type).to_dict()
            except Exception as error:
                yield f"| `{model_type}` | {name} | no default config: {_cell(error)} |"
                continue
            stated = {**stated, "architectures": [name], "model_type": model_type}
            yield f"| `{model_type}` | {name} | {outcome(stated)} |"


def outcome(config: dict[str, Any]) -> str:
    """What the import says of a configuration: its architecture, or what it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / CONFIG).write_text(json.dumps(config, default=str))
        errors: list[IngotError] = []
        survey = survey_directory(path, errors)
        found = [error for error in errors if error.message.startswith(CONFIG)]
        if survey.family:
            found += check_rules(survey, survey.family)
            found += check_keys(survey, survey.family, ())
            read_numbers(survey, found)
            if not found:
                return f"builds: `{survey.family.architecture}`"
    keys = [error.message.removeprefix(f"{CONFIG}: ").split(":")[0] for error in found]
    told = f"refused: {', '.join(f'`{key}`' for key in dict.fromkeys(keys))}"
    unlike = unknown_keys(survey, families.LLAMA)
    if survey.family is None and unlike:
        shown = ", ".join(f"`{key}`" for key in unlike[:SHOWN])
        more = f" and {len(unlike) - SHOWN} more" if len(unlike) > SHOWN else ""
        told += f"; not in Llama: {shown}{more}"
    return told


def _cell(error: Exception) -> str:
    return type(error).__name__


def page() -> str:
    """The whole page."""
    return "\n".join(
        (
            HEAD,
            *families_table(),
            "",
            f"## The models of transformers {version('transformers')}",
            "",
            "Every causal language model and every encoder, with the defaults of its",
            "configuration: what it builds as, or by which keys of `config.json` it is",
            "refused. `architectures` says that no architecture computes its class;",
            "the first keys follow that Llama does not have.",
            "",
            *models_table(),
            "",
        )
    )


if __name__ == "__main__":
    print(page(), end="")
