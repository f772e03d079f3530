"""Measure the speed of a built decoder in this process, as `doit generate` calls it.

    python benchmarks/decoding.py MODULE ARCHIVE GRAPH THREADS

As a program, it loads module and archive, computes one token, and ends, so that another
process can measure the cost. GRAPH is the model's graph as JSON.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.model.graph import EntryPoint
    from ingot.runtime.decoder import Decoder

# The size of the caches that `doit generate` allocates.
CTX_STEP = 32

Speeds = dict[tuple[str, int], float]
"""Tokens/s by phase and number of tokens: ("prefill", 128), ("decode", 512)."""


class Engine:
    """A module that stays loaded, with its weights."""

    def __init__(
        self, vmfb: Path, irpa: Path, entries: tuple[EntryPoint, ...], threads: int
    ) -> None:
        """Load the module and its weights."""
        import iree.runtime

        from ingot.model.runner import Runner
        from ingot.runtime.invoke import Module
        from ingot.runtime.session import Loaded

        iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        self._session = Loaded(Runner("local-task"), Module(vmfb, irpa))
        self._entries = entries
        self.archive_bytes = irpa.stat().st_size

    def speeds(self, contexts: tuple[int, ...], tokens: int) -> Speeds:
        """Return one repetition of each phase.

        It works token after token, as `doit generate` does: the prompt, then `tokens`
        decode calls after it, each with its logits copied out.
        """
        found: Speeds = {}
        for context in contexts:
            decoder = self._decoder(context + tokens)
            # The choice of tokens does not matter; every vocabulary has these.
            prompt = tuple(range(1, context + 1))
            start = time.perf_counter()
            decoder.prefill(prompt)
            middle = time.perf_counter()
            for token in range(1, tokens + 1):
                decoder.decode(token)
            end = time.perf_counter()
            found["prefill", context] = context / (middle - start)
            found["decode", context] = tokens / (end - middle)
        return found

    def first_token(self) -> None:
        """Compute one token after a prompt of one."""
        self._decoder(1).prefill((1,))

    def _decoder(self, tokens: int) -> Decoder:
        from ingot.runtime.decoder import Decoder

        ctx = -(-tokens // CTX_STEP) * CTX_STEP
        return Decoder(self._session, self._entries, ctx)


def main() -> int:
    """Load the model and compute one token."""
    from ingot.codec import from_json
    from ingot.model.graph import Graph

    vmfb, irpa, graph, threads = sys.argv[1:]
    entries = from_json(Graph, Path(graph).read_bytes()).entry_points
    Engine(Path(vmfb), Path(irpa), entries, int(threads)).first_token()
    return 0


if __name__ == "__main__":
    sys.exit(main())
