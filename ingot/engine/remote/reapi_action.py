"""An order in, the action that a REAPI server is asked to run out.

It is another action than the key's, so that places of programs, labels of workers and
properties of one server are in no key. Its folder:

    order.json           what to run
    in/                  the inputs
    out/                 the outputs
    log, answer.json     what the command printed, and how it ended
"""

from __future__ import annotations

from dataclasses import replace

from ingot.engine import toolchain
from ingot.engine.actions import ResolvedAction
from ingot.engine.keys import digest_of
from ingot.engine.remote.request import WorkRequest, encode

ORDER, ANSWER, LOG = "order.json", "answer.json", "log"
INPUTS, OUTPUTS = "in", "out"

PROGRAM = ("-IB", "-m", "ingot.engine.remote.reapi_worker")


def wired(
    order: WorkRequest, labels: tuple[str, ...], properties: tuple[tuple[str, str], ...]
) -> tuple[ResolvedAction, bytes]:
    """Return the action that a worker runs, and the content of its order.

    `labels` and `properties` say which worker.
    """
    # It runs in no store, so that those of all builds are one action there.
    content = encode(replace(order, store="", again=False)).encode()
    inputs = [(f"{INPUTS}/{path}", digest) for path, digest in order.resolved.inputs]
    outputs = [f"{OUTPUTS}/{path}" for path in order.resolved.outputs]
    wanted = {**dict.fromkeys(labels, "1"), **dict(properties)}
    action = ResolvedAction(
        # The same place there as here: a worker has the same environment.
        argv=(toolchain.executable("python"), *PROGRAM),
        env=(("PATH", "/usr/bin:/bin"),),
        inputs=tuple(sorted([*inputs, (ORDER, digest_of(content))])),
        outputs=tuple(sorted([*outputs, ANSWER, LOG])),
        platform=tuple(sorted(wanted.items())),
    )
    return action, content
