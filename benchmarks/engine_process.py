"""Keep an engine in a process of its own, which answers one request after another.

    PYTHON engine_process.py MODULE ARGUMENTS

As a program, it loads the class `Engine` of a module of `engines` with ARGUMENTS (JSON)
and reads requests from standard input, a line of JSON each. Between requests the whole
process is stopped, so that threads that wait actively take no time from other engines.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from engines.peer import CannotBuild

if TYPE_CHECKING:
    from engines.peer import Engine

Speeds = dict[str, float]
"""Tokens/s by phase and number of tokens: "prefill 128", "decode 512"."""


class EngineProcess:
    """A loaded engine, as the benchmark sees it."""

    def __init__(
        self,
        python: Path,
        module: str,
        arguments: Mapping[str, Any],
        variables: Mapping[str, str],
        log: Path,
    ) -> None:
        """Start the process, and wait until the model is loaded.

        Raises: CannotBuild if it cannot be loaded.
        """
        self._log = log
        with log.open("wb") as messages:
            self._process = subprocess.Popen(
                [str(python), __file__, module, json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                env={**os.environ, **variables},
                text=True,
            )
        self._answer()

    def speeds(self, contexts: Sequence[int], tokens: int) -> Speeds:
        """Return tokens/s of each prompt, and of `tokens` decoded after it."""
        found: Speeds = self._ask({"contexts": list(contexts), "tokens": tokens})
        return found

    def logits(self, prompt: Sequence[int], decoded: Sequence[int], path: Path) -> None:
        """Write the logits after a prompt and after each decoded token, as .npy.

        Shapes: [1 + len(decoded), n_vocab].
        """
        self._ask({"prompt": list(prompt), "decoded": list(decoded), "npy": str(path)})

    def close(self) -> None:
        """End the process."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            words = self._log.read_text("utf-8", errors="replace").strip().splitlines()
            raise CannotBuild(f"{words[-1] if words else 'no output'} ({self._log})")
        self._process.send_signal(signal.SIGSTOP)
        return json.loads(line)


def main() -> int:
    """Load an engine and answer requests until standard input ends."""
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, arguments = sys.argv[1], json.loads(sys.argv[2])
    arguments["model"] = Path(arguments["model"])
    engine: Engine = importlib.import_module(f"engines.{module}").Engine(**arguments)
    _say(answers, None)
    for line in sys.stdin:
        request = json.loads(line)
        if "npy" in request:
            _write_logits(engine, **request)
            _say(answers, None)
        else:
            _say(answers, _speeds(engine, **request))
    return 0


def _say(answers: IO[str], answer: Any) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _write_logits(
    engine: Engine, prompt: list[int], decoded: list[int], npy: str
) -> None:
    import numpy as np

    engine.reset(len(prompt) + len(decoded))
    rows = [engine.prefill(prompt), *(engine.decode(token) for token in decoded)]
    np.save(npy, np.stack([np.asarray(row, np.float32) for row in rows]))


def _speeds(engine: Engine, contexts: list[int], tokens: int) -> Speeds:
    """Measure token after token, as a text is generated, with the logits copied out."""
    found: Speeds = {}
    for context in contexts:
        # The choice of tokens does not matter; every vocabulary has these.
        prompt = list(range(1, context + 1))
        engine.reset(context + tokens)
        start = time.perf_counter()
        engine.prefill(prompt)
        middle = time.perf_counter()
        for token in range(1, tokens + 1):
            engine.decode(token)
        end = time.perf_counter()
        found[f"prefill {context}"] = context / (middle - start)
        found[f"decode {context}"] = tokens / (end - middle)
    return found


if __name__ == "__main__":
    sys.exit(main())
