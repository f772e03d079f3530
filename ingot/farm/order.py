"""A bound action in, the text that a worker is sent out, and the worker's answer back.

Contents never travel this way, only their digests: they are in the shared cache.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ingot.values import (
    Action,
    ActionResult,
    BoundAction,
    Digest,
    Output,
    bound_from_json,
    digests_from_json,
)

# Bumped when an order's meaning changes: older workers then refuse it.
VERSION = 1

# Tools that only some machines have, and the label of a worker that has them.
LABELS = {"qemu-aarch64": "qemu-aarch64", "mesa-llvmpipe": "vulkan"}
BENCH = "bench"


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to run."""

    task: str
    bound: BoundAction
    tools: tuple[str, ...]
    network: bool
    exclusive: bool

    def action(self) -> Action:
        """Return the action; its inputs are contents, wherever they come from."""
        return Action(
            task=self.task,
            argv=self.bound.argv,
            inputs=tuple((path, Output("", path)) for path, _ in self.bound.inputs),
            outputs=self.bound.outputs,
            tools=self.tools,
            env=self.bound.env,
            platform=self.bound.platform,
            exclusive=self.exclusive,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """How it went: a result, or why there is none; one of them is set."""

    worker: str  # its host and process
    result: ActionResult | None = None
    # The command ended with this code, printed this, did not write these.
    exit_code: int = 0
    log: Digest | None = None
    unwritten: tuple[str, ...] = ()
    missing: tuple[Digest, ...] = ()  # inputs that the shared cache lacks or has wrong
    refusal: str = ""  # this worker cannot run it


def order(action: Action, bound: BoundAction) -> Order:
    """Return the order of an action."""
    network = ("network", "yes") in action.platform
    return Order(action.task, bound, action.tools, network, action.exclusive)


def labels(action: Action) -> tuple[str, ...]:
    """Return what a worker must be labelled with to run the action."""
    found = [LABELS[tool] for tool in action.tools if tool in LABELS]
    return (*found, BENCH) if action.exclusive else tuple(found)


def memory_bytes(bound: BoundAction) -> int:
    """Return what the action may need of its worker's memory.

    A compiler of a large model takes 1 GB; checks hold weights twice, as they are
    stored and as float64 of one layer at a time.
    """
    return (1 << 30) + 2 * sum(digest.size_bytes for _, digest in bound.inputs)


def encode(value: Order | Answer) -> str:
    """Return the value as text."""
    return json.dumps({"version": VERSION, **asdict(value)})


def decode_order(text: str) -> Order | None:
    """Return the order; None where it is of another version."""
    value = json.loads(text)
    if value["version"] != VERSION:
        return None
    return Order(
        task=value["task"],
        bound=bound_from_json(value["bound"]),
        tools=tuple(value["tools"]),
        network=value["network"],
        exclusive=value["exclusive"],
    )


def decode_answer(text: str) -> Answer:
    """Return the answer."""
    value = json.loads(text)
    result = value["result"]
    return Answer(
        worker=value["worker"],
        result=result
        and ActionResult(
            **{
                **result,
                "outputs": digests_from_json(result["outputs"]),
                "log": result["log"] and Digest(**result["log"]),
            }
        ),
        exit_code=value["exit_code"],
        log=value["log"] and Digest(**value["log"]),
        unwritten=tuple(value["unwritten"]),
        missing=tuple(Digest(**item) for item in value["missing"]),
        refusal=value["refusal"],
    )
