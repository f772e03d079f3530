"""Select the models and targets that a command's variables name."""

from __future__ import annotations

from ingot.errors import IngotError, did_you_mean
from ingot.project.catalogue import Catalogue, Selection


def select(catalogue: Catalogue, variables: dict[str, str]) -> Selection:
    """Return the models and targets that the variables name, or the defaults.

    `all` leaves out targets that this processor cannot run, and models that a target
    has no kernels for, and reports them. Models and targets that are named are never
    left out.

    Raises: IngotError for an unknown name; with the errors of a named manifest or
        target; if a target has no kernels for a named model, or for any selected one.
    """
    settings = catalogue.settings
    models, all_models = _names(
        "model", variables, settings.models, settings.default_model
    )
    if "model" not in variables and not catalogue.models.keys() >= set(models):
        # Every requested task names its own model, so the default one was not read.
        models = ()
    for name in models:
        if broken := catalogue.models[name].broken:
            raise IngotError(broken)
    known = (*settings.targets, *settings.aliases, *settings.broken)
    targets, all_targets = _names("target", variables, known, settings.default_target)
    # Tasks that name their own targets do not need the default one.
    for name in targets if models or "target" in variables else ():
        if name in settings.broken:
            raise IngotError(settings.broken[name])
    skipped = dict(settings.unrunnable) if all_targets else {}
    resolved = dict.fromkeys(
        settings.aliases.get(name, name) for name in targets if name not in skipped
    )
    unbuildable = {
        f"{model}@{target}": reason
        for model in models
        for target, reason in catalogue.models[model].unbuildable.items()
        if target in resolved
    }
    named = not (all_models or all_targets)
    if unbuildable and (named or len(unbuildable) == len(models) * len(resolved)):
        raise IngotError("\n".join(dict.fromkeys(unbuildable.values())))
    return Selection(models, tuple(resolved), tuple((skipped | unbuildable).items()))


def _names(
    kind: str, variables: dict[str, str], known: tuple[str, ...], default: str
) -> tuple[tuple[str, ...], bool]:
    """Return the names that the variable selects, and whether it is `all`."""
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
    """Return the name in a word, which may be the path of a file."""
    return word.rpartition("/")[2].removesuffix(".yaml").lower()


def check_runnable(catalogue: Catalogue, selection: Selection) -> None:
    """Reject models that are only compiled.

    Raises: IngotError if the weights of a selected model are a splat.
    """
    for model in catalogue.plan.compiled_only(selection):
        raise IngotError(
            f"{model}: only compiled, because its weights are a splat",
            f"give it weights to run it: weights.source in models/{model}.yaml",
        )


def check_readable(catalogue: Catalogue, task: str) -> None:
    """Reject a task of a model or target whose file cannot be read.

    Raises: IngotError with the errors in the file.
    """
    model, _, target = task.partition(":")[2].partition("@")
    found = catalogue.models.get(model)
    broken = found.broken if found else ""
    if broken := broken or catalogue.settings.broken.get(target, ""):
        raise IngotError(broken)
