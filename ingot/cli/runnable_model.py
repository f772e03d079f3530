"""Bring a decoder to the point where it can run, before its bundle is complete.

A text needs the module, the archive and the tokenizer. The check and the benchmark take
minutes on a fresh machine, so they run after the text; until then, the model is
unchecked, and the command says so.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.bundles.contract import CHAT_TEMPLATE
from ingot.bundles.reader import Bundle, planned_bundle, read_bundle
from ingot.bundles.target_runner import runner_for
from ingot.bundles.vocabulary import check_tokenizer
from ingot.cli.build_command import build_first
from ingot.cli.commands import FAILED, Call
from ingot.cli.connections import open_store
from ingot.cli.variables import one_of_each
from ingot.engine.actions import Action, InlineText, Output, SourceFile
from ingot.engine.executor import Executor
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.project.catalogue import Catalogue, Plan, Selection, read, requested_models
from ingot.project.selection import check_runnable, select
from ingot.runtime.decoder import DECODE, PREFILL

# What a text needs of a bundle; a model without a chat template lacks the last.
NEEDED = ("model.vmfb", "model.irpa", "tokenizer.json", CHAT_TEMPLATE)

Use = Callable[[Bundle, Runner], int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model and target of a command, as planned."""

    name: str  # model@target
    plan: Plan
    contract: dict[str, Any]  # what bundle.json will state

    @property
    def bundle(self) -> Action:
        """Return the action that packs the bundle."""
        return self.plan.by_task[f"bundle:{self.name}"]

    @property
    def sources(self) -> dict[str, Any]:
        """Return where the files come from that a text needs, by name."""
        inputs = dict(self.bundle.inputs)
        return {name: inputs[name] for name in NEEDED if name in inputs}

    @property
    def sampling(self) -> dict[str, str]:
        """Return the sampling that the manifest states, as variables."""
        stated: Mapping[str, Any] = self.contract["sampling"]
        unstated = {"temperature": 0.0, "top_k": None, "top_p": 1.0}
        return {
            key: str(value) for key, value in stated.items() if value != unstated[key]
        }


def choose(call: Call, command: str) -> Chosen:
    """Return the one model and target that a command line means.

    Raises: IngotError if there are several, or none that can write text here.
    """
    variables = dict(call.variables)
    catalogue = read(call.root, requested_models(variables))
    return chosen(command, catalogue, select(catalogue, variables))


def chosen(command: str, catalogue: Catalogue, selection: Selection) -> Chosen:
    """Return the one model and target of a selection.

    Raises: IngotError if there are several, or the bundle that would be built cannot
        write text here.
    """
    model, target = one_of_each(command, selection.models, selection.targets)
    name = f"{model}@{target}"
    if reason := catalogue.settings.unrunnable.get(target):
        raise IngotError(f"{name} does not run here: {reason}")
    check_runnable(catalogue, selection)
    # The plan contains the bundle's description before the bundle is built.
    specification = dict(catalogue.plan.by_task[f"bundle:{name}"].inputs)["spec.json"]
    assert isinstance(specification, InlineText)
    planned = json.loads(specification.text)
    entries = [entry["name"] for entry in planned["contract"]["entry_points"]]
    if PREFILL not in entries or DECODE not in entries:
        raise IngotError(
            f"{name}: not a decoder; expected the entry points {PREFILL} and {DECODE}, "
            f"found {', '.join(entries)}"
        )
    check_tokenizer(name, planned["files"])
    return Chosen(name, catalogue.plan, planned["contract"])


def with_model(call: Call, chosen: Chosen, use: Use) -> int:
    """Call `use` with the model as soon as it runs; build its bundle after that.

    Returns the exit code: that of `use` or, if that is 0, of the build.
    """
    task = chosen.bundle.task
    alone = call.options["always"] or call.options["single"]
    if alone and (code := build_first(call, task)):
        return code
    if alone or _is_built(call.root, chosen):
        return _use(call.root, read_built(call.root, chosen.name), use)
    needs = dict.fromkeys(
        source.task for source in chosen.sources.values() if isinstance(source, Output)
    )
    if code := build_first(call, *needs):
        return code
    text = "this model is not checked yet; the check follows"
    if call.options["unchecked"]:
        text = "this model is not checked"
    print(f"unchecked: {text}", file=sys.stderr)
    with unchecked_bundle(call.root, chosen) as bundle:
        code = _use(call.root, bundle, use)
    if code or call.options["unchecked"]:
        return code
    code = build_first(call, task)
    if code == FAILED:
        text = "do not trust the text above: it is of a model whose build failed"
        print(text, file=sys.stderr)
    return code


def _use(root: Path, bundle: Bundle, use: Use) -> int:
    runner = runner_for(bundle, root)
    if isinstance(runner, str):
        raise IngotError(f"{bundle.name} does not run here: {runner}")
    return use(bundle, runner)


def _is_built(root: Path, chosen: Chosen) -> bool:
    """Return whether nothing is left to do for the bundle."""
    executor = Executor(root, open_store(), lambda *_: None)
    needed = chosen.plan.needed([chosen.bundle.task])
    return all(
        executor.is_up_to_date(action)
        for action in chosen.plan.actions
        if action.task in needed
    )


def read_built(root: Path, name: str) -> Bundle:
    """Return the built bundle `model@target`; its files' digests are remembered.

    Raises: IngotError if a file is not as it was packed.
    """
    digests = open_store().digests
    model, _, target = name.partition("@")

    def digest(path: Path) -> tuple[str, int]:
        found = digests.of_file(path)
        return found.hash, found.size_bytes

    return read_bundle(root / "build" / model / target / "bundle", digest)


@contextmanager
def unchecked_bundle(root: Path, chosen: Chosen) -> Iterator[Bundle]:
    """Yield what is built of a bundle, in a folder of links to its files."""
    store = open_store()
    records = Executor(root, store, lambda *_: None).records
    with tempfile.TemporaryDirectory(prefix="ingot-unchecked-") as name:
        folder = Path(name)
        for file, source in chosen.sources.items():
            if isinstance(source, InlineText):
                (folder / file).write_text(source.text, encoding="utf-8")
                continue
            if isinstance(source, SourceFile):
                path = source.path
            else:
                record = records.get(source.task)
                assert record is not None
                path = store.blob(dict(record.outputs)[source.path])
            (folder / file).symlink_to(Path(path).absolute())
        yield planned_bundle(folder, chosen.contract, tuple(chosen.sources))
