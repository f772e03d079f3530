"""Call a target's modules, loading each only once if this process can run it.

A decoder's parameters take a second to load, and a check makes hundreds of calls. Under
an emulator, `ingot.runtime.invoke` starts a process for each call instead.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from ingot.model.runner import Runner
from ingot.runtime import invoke
from ingot.runtime.invoke import Call, Module
from ingot.runtime.session import Loaded, Session, is_native

Array: TypeAlias = Any


@dataclass(slots=True)
class _Opened:
    """A loaded module, which one thread at a time may call."""

    lock: Lock = field(default_factory=Lock)
    session: Session | None = None


_opened: dict[tuple[Runner, Module], _Opened] = {}
_opening = Lock()


def call(runner: Runner, module: Module, what: Call) -> tuple[Array, ...]:
    """Return the results of one call, with the target's shapes and types.

    Raises: IngotError if the call fails.
    """
    if not is_native(runner):
        return invoke.call(runner, module, what)
    with _opening:
        opened = _opened.setdefault((runner, module), _Opened())
    with opened.lock:
        if opened.session is None:
            opened.session = Loaded(runner, module)
        results = opened.session.call(
            what.function, (*what.tensors, *what.scalars), what.results
        )
        return tuple(opened.session.array(result) for result in results)


def close() -> None:
    """Close all modules, and with them the devices that nothing else uses."""
    with _opening:
        _opened.clear()
    # The runtime's modules and their functions refer to each other.
    gc.collect()
