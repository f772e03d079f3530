"""Select the models and targets that a command's variables name."""

from __future__ import annotations

from ingot.errors import IngotError, did_you_mean
from ingot.project.catalogue import Catalogue, Selection


def select(catalogue: Catalogue, variables: dict[str, str]) -> Selection:
    """Return the models and targets that the variables name, or the defaults.

    `all` leaves out what this processor cannot run, or a target cannot have, and says
    so; what is named is never left out.

    Raises: IngotError for an unknown name, with the own defects of a named manifest
        or target, or where a target cannot have a model and nothing else is left, or
        both were named.
    """
    settings = catalogue.settings
    models, all_models = _names(
        "model", variables, settings.models, settings.default_model
    )
    if "model" not in variables and not catalogue.models.keys() >= set(models):
        # Every task that is asked for names its own: the default one was not read.
        models = ()
    for name in models:
        if broken := catalogue.models[name].broken:
            raise IngotError(broken)
    known = (*settings.targets, *settings.aliases, *settings.broken)
    targets, all_targets = _names("target", variables, known, settings.default_target)
    # Tasks that name their own targets are not about the default one.
    for name in targets if models or "target" in variables else ():
        if name in settings.broken:
            raise IngotError(settings.broken[name])
    skipped = dict(settings.unrunnable) if all_targets else {}
    resolved = dict.fromkeys(
        settings.aliases.get(name, name) for name in targets if name not in skipped
    )
    refused = {
        f"{model}@{target}": reason
        for model in models
        for target, reason in catalogue.models[model].unbuildable.items()
        if target in resolved
    }
    named = not (all_models or all_targets)
    if refused and (named or len(refused) == len(models) * len(resolved)):
        raise IngotError("\n".join(dict.fromkeys(refused.values())))
    return Selection(models, tuple(resolved), tuple((skipped | refused).items()))


def _names(
    kind: str, variables: dict[str, str], known: tuple[str, ...], default: str
) -> tuple[tuple[str, ...], bool]:
    """Return the names that the variable stands for, and whether it says `all`."""
    words = [word.strip() for word in variables.get(kind, default).split(",")]
    for word in words:
        if word not in known and word != "all":
            raise IngotError(
                f"{kind}={word}: no {kind} named '{word}'",
                did_you_mean(_name(word), known, f"{kind}s"),
            )
    if "all" in words:
        return known, True
    return tuple(dict.fromkeys(words)), False


def _name(word: str) -> str:
    """Return the name that is meant where somebody writes a file's path."""
    return word.rpartition("/")[2].removesuffix(".yaml").lower()


def refuse_compiled_only(catalogue: Catalogue, selection: Selection) -> None:
    """Refuse models of which there is nothing to run.

    Raises: IngotError where a selected model's weights are a splat.
    """
    for model in catalogue.plan.compiled_only(selection):
        raise IngotError(
            f"{model}: compiled only, its weights are a splat",
            f"give it weights to run it: weights.source in models/{model}.yaml",
        )


def refuse_unreadable(catalogue: Catalogue, task: str) -> None:
    """Refuse a task of a model or target whose file cannot be read.

    Raises: IngotError with the file's own defects.
    """
    model, _, target = task.partition(":")[2].partition("@")
    found = catalogue.models.get(model)
    broken = found.broken if found else ""
    if broken := broken or catalogue.settings.broken.get(target, ""):
        raise IngotError(broken)
