"""An order and its inputs in a folder; outputs, log and answer in it: one action.

    python -IB -m ingot.engine.remote.reapi_worker

What a server of Bazel's remote-execution API has its worker run
(`ingot.engine.remote.reapi_action` says in which folder). Like a worker of a Dask
scheduler it runs an action only where its tools are those of the key, in the sandbox of
the key.
"""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from ingot.engine import run_action
from ingot.engine.actions import ActionResult
from ingot.engine.digests import Digests
from ingot.engine.remote.reapi_action import ANSWER, INPUTS, LOG, ORDER, OUTPUTS
from ingot.engine.remote.request import (
    WorkRequest,
    WorkResponse,
    decode_request,
    encode,
)
from ingot.engine.remote.worker import ROOM, SAME, other_tools
from ingot.errors import IngotError


def main() -> int:
    """Write answer and log; return 0 only where the action made its outputs."""
    here = Path.cwd()
    order = decode_request((here / ORDER).read_text(encoding="utf-8"))
    (here / LOG).write_bytes(b"")
    try:
        answer = _perform(order, here)
    except IngotError as error:
        answer = WorkResponse("", refusal=error.message, remedy=error.hint)
    except OSError as error:
        answer = WorkResponse("", refusal=str(error), remedy=ROOM)
    answer = replace(answer, worker=socket.gethostname())
    (here / ANSWER).write_text(encode(answer), encoding="utf-8")
    return 0 if answer.result is not None else 1


def _perform(order: WorkRequest | None, here: Path) -> WorkResponse:
    if order is None:
        raise IngotError("it is of another version of ingot", SAME)
    refusal = other_tools(order, Digests(here / "digests.sqlite"))
    if refusal:
        raise IngotError(refusal, SAME)
    folder = here / OUTPUTS
    for name in order.resolved.outputs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    inputs = {name: here / INPUTS / name for name, _ in order.resolved.inputs}
    start = time.monotonic()
    done = run_action.run_command(order.action(), folder, inputs)
    wall_ms = (time.monotonic() - start) * 1e3
    (here / LOG).write_bytes(done.output)
    unwritten = tuple(p for p in order.resolved.outputs if not (folder / p).is_file())
    if done.exit_code != 0 or unwritten:
        return WorkResponse("", exit_code=done.exit_code, unwritten=unwritten)
    # Digests of outputs are the server's word, and verified when they are read.
    return WorkResponse("", result=ActionResult((), task=order.task, wall_ms=wall_ms))


if __name__ == "__main__":
    sys.exit(main())
