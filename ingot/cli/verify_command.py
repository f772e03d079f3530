"""Run `doit verify`: say whether a bundle is complete, right, and whose it is."""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.cli.bundle_commands import built_bundle
from ingot.cli.commands import FAILED, Call
from ingot.cli.json_output import VerifyOutput, print_json
from ingot.cli.variables import one_of_each
from ingot.cli.verifier import rejection, report_on, show, wants_run
from ingot.errors import IngotError
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import select
from ingot.release import locations


def verify(call: Call) -> int:
    """Print what was verified; exit with 1 if that is not all, or it is rejected."""
    variables = dict(call.variables)
    path = _asked_bundle(call.root, variables)
    runs = wants_run(variables)
    try:
        report = report_on(path, variables, call.root, runs)
    except IngotError as error:
        rejected = rejection(error)
        if call.json:
            print_json(VerifyOutput(path, False, "", "", rejected))
        else:
            print(f"rejected: {rejected}", file=sys.stderr)
        return FAILED
    if call.json:
        accepted = not report.gap
        print_json(VerifyOutput(path, accepted, report.text, report.gap, ""))
        return 0 if accepted else FAILED
    return show(report)


def _asked_bundle(root: Path, variables: dict[str, str]) -> str:
    """Return the bundle of bundle=, or else the one that was built.

    Of a release, model= and target= say which bundle is meant.

    Raises: IngotError if there is none.
    """
    if "bundle" not in variables:
        catalogue = read(root, requested_models(variables))
        chosen = select(catalogue, variables)
        variables.pop("model", None)
        variables.pop("target", None)
        names = one_of_each("doit verify", chosen.models, chosen.targets)
        return str(built_bundle(root, *names))
    given = variables["bundle"]
    if not given:
        raise IngotError("bundle=: expected a folder or a tar, found nothing")
    for name in ("model", "target"):
        if name in variables and not locations.is_release(given):
            text = f"{name}= and bundle= are two ways to name a bundle"
            raise IngotError(text, f"leave out {name}=")
    return given
