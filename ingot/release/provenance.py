"""State what a bundle was built from, as SLSA provenance.

`bundle.json` has the commands, the compiler and the digest of every source; this says
so in the words that other tools read, with the builder and the commit.

Source: SLSA 1.1, "Provenance" (predicate https://slsa.dev/provenance/v1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.engine import process
from ingot.release.statements import Subject

PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:ingot:bundle:v2"
BUILDER = "urn:ingot:builder:unnamed"

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Checkout:
    """The state of the sources that were built."""

    commit: str = ""  # "" outside of git
    address: str = ""  # where the commit is to be had
    dirty: bool = False  # files differ from the commit


def read_checkout(root: Path) -> Checkout:
    """Return what git says of a folder; nothing if it is no checkout."""
    commit = _git(root, "rev-parse", "HEAD")
    if _COMMIT.fullmatch(commit) is None:
        return Checkout()
    address = _git(root, "config", "--get", "remote.origin.url")
    # A user's name and password are nobody's business.
    address = re.sub(r"^(\w+://)[^/@]*@", r"\1", address)
    changed = _git(root, "status", "--porcelain", "--untracked-files=normal")
    return Checkout(commit, address, bool(changed))


def _git(root: Path, *words: str) -> str:
    argv = (process.program("git"), "-C", str(root), *words)
    try:
        done = process.run(argv, root, dict(os.environ))
    except OSError:
        return ""
    return done.output.decode(errors="replace").strip() if not done.exit_code else ""


def provenance(
    subject: Subject,
    contract: dict[str, Any],
    checkout: Checkout,
    builder: str,
    created: str,
    packages: Mapping[str, str],
) -> dict[str, Any]:
    """Return the predicate about a bundle with this `bundle.json`."""
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "model": subject.model,
                "target": subject.target,
                "version": subject.version,
            },
            "internalParameters": {
                "compileCommands": contract["compiler"].get("commands", []),
                "compileFlags": contract["target"]["compile_flags"],
                "sourceIsDirty": checkout.dirty,
            },
            "resolvedDependencies": [
                *_dependencies(contract, checkout),
                *_packages(contract, packages),
            ],
        },
        "runDetails": {
            "builder": {"id": builder or BUILDER},
            "metadata": {"finishedOn": created},
        },
    }


def _dependencies(
    contract: dict[str, Any], checkout: Checkout
) -> Iterator[dict[str, Any]]:
    """Yield everything that a bundle was made from, by digest."""
    if checkout.commit:
        yield {
            "name": "source",
            "uri": f"git+{checkout.address}" if checkout.address else "git+file:",
            "digest": {"gitCommit": checkout.commit},
        }
    inputs = contract.get("inputs", {})
    for path, file in sorted(inputs.get("sources", {}).items()):
        yield {"name": path, "digest": {"sha256": file["sha256"]}}
    if "linked_module" in inputs:
        sha256 = inputs["linked_module"]["sha256"]
        yield {"name": "linked.mlir", "digest": {"sha256": sha256}}
    weights = inputs.get("weights", {})
    for file in weights.get("files", []):
        name = str(file.get("file") or file.get("name") or weights.get("origin", ""))
        yield {"name": f"weights: {name}", "digest": {"sha256": file["sha256"]}}


def _packages(
    contract: dict[str, Any], packages: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield compiler and runtime, by commit and by the digest of their files."""
    for package in (contract["compiler"], contract["runtime"]):
        name = package["package"]
        digests = {
            "gitCommit": package.get("commit"),
            # Of the installed wheel's RECORD, without scripts and byte code.
            "recordSha256": packages.get(name),
        }
        yield {
            "name": name,
            "uri": f"pkg:pypi/{name}@{package.get('version', '')}",
            "digest": {key: value for key, value in digests.items() if value},
        }
