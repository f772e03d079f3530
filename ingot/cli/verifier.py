"""Verify a bundle or a release, with or without a checkout.

`doit verify` uses this module, and `ingot-verify` starts it: a distribution for
machines that have neither a checkout nor a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ingot.bundles.verify import Report
from ingot.bundles.verify import verify as verify_bundle
from ingot.errors import IngotError, did_you_mean
from ingot.release import locations

FAILED, REJECTED_ARGUMENTS = 1, 3

REBUILD = "fetch it again; `doit build` restores a bundle of a checkout"

FILES_ONLY = "run=no is content with the files, and runs nothing of the bundle"

# With one of these, a signature is wanted.
SIGNED = ("key", "policy", "version")

VARIABLES = ("bundle", "run", "model", "target", "to", *SIGNED)
USAGE = (
    "usage: ingot-verify bundle=oci://HOST/REPO:TAG|FOLDER|TAR key=FILE|policy=FILE"
    " [model=NAME] [target=NAME] [version=1.4.0] [to=FOLDER] [run=no]"
)


def wants_run(variables: Mapping[str, str]) -> bool:
    """Return whether the bundle is to be run, and not only its files verified.

    Raises: IngotError if run= says neither.
    """
    run = variables.get("run", "yes")
    if run not in ("yes", "no"):
        raise IngotError(f"run=: expected yes or no, found '{run}'")
    return run == "yes"


def report_on(
    path: str, variables: Mapping[str, str], root: Path, runs: bool
) -> Report:
    """Return the report of the kind of verification that is asked for.

    `root` may have `targets/`, which describe emulators.

    Raises: IngotError with the reason why the bundle is rejected.
    """
    given = {
        name: value
        for name, value in variables.items()
        if name in (*SIGNED, "model", "target", "to") and value
    }
    is_release = locations.is_release(path)
    if "to" in given and not is_release:
        raise IngotError(f"{path}: only a release is fetched to a folder")
    if not given and not is_release:
        return verify_bundle(Path(path), root, runs)
    # It needs a package that verifies signatures, which a bundle alone does not.
    from ingot.release.verify_release import Asked, verify_folder, verify_release

    if is_release:
        return verify_release(path, Asked(**given), root, runs)
    if not Path(path).is_dir():
        raise IngotError(
            f"{path}: evidence is beside a folder or in a release",
            "`doit pull` fetches both; or name a release: oci://HOST/REPO:1.4.0",
        )
    return verify_folder(Path(path), Asked(**given), root, runs)


def show(report: Report) -> int:
    """Print what was verified; return 1 if that is not all."""
    print(report.text)
    if report.gap:
        print(f"not verified: {IngotError(report.gap, FILES_ONLY)}", file=sys.stderr)
    return FAILED if report.gap else 0


def rejection(error: IngotError) -> str:
    """Return why a bundle is rejected, and what to do."""
    return str(IngotError(error.message, error.hint or REBUILD))


def main() -> int:
    """Verify what the command line names; return the exit code."""
    variables = dict(word.partition("=")[::2] for word in sys.argv[1:])
    for name in variables:
        if name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES, "variables")
            print(f"{name}: no such variable\n  {hint}\n{USAGE}", file=sys.stderr)
            return REJECTED_ARGUMENTS
    if not variables.get("bundle"):
        print(USAGE, file=sys.stderr)
        return REJECTED_ARGUMENTS
    try:
        runs = wants_run(variables)
        return show(report_on(variables["bundle"], variables, Path.cwd(), runs))
    except IngotError as error:
        print(f"rejected: {rejection(error)}", file=sys.stderr)
        return FAILED
