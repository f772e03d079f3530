"""Load a bundle in the sandbox, run its golden cases and compare the results.

`doit verify` starts this module: `python -m ingot.bundles.golden_run`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.bundles.encoder import embed, tokenize
from ingot.bundles.reader import Bundle, open_bundle
from ingot.bundles.target_runner import module_of
from ingot.checks.compare import Place, Row, compare
from ingot.checks.golden_files import Expected
from ingot.checks.golden_logits import FREE, best_token, of_range
from ingot.checks.oracle_decoder import Given, run_decoder
from ingot.codec import from_json, to_json
from ingot.engine import process
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.decoder import decoder_entries
from ingot.runtime.invoke import program

SPEC = "spec.json"
OUTCOME = "outcome.json"


@dataclass(frozen=True, slots=True)
class GoldenSpec:
    """How the bundle in the folder `bundle` is run, or why it is not."""

    runner: Runner | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found; `gap` says what was not tested, `error` what is wrong."""

    loads: str = ""
    right: str = ""
    gap: str = ""
    error: str = ""
    hint: str = ""


def main() -> None:
    """Write the outcome of the specification into this folder."""
    spec = from_json(GoldenSpec, Path(SPEC).read_bytes())
    try:
        outcome = golden_outcome(open_bundle(Path("bundle").absolute()), spec)
    except IngotError as error:
        outcome = Outcome(error=error.message, hint=error.hint)
    Path(OUTCOME).write_text(to_json(outcome), encoding="utf-8")


def golden_outcome(bundle: Bundle, spec: GoldenSpec) -> Outcome:
    """Return what the runtime makes of the bundle.

    Raises: IngotError if it cannot be read, or a golden case is wrong.
    """
    exported = _exported(bundle.folder / "model.vmfb")
    for entry in bundle.entry_points:
        if entry.name not in exported:
            raise IngotError(f"model.vmfb: does not export '{entry.name}'")
    runtime = importlib.metadata.version("iree-base-runtime")
    entries = ", ".join(entry.name for entry in bundle.entry_points)
    loads = f"iree-base-runtime {runtime} reads {entries}"
    runner = spec.runner or spec.reason
    try:
        text = (bundle.folder / "golden.json").read_text(encoding="utf-8")
        golden = json.loads(text)
        if not golden["cases"]:
            none = "the bundle has no golden sentences or prompts"
            return Outcome(loads, gap=none)
        verify = verify_prompts if "ids" in golden else verify_sentences
        right = verify(bundle, golden, runner)
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        words = f"{type(error).__name__}: {error}"
        raise IngotError(f"golden.json: cannot be used; {words}") from error
    return Outcome(loads, right, spec.reason)


def _exported(vmfb: Path) -> set[str]:
    """Return the names of the functions that a module exports.

    Raises: IngotError if the installed runtime cannot read it.
    """
    argv = (program(Runner("local-sync"), "iree-dump-module"), "--output=metadata")
    done = process.run((*argv, str(vmfb)), vmfb.parent, dict(os.environ))
    text = done.output.decode(errors="replace")
    if done.exit_code != 0:
        words = (text.strip().splitlines() or ["no output"])[-1]
        raise IngotError(f"model.vmfb: the installed runtime cannot read it; {words}")
    _, _, exports = text.partition("Exported Functions:")
    return set(re.findall(r"^ +\[ *\d+\] ([\w.$]+)\(", exports, re.MULTILINE))


def verify_sentences(
    bundle: Bundle, golden: dict[str, Any], runner: Runner | str
) -> str:
    """Return a report on tokenizing and running the golden sentences.

    `runner` may be the reason why the bundle's target does not run here.

    Raises: IngotError if a token id or an embedding is wrong.
    """
    cases = golden["cases"]
    tokens = tuple(tuple(case["tokens"]) for case in cases)
    found = tokenize(bundle, tuple(case["sentence"] for case in cases))
    for number, (expected, got) in enumerate(zip(tokens, found, strict=True)):
        if expected != got:
            raise IngotError(
                f"golden sentence {number}: wrong token ids; expected "
                f"{list(expected)}, found {list(got)}"
            )
    if isinstance(runner, str):
        return f"token ids of {len(cases)} sentences"
    row = compare(
        Place("golden", "golden.json", bundle.name, _batch(cases), "embedding"),
        [case["embedding"] for case in cases],
        embed(bundle, runner, tokens),
        _tolerance(golden["tolerance"]),
    )
    if not row.passed:
        raise IngotError(
            f"golden sentence {row.worst[0]}: wrong embedding on {runner.device}",
            f"worst at {list(row.worst)}: {_difference(row)}, "
            f"smallest cosine {row.cosine}",
        )
    return (
        f"{len(cases)} sentences of the {golden['judge']} on {_device(runner)}: "
        f"token ids equal, {_worst([row])}"
    )


def verify_prompts(bundle: Bundle, golden: dict[str, Any], runner: Runner | str) -> str:
    """Return a report on running each golden prompt alone.

    `runner` may be the reason why the bundle's target does not run here.

    Raises: IngotError if a logit is wrong, or if the expected best token is farther
        below the found one than the check allows.
    """
    cases = golden["cases"]
    if isinstance(runner, str):
        return ""
    prefill, _ = decoder_entries(bundle.entry_points)
    rows, equal = [], 0
    exact = {"max_abs_error": 0.0, "min_cosine": None}
    of_token = _tolerance(golden.get("token_tolerance", exact))
    for number, case in enumerate(cases):
        prompt = tuple(case["tokens"])
        given = Given((prompt,), (0,), len(prompt) + FREE)
        logits = run_decoder(runner, module_of(bundle), prefill, given).logits[0]
        place = Place("golden", f"prompt {number}", prefill.name, (), "logits")
        expected = Expected(case["logits"], case["range"], case["best_token"])
        best = int(logits.argmax())
        equal += best == expected.token
        if not best_token(place, (expected.token,), logits[None], of_token).passed:
            raise IngotError(
                f"golden prompt {number}: wrong best token on {runner.device}; "
                f"expected {expected.token}, found {best}"
            )
        tolerance = of_range(_tolerance(golden["tolerance"]), expected)
        row = compare(place, expected.logits, logits[golden["ids"]], tolerance)
        if not row.passed:
            raise IngotError(
                f"golden prompt {number}: wrong logits on {runner.device}",
                f"worst at token {golden['ids'][row.worst[0]]}: {_difference(row)}",
            )
        rows.append(row)
    share = "" if equal == len(cases) else f"{equal} of {len(cases)} "
    return (
        f"{len(cases)} prompts of the {golden['judge']} on {_device(runner)}: "
        f"{share}best tokens equal, {_worst(rows)}"
    )


def _batch(cases: list[Any]) -> tuple[tuple[str, int], ...]:
    return (("batch", len(cases)),)


def _tolerance(limits: dict[str, Any]) -> Tolerance:
    return Tolerance(**limits, source="golden.json")


def _difference(row: Row) -> str:
    return (
        f"expected {row.expected:.6g}, got {row.got:.6g}, "
        f"error {row.max_abs_error:.1e} > {row.tolerance:.1e}"
    )


def _device(runner: Runner) -> str:
    return f"{runner.device}{' (emulated)' if runner.emulated else ''}"


def _worst(rows: list[Row]) -> str:
    row = max(rows, key=lambda row: row.max_abs_error / row.tolerance)
    return f"worst error {row.max_abs_error:.1e} (at most {row.tolerance:.1e})"


if __name__ == "__main__":
    main()
