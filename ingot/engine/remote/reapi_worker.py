"""Run one action inside of an action of a remote-execution server.

    python -IB -m ingot.engine.remote.reapi_worker

A server of Bazel's remote-execution API starts this program on a worker. Like a worker
of a Dask scheduler, it runs the command only with the tools, and in the sandbox, that
the action's key names. What the server runs is a different action than the one in the
key, so that program paths, worker labels and server properties are in no key. Its
folder:

    request.json         what to run
    in/                  the inputs
    out/                 the outputs
    log, response.json   what the command printed, and how it ended
"""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from ingot.codec import to_json
from ingot.engine import run_action, toolchain
from ingot.engine.action_keys import encode_action
from ingot.engine.actions import ActionResult, ResolvedAction, digest_of
from ingot.engine.digests import Digests, hash_file
from ingot.engine.remote.request import WorkRequest, WorkResponse, decode_request
from ingot.engine.remote.worker import check_tools, respond
from ingot.engine.signed_statements import result_statement
from ingot.engine.trust import signer

REQUEST, RESPONSE, LOG = "request.json", "response.json", "log"
INPUTS, OUTPUTS = "in", "out"

PROGRAM = ("-IB", "-m", "ingot.engine.remote.reapi_worker")


def worker_action(
    request: WorkRequest, properties: tuple[tuple[str, str], ...]
) -> tuple[ResolvedAction, bytes]:
    """Return the action that the server runs, and the content of its request.

    The request's labels and the properties select the worker.
    """
    # Without the store, so that equal actions of all builds are one action there.
    content = to_json(replace(request, store="", again=False)).encode()
    inputs = [(f"{INPUTS}/{path}", digest) for path, digest in request.resolved.inputs]
    outputs = [f"{OUTPUTS}/{path}" for path in request.resolved.outputs]
    wanted = {**dict.fromkeys(request.labels, "1"), **dict(properties)}
    action = ResolvedAction(
        # The same path there as here: a worker has the same environment.
        argv=(toolchain.executable("python"), *PROGRAM),
        env=(("PATH", "/usr/bin:/bin"),),
        inputs=tuple(sorted([*inputs, (REQUEST, digest_of(content))])),
        outputs=tuple(sorted([*outputs, RESPONSE, LOG])),
        platform=tuple(sorted(wanted.items())),
    )
    return action, content


def main() -> int:
    """Write response and log; return 0 only if the command wrote its outputs."""
    here = Path.cwd()
    text = (here / REQUEST).read_text(encoding="utf-8")
    (here / LOG).write_bytes(b"")
    response = respond(lambda: _run(decode_request(text), here), socket.gethostname())
    (here / RESPONSE).write_text(to_json(response), encoding="utf-8")
    return 0 if response.outputs is not None else 1


def _run(request: WorkRequest, here: Path) -> WorkResponse:
    check_tools(request, Digests(here / "digests.sqlite"))
    folder, resolved = here / OUTPUTS, request.resolved
    for name in resolved.outputs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    inputs = {name: here / INPUTS / name for name, _ in resolved.inputs}
    start = time.monotonic()
    ended = run_action.run_command(request.action(), folder, inputs)
    wall_ms = (time.monotonic() - start) * 1e3
    (here / LOG).write_bytes(ended.output)
    if ended.failed:
        return WorkResponse(
            "", exit_code=ended.exit_code, missing_outputs=ended.missing
        )
    # The server names the outputs' digests; they are verified on download.
    response = WorkResponse("", outputs=(), wall_ms=wall_ms)
    sign = signer(os.environ)
    if sign is None:
        return response
    outputs = tuple((name, hash_file(folder / name)) for name in resolved.outputs)
    result = ActionResult(
        outputs, log=hash_file(here / LOG), task=request.task, wall_ms=wall_ms
    )
    statement = result_statement(encode_action(resolved).key.hash, result)
    return replace(response, signature=sign(statement).decode())


if __name__ == "__main__":
    sys.exit(main())
