"""Run what `doit build` builds, by the calls that `doit generate` makes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
# The size of the caches that `doit generate` allocates.
CTX_STEP = 32


class Engine:
    """A module that stays loaded, with its weights."""

    def __init__(
        self, model: Path, threads: int, positions: int, options: Mapping[str, str]
    ) -> None:
        """Load the module and its weights; `options` names the archive and graph."""
        del positions
        sys.path.insert(0, str(ROOT))
        import iree.runtime

        from ingot.codec import from_json
        from ingot.model.graph import Graph
        from ingot.model.runner import Runner
        from ingot.runtime.decoder import Decoder
        from ingot.runtime.invoke import Module
        from ingot.runtime.session import Loaded

        iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        graph = from_json(Graph, Path(options["graph"]).read_bytes())
        module = Module(model, Path(options["archive"]))
        session = Loaded(Runner("local-task"), module)
        self._new_decoder = lambda ctx: Decoder(session, graph.entry_points, ctx)

    def reset(self, positions: int) -> None:
        """Begin with empty caches."""
        ctx = -(-positions // CTX_STEP) * CTX_STEP
        self._decoder = self._new_decoder(ctx)

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt."""
        return self._decoder.prefill(tuple(tokens))

    def decode(self, token: int) -> Any:
        """Read one more token."""
        return self._decoder.decode(token)
