"""Run `doit generate`: build what a text needs, write it, then build the bundle.

Standard output gets the text alone; the progress of the build, and the speed of the
model, go to standard error.
"""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from ingot.bundles import generator
from ingot.bundles.generator import End, Generated, Outside, Request
from ingot.bundles.reader import Bundle
from ingot.bundles.sampler import Sampling
from ingot.cli.commands import INTERRUPTED, Call
from ingot.cli.runnable_model import choose, with_model
from ingot.cli.variables import integer, number
from ingot.errors import IngotError, counted
from ingot.model.runner import Runner
from ingot.model.weight_sources import SYNTHETIC


def generate(call: Call) -> int:
    """Write text as soon as the model can run, then build the bundle.

    Errors in the command line come before anything is built.
    """
    read_request(call.variables)
    chosen = choose(call, "generate")
    request = read_request({**chosen.sampling, **call.variables})
    request = replace(request, writes_ids=bool(call.options["ids"]))

    def write(bundle: Bundle, runner: Runner) -> int:
        with first_interrupt_noted() as stopped:
            return run(bundle, runner, request, stopped)

    return with_model(call, chosen, write)


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
    if ("prompt" in variables) == ("ids" in variables):
        both = "not both" if "ids" in variables else "or ids=1,2,3"
        raise IngotError(f'generate needs prompt="...", {both}')
    template = variables.get("template", "own")
    if template not in ("own", "none"):
        raise IngotError(f"template={template}: expected own or none")
    return Request(
        variables.get("prompt", ""),
        integer(variables, "tokens", 1) or Request("").tokens,
        sampling(variables),
        ids=_ids(variables),
        system=variables.get("system", ""),
        template=template == "own",
    )


def _ids(variables: Mapping[str, str]) -> tuple[int, ...]:
    """Return the ids that stand for a prompt; none if there is a prompt."""
    if "ids" not in variables:
        return ()
    words = [word.strip() for word in variables["ids"].split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise IngotError(
            f"ids={variables['ids']}: expected token ids with commas between: 1,2,3"
        )
    return tuple(map(int, words))


def sampling(variables: Mapping[str, str]) -> Sampling:
    """Return how tokens are chosen: the most likely ones, unless a draw is asked for.

    A command line stands above the sampling that the model's manifest states.

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


def run(
    bundle: Bundle, runner: Runner, request: Request, stopped: Callable[[], bool]
) -> int:
    """Print the text that a model generates; return the exit code.

    Raises: IngotError if the prompt does not fit, or the module fails.
    """
    generated = generator.generate(bundle, runner, request, Outside(write, stopped))
    write("\n")
    if generated.end is End.CONTEXT:
        n_ctx = bundle.limit("ctx")
        print(f"note: the context is full: it has {n_ctx} tokens", file=sys.stderr)
    origin = bundle.contract.get("weights", "")
    weights = SYNTHETIC if origin.startswith(SYNTHETIC) else ""
    print(summary(bundle.name, request, generated, weights), file=sys.stderr)
    return INTERRUPTED if generated.end is End.STOPPED else 0


def summary(
    name: str, request: Request, generated: Generated, weights: str = ""
) -> str:
    """Return how long the text and its parts took, and why it ended.

    `weights` is what everyone has to know of the weights, or "".
    """
    lines = [
        f"{name}: {counted(generated.tokens, 'token')} after "
        f"{generated.prompt_tokens} of the prompt; "
        f"{generated.end.value}{weights and f'; {weights}'}",
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


def write(text: str) -> None:
    """Print a part of a text at once."""
    print(text, end="", flush=True)
