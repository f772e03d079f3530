"""Run a bundle's golden cases and compare the results."""

from __future__ import annotations

from typing import Any

from ingot.bundles.encoder import embed, tokenize
from ingot.bundles.reader import Bundle
from ingot.bundles.target_runner import module_of
from ingot.checks.compare import Place, Row, compare
from ingot.checks.golden_files import Expected
from ingot.checks.golden_logits import FREE, best_token, of_range
from ingot.checks.oracle_decoder import Given, run_decoder
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.decoder import decoder_entries


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
        return f"token ids of {len(cases)} sentences; not run: {runner}"
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
        return f"not run: {runner}"
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
