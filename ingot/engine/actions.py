"""Digest, Source, Action, ActionResult: what a build step is, as frozen values.

An Action says everything that can change its outputs: the command line, the
environment, the platform (tools with their identity) and the inputs. Once the inputs'
digests are known it is a ResolvedAction, whose key is computed in `ingot.engine.keys`
and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A content's name: lower-case hex sha256 and its size."""

    hash: str
    # Part of the name so that a reader can allocate, and refuse, before it reads.
    size_bytes: int

    def __str__(self) -> str:
        """Return the short form that people read."""
        return self.hash[:12]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An input that exists before the build: a component, an oracle, a weight file."""

    path: Path


@dataclass(frozen=True, slots=True)
class InlineText:
    """An input whose content the plan makes: generated MLIR, a JSON specification."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """An input that another action makes."""

    task: str  # "link:all-minilm-l6-v2"
    path: str  # one of that action's outputs


Source = SourceFile | InlineText | Output


@dataclass(frozen=True, slots=True)
class Action:
    """One step of the build, run in a private directory that holds just its inputs.

    Paths in `argv`, `inputs` and `outputs` are relative to that directory. `argv[0]` is
    a tool's name; the executor knows where it is, and `tools` says what it must be.
    """

    task: str = field(compare=False)  # "compile:all-minilm-l6-v2@aarch64"
    argv: tuple[str, ...]
    inputs: tuple[tuple[str, Source], ...]  # (path in the directory, what is there)
    outputs: tuple[str, ...]
    # Tools whose identity is in the key: "iree-base-compiler", "qemu-aarch64", "mesa-
    # llvmpipe".
    tools: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    # Other facts that change the result: ("cpu", "<model name>") for a benchmark;
    # ("network", "yes") for a download, which alone may use it.
    platform: tuple[tuple[str, str], ...] = ()
    # Where outputs are shown to people, per output, relative to the checkout.
    exported_to: tuple[str, ...] = field(default=(), compare=False)
    # Alone on the machine while it runs: a benchmark.
    exclusive: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResolvedAction:
    """An action whose inputs have content: equal values, equal outputs.

    This is what the build records, what it compares to know whether to run, and what
    `doit why` shows the difference of. All tuples are sorted by their first item.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, Digest], ...]
    outputs: tuple[str, ...]
    platform: tuple[tuple[str, str], ...]  # tools' identities among them: "tool:python"


def resolve_action(
    action: Action,
    digests: tuple[tuple[str, Digest], ...],
    platform: tuple[tuple[str, str], ...],
) -> ResolvedAction:
    """Return the action with its inputs' digests and its platform's facts."""
    return ResolvedAction(
        argv=action.argv,
        env=tuple(sorted(action.env)),
        inputs=tuple(sorted(digests)),
        outputs=tuple(sorted(action.outputs)),
        platform=tuple(sorted((*action.platform, *platform))),
    )


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action made."""

    outputs: tuple[tuple[str, Digest], ...]
    exit_code: int = 0
    # What the tool printed (both streams), kept so that a hit can show it too.
    log: Digest | None = None
    # For which task it ran, and how long: what `doit store` tells, no part of equality.
    task: str = field(default="", compare=False)
    wall_ms: float = field(default=0.0, compare=False)
    # The messages that spell its action out, the action's own first; then, packed, the
    # small texts among its inputs.
    messages: tuple[bytes, ...] = field(default=(), compare=False)
    # Of small blobs among those below, where a shared cache is to have them at hand.
    contents: tuple[tuple[Digest, bytes], ...] = field(default=(), compare=False)

    def blobs(self) -> tuple[Digest, ...]:
        """Return every content that the result names."""
        logs = () if self.log is None else (self.log,)
        return (*(digest for _, digest in self.outputs), *logs)

    def size_bytes(self) -> int:
        """Return how much it made."""
        return sum(digest.size_bytes for _, digest in self.outputs)


def stage_of(task: str) -> str:
    """Return the stage of a task: the first word of its kind, `compile-probe`."""
    return task.partition(":")[0].partition("-")[0]
