"""Write what a worker is asked to run as text, and read its response.

Contents never travel this way, only their digests: they are in the shared cache.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ingot.engine.actions import Action, ActionResult, Digest, Output, ResolvedAction
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.results import checked_digest

# Bumped when an order's meaning changes: older workers then refuse it.
VERSION = 3

# Tools that only some machines have, and the label of a worker that has them.
LABELS = {"qemu-aarch64": "qemu-aarch64", "mesa-llvmpipe": "vulkan"}
BENCH = "bench"


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """What a worker is to run."""

    task: str
    resolved: ResolvedAction
    tools: tuple[str, ...]
    network: bool
    exclusive: bool
    store: str = ""  # identity of the store that waits for the answer
    # What it made before did not arrive: all of it is to be sent anew.
    again: bool = False

    def action(self) -> Action:
        """Return the action; its inputs are contents, wherever they come from."""
        return Action(
            task=self.task,
            argv=self.resolved.argv,
            inputs=tuple((path, Output("", path)) for path, _ in self.resolved.inputs),
            outputs=self.resolved.outputs,
            tools=self.tools,
            env=self.resolved.env,
            platform=self.resolved.platform,
            exclusive=self.exclusive,
        )


@dataclass(frozen=True, slots=True)
class WorkResponse:
    """How it went: a result, or why there is none; one of them is set."""

    worker: str  # its host and process
    result: ActionResult | None = None
    # The command ended with this code, printed this, did not write these.
    exit_code: int = 0
    log: Digest | None = None
    unwritten: tuple[str, ...] = ()
    missing: tuple[Digest, ...] = ()  # inputs that the shared cache lacks or has wrong
    refusal: str = ""  # this worker cannot run it
    remedy: str = ""  # what to do about the refusal


def order(action: Action, resolved: ResolvedAction, store: str = "") -> WorkRequest:
    """Return the order of an action; `store` is the identity of who waits for it."""
    network = ("network", "yes") in action.platform
    return WorkRequest(
        action.task, resolved, action.tools, network, action.exclusive, store
    )


def labels(action: Action) -> tuple[str, ...]:
    """Return what a worker must be labelled with to run the action."""
    found = [LABELS[tool] for tool in action.tools if tool in LABELS]
    return (*found, BENCH) if action.exclusive else tuple(found)


def memory_bytes(resolved: ResolvedAction) -> int:
    """Return what the action may need of its worker's memory.

    A compiler of a large model takes 1 GB; checks hold weights twice, as they are
    stored and as float64 of one layer at a time.
    """
    return (1 << 30) + 2 * sum(digest.size_bytes for _, digest in resolved.inputs)


def encode(value: WorkRequest | WorkResponse) -> str:
    """Return the value as text."""
    return json.dumps({"version": VERSION, **_fields(value)}, default=_fields)


def decode_request(text: str) -> WorkRequest | None:
    """Return the order; None where it is of another version."""
    value = json.loads(text)
    if value["version"] != VERSION:
        return None
    resolved = value["resolved"]
    return WorkRequest(
        task=value["task"],
        resolved=ResolvedAction(
            argv=tuple(resolved["argv"]),
            env=_pairs(resolved["env"]),
            inputs=_digests(resolved["inputs"]),
            outputs=tuple(resolved["outputs"]),
            platform=_pairs(resolved["platform"]),
        ),
        tools=tuple(value["tools"]),
        network=value["network"],
        exclusive=value["exclusive"],
        store=value["store"],
        again=value["again"],
    )


def decode_response(text: str) -> WorkResponse:
    """Return the answer.

    Raises: CorruptMessage where it is none, or of another version.
    """
    try:
        return _answer(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptMessage(f"no answer of this version of ingot: {error}") from error


def _answer(value: Any) -> WorkResponse:
    result = value["result"]
    return WorkResponse(
        worker=value["worker"],
        result=result
        and ActionResult(
            **{
                **result,
                "outputs": _digests(result["outputs"]),
                "log": result["log"] and checked_digest(**result["log"]),
                "messages": (),
                "contents": (),
            }
        ),
        exit_code=value["exit_code"],
        log=value["log"] and checked_digest(**value["log"]),
        unwritten=tuple(value["unwritten"]),
        missing=tuple(checked_digest(**item) for item in value["missing"]),
        refusal=value["refusal"],
        remedy=value["remedy"],
    )


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a value with slots, one level of it: `asdict` copies all."""
    return {name: getattr(value, name) for name in value.__slots__}


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, item) for name, item in value)


def _digests(value: Any) -> tuple[tuple[str, Digest], ...]:
    return tuple((path, checked_digest(**item)) for path, item in value)
