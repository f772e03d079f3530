"""Define what a build step is, as frozen values: Action, ActionResult and their parts.

An Action names everything that can change its outputs: the command line, the
environment, the platform (tools with their identity) and the inputs. With the digests
of its inputs it becomes a ResolvedAction; `ingot.engine.action_keys` computes its key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """The sha256 of a content, in lower-case hex, and its size."""

    hash: str
    # The size is part of the name so that a reader can allocate, or reject, before it
    # reads.
    size_bytes: int

    def __str__(self) -> str:
        """Return the short form that messages show."""
        return self.hash[:12]


def digest_of(content: bytes) -> Digest:
    """Return the content's digest."""
    return Digest(hashlib.sha256(content).hexdigest(), len(content))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An input that exists before the build: a component, an oracle, a weight file."""

    path: Path


@dataclass(frozen=True, slots=True)
class InlineText:
    """An input whose content the plan writes: generated MLIR, a JSON specification."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """An input that another action produces."""

    task: str  # "link:all-minilm-l6-v2"
    path: str  # one of that action's outputs


Source = SourceFile | InlineText | Output


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use before it is stopped; 0 is the default of each."""

    time_s: int = 0
    memory_bytes: int = 0
    processes: int = 0


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Action:
    """One step of the build, run in a private folder with its inputs and nothing else.

    Paths in `argv`, `inputs` and `outputs` are relative to that folder. `argv[0]` is
    the name of a tool; the executor knows its path, and `tools` states its identity.
    """

    task: str = field(compare=False)  # "compile:all-minilm-l6-v2@aarch64"
    argv: tuple[str, ...]
    inputs: tuple[tuple[str, Source], ...]  # (path in the folder, its content)
    outputs: tuple[str, ...]
    # Tools whose identity is in the key: "iree-base-compiler", "qemu-aarch64",
    # "mesa-llvmpipe".
    tools: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    # Other facts that change the result: ("cpu", "<model name>") for a benchmark;
    # ("network", "yes") for a download, the only kind of action that has the network.
    platform: tuple[tuple[str, str], ...] = ()
    # For each output, the path in the checkout that it is copied to.
    exported_to: tuple[str, ...] = field(default=(), compare=False)
    # A benchmark: no other action runs on the machine meanwhile.
    exclusive: bool = field(default=False, compare=False)
    # What stops its sandboxed command.
    limits: Limits = field(default=NO_LIMITS, compare=False)
    # The line that asks for it, which an error shows: "models/toy.yaml:9:11: ...".
    declared_at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResolvedAction:
    """An action with its inputs' digests: equal values have equal outputs.

    The build records this value, compares it to decide whether to run, and `doit why`
    shows what differs in it. All tuples are sorted by their first item.
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
    """What an action produced."""

    outputs: tuple[tuple[str, Digest], ...]
    exit_code: int = 0
    # What the command printed on both streams; a cache hit shows it too.
    log: Digest | None = None
    # The task it ran for, and how long: `doit store` shows them, equality ignores them.
    task: str = field(default="", compare=False)
    wall_ms: float = field(default=0.0, compare=False)
    # The protobuf messages of the action, its own first; then, compressed, the small
    # texts among its inputs.
    messages: tuple[bytes, ...] = field(default=(), compare=False)
    # Contents of small blobs, which a shared cache stores inside of the result.
    contents: tuple[tuple[Digest, bytes], ...] = field(default=(), compare=False)
    # The envelope of `signatures`, as JSON; b"" if nobody signed it.
    signature: bytes = field(default=b"", compare=False)
    # Whether an action of this store's builds made it, on this machine: then it needs
    # no signature here. What a cache or a worker says of this is ignored.
    made_here: bool = field(default=False, compare=False)

    def blobs(self) -> tuple[Digest, ...]:
        """Return every blob that the result names."""
        logs = () if self.log is None else (self.log,)
        return (*(digest for _, digest in self.outputs), *logs)

    def size_bytes(self) -> int:
        """Return the total size of the outputs."""
        return sum(digest.size_bytes for _, digest in self.outputs)


def stage_of(task: str) -> str:
    """Return the stage of a task: "check" for "check-chain-run:toy@x86_64"."""
    return task.partition(":")[0].partition("-")[0]
