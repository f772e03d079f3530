"""Run `doit generate`: build what is missing, then generate text.

Standard output gets the text alone; the progress of the build, and the speed of the
model, go to standard error.
"""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ingot.bundles import generator
from ingot.bundles.generator import End, Generated, Outside, Request
from ingot.bundles.reader import read_bundle
from ingot.bundles.sampler import Sampling
from ingot.bundles.target_runner import runner_for
from ingot.bundles.vocabulary import check_tokenizer
from ingot.cli.build_command import build_first
from ingot.cli.commands import INTERRUPTED, Call
from ingot.cli.connections import open_store
from ingot.cli.variables import integer, number, one_of_each
from ingot.engine.actions import InlineText
from ingot.errors import IngotError, counted
from ingot.project.catalogue import Catalogue, Selection, read, requested_models
from ingot.project.selection import check_runnable, select
from ingot.runtime.decoder import DECODE, PREFILL


def generate(call: Call) -> int:
    """Build the bundle, then generate; errors come before the build."""
    variables = dict(call.variables)
    request = read_request(variables)
    catalogue = read(call.root, requested_models(variables))
    name = "@".join(choose(catalogue, select(catalogue, variables)))
    return build_first(call, f"bundle:{name}") or _generate(call.root, name, request)


def _generate(root: Path, name: str, request: Request) -> int:
    """Run the bundle; return the exit code."""
    digests = open_store().digests

    def digest(path: Path) -> tuple[str, int]:
        found = digests.of_file(path)
        return found.hash, found.size_bytes

    with first_interrupt_noted() as stopped:
        return run(root, name, request, digest, stopped)


@contextmanager
def first_interrupt_noted() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; a second one raises."""
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)


def read_request(variables: Mapping[str, str]) -> Request:
    """Return the request that the variables make.

    Raises: IngotError for a value that is wrong, or no prompt.
    """
    if "prompt" not in variables:
        raise IngotError('generate needs prompt="..."')
    tokens = integer(variables, "tokens", 1) or Request("").tokens
    return Request(variables["prompt"], tokens, _sampling(variables))


def _sampling(variables: Mapping[str, str]) -> Sampling:
    """Return how tokens are chosen: the most likely ones, unless a draw is asked for.

    Without a seed, each run gets a new one, which the summary shows.
    """
    top_k = integer(variables, "top_k", 1)
    top_p = number(variables, "top_p", "above 0 and at most 1", lambda x: 0 < x <= 1)
    temperature = number(variables, "temperature", "0 or more", lambda x: x >= 0)
    seed = integer(variables, "seed", 0)
    if temperature is None:
        draws = (top_k, top_p, seed) != (None, None, None)
        temperature = 1.0 if draws else 0.0
    return Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=1.0 if top_p is None else top_p,
        seed=secrets.randbelow(2**32) if seed is None else seed,
    )


def choose(catalogue: Catalogue, selection: Selection) -> tuple[str, str]:
    """Return the one model and target to run.

    Raises: IngotError if there are several, or the bundle that would be built cannot
        write text here.
    """
    model, target = one_of_each("generate", selection.models, selection.targets)
    name = f"{model}@{target}"
    if reason := catalogue.settings.unrunnable.get(target):
        raise IngotError(f"{name} does not run here: {reason}")
    check_runnable(catalogue, selection)
    # The plan contains the bundle's description before the bundle is built.
    specification = dict(catalogue.plan.by_task[f"bundle:{name}"].inputs)["spec.json"]
    assert isinstance(specification, InlineText)
    planned = json.loads(specification.text)
    entries = [entry["name"] for entry in planned["contract"]["entry_points"]]
    if PREFILL not in entries or DECODE not in entries:
        raise IngotError(
            f"{name}: not a decoder; expected the entry points {PREFILL} and {DECODE}, "
            f"found {', '.join(entries)}"
        )
    check_tokenizer(name, planned["files"])
    return model, target


def run(
    root: Path,
    name: str,
    request: Request,
    digest: Callable[[Path], tuple[str, int]],
    stopped: Callable[[], bool],
) -> int:
    """Print the text that the built bundle of `model@target` generates.

    Raises: IngotError if it does not run here, or the prompt does not fit.
    """
    model, _, target = name.partition("@")
    bundle = read_bundle(root / "build" / model / target / "bundle", digest)
    runner = runner_for(bundle, root)
    if isinstance(runner, str):
        raise IngotError(f"{name} does not run here: {runner}")
    generated = generator.generate(bundle, runner, request, Outside(_write, stopped))
    _write("\n")
    if generated.end is End.CONTEXT:
        n_ctx = bundle.limit("ctx")
        print(f"note: the context is full: it has {n_ctx} tokens", file=sys.stderr)
    print(summary(name, request, generated), file=sys.stderr)
    return INTERRUPTED if generated.end is End.STOPPED else 0


def summary(name: str, request: Request, generated: Generated) -> str:
    """Return how long the text and its parts took, and why it ended."""
    lines = [
        f"{name}: {counted(generated.tokens, 'token')} after "
        f"{generated.prompt_tokens} of the prompt; "
        f"{generated.end.value}",
        f"  first token after {generated.first_token_s:.2f} s,"
        f" {generated.load_s:.2f} s of it to load",
        f"  prefill {_rate(generated.prompt_tokens, generated.prefill_s)}, "
        f"decode {_rate(generated.decodes, generated.decode_s)}",
    ]
    if not request.sampling.greedy:
        lines.append(f"  to repeat: seed={request.sampling.seed}")
    return "\n".join(lines)


def _rate(tokens: int, seconds: float) -> str:
    if tokens == 0:
        return "without tokens"
    return f"{tokens / max(seconds, 1e-9):.1f} tokens/s"


def _write(text: str) -> None:
    print(text, end="", flush=True)
