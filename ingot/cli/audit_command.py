"""Run `doit audit`: build a sample of the cached actions again, and compare."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ingot.cli.build_command import stop_on_signals
from ingot.cli.commands import FAILED, Call
from ingot.cli.connections import open_cache, open_store, open_trust, warn_of_trust
from ingot.cli.tasks import choose_actions
from ingot.cli.variables import integer
from ingot.engine import process, sandbox
from ingot.engine.actions import Action
from ingot.engine.audit import Audited, Auditor, CachedAction
from ingot.engine.executor import Executor
from ingot.errors import IngotError, counted
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import select

# How many actions are run again unless the user says otherwise.
SAMPLE = 10

SEEDS = 1 << 32


def audit(call: Call) -> int:
    """Run a sample of the selected actions again; return 1 if one differs."""
    stop_on_signals()
    sandbox.probe()
    variables = dict(call.variables)
    size = sample_size(variables)
    catalogue = read(call.root, requested_models(variables, call.words))
    store, trust = open_store(), open_trust(catalogue.settings)
    shared = open_cache(catalogue.settings, store, "local", trust)
    auditor = Auditor(Executor(call.root, store, lambda *_: None), shared)
    chosen = choose_actions(catalogue.plan, select(catalogue, variables), call)
    actions = [a for a in catalogue.plan.actions if a.task in chosen]
    # Earlier actions name the inputs of the chosen ones.
    needed = catalogue.plan.needed(chosen)
    above = [a for a in catalogue.plan.actions if a.task in needed]
    cached = [item for item in auditor.find(above) if item.action.task in chosen]
    repeatable = [item for item in cached if not why_left_out(item.action)]
    if not repeatable:
        raise IngotError(
            f"audit: no cache has a result of the {counted(len(actions), 'action')}",
            "build them first: doit build",
        )
    seed = integer(variables, "seed", 0)
    seed = random.SystemRandom().randrange(SEEDS) if seed is None else seed
    found = rebuild_all(auditor, sample(repeatable, size, seed))
    if shared is not None:
        shared.finish()
    left_out = left_out_text(cached)
    if call.options["json"]:
        print(json.dumps(as_json(found, seed, len(actions), left_out), indent=1))
    else:
        print("\n".join(as_text(found, seed, len(actions), left_out)))
    warn_of_trust(trust)
    return 0 if all(item.is_same for item in found) else FAILED


def sample_size(variables: Mapping[str, str]) -> int | None:
    """Return how many actions to run again; None for all.

    Raises: IngotError if the variable says neither.
    """
    if variables.get("sample") == "all":
        return None
    try:
        size = integer(variables, "sample", 1)
    except IngotError as error:
        raise IngotError(f"{error.message}, or 'all'", error.hint) from None
    return SAMPLE if size is None else size


def sample(
    cached: list[CachedAction], size: int | None, seed: int
) -> list[CachedAction]:
    """Return that many of the actions, in their order; the seed chooses which."""
    if size is None or size >= len(cached):
        return cached
    chosen = random.Random(seed).sample(range(len(cached)), size)
    return [cached[index] for index in sorted(chosen)]


def why_left_out(action: Action) -> str:
    """Return why the action's outputs differ each time; "" if they should not."""
    if action.exclusive:
        return "measures time"
    if ("network", "yes") in action.platform:
        return "downloads, with a digest of its own"
    return ""


def left_out_text(cached: list[CachedAction]) -> dict[str, str]:
    """Return the actions that cannot be compared, and why."""
    reasons = {item.action.task: why_left_out(item.action) for item in cached}
    return {task: reason for task, reason in reasons.items() if reason}


def rebuild_all(auditor: Auditor, chosen: list[CachedAction]) -> list[Audited]:
    """Run the actions again, as many at once as there are processors."""
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        found = []
        for number, item in enumerate(pool.map(auditor.rebuild, chosen), 1):
            print(f"[{number}/{len(chosen)}] {item.task}", file=sys.stderr, flush=True)
            found.append(item)
        return found
    except BaseException:
        process.stop_all()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def as_text(
    found: list[Audited], seed: int, n_actions: int, left_out: Mapping[str, str]
) -> list[str]:
    """Return a table of the actions, what differs below each, and a summary."""
    width = max(len(item.task) for item in found)
    lines = [f"{'action':{width}}  {'key':12}  result"]
    for item in found:
        lines.append(f"{item.task:{width}}  {item.key}  {_verdict(item)}")
        lines += [f"  {difference}" for difference in item.differences]
        lines += [f"  {line}" for line in item.failure.splitlines()]
    n_same = sum(item.is_same for item in found)
    n_different = len(found) - n_same
    lines.append(
        f"{len(found)} of {counted(n_actions, 'action')} run again (seed={seed}):"
        f" {n_same} the same, {n_different} not"
    )
    if left_out:
        lines.append(f"left out: {', '.join(left_out)}: each differs by its nature")
    if n_different:
        lines.append(
            "a result that differs was stored by somebody else, or its action depends"
            " on something that its key does not name\n"
            "  look at it, delete it where it is, and revoke the key that signed it"
        )
    return lines


def as_json(
    found: list[Audited], seed: int, n_actions: int, left_out: Mapping[str, str]
) -> dict[str, Any]:
    """Return the same as a value for programs."""
    return {
        "seed": seed,
        "n_actions": n_actions,
        "left_out": dict(left_out),
        "actions": [
            {
                "task": item.task,
                "key": item.key.hash,
                "caches": item.caches,
                "result": _verdict(item),
                "failure": item.failure,
                "differences": [
                    {
                        "cache": one.cache,
                        "path": one.path,
                        "cached": one.cached.hash,
                        "rebuilt": one.rebuilt.hash,
                        "at_byte": one.at_byte,
                    }
                    for one in item.differences
                ],
            }
            for item in found
        ],
    }


def _verdict(item: Audited) -> str:
    if item.failure:
        return "failed"
    return "the same" if item.is_same else "differs"
