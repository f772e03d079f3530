"""Define what commands print with --json, and publish it as a JSON Schema.

    python -m ingot.cli.json_output > docs/command-line.schema.json

A name in `schema` changes when a field goes or changes its meaning; a new field does
not change it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

from ingot.bundles.difference import Difference
from ingot.codec import DIALECT, schema_of, to_json


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model of `doit list`."""

    name: str
    summary: str
    weights: str = field(metadata={"doc": "'synthetic weights', or empty"})
    default: bool
    error: str = field(metadata={"doc": "every error of the manifest, or empty"})


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A target of `doit list`."""

    name: str
    summary: str
    default: bool
    alias_of: str = field(metadata={"doc": "of 'host': the target that it means here"})
    cannot_run: str = field(metadata={"doc": "why this machine cannot run it"})
    error: str = field(metadata={"doc": "every error of the target's file, or empty"})


@dataclass(frozen=True, slots=True)
class ListOutput:
    """What `doit list --json` prints."""

    models: tuple[ListedModel, ...]
    targets: tuple[ListedTarget, ...]
    stages: dict[str, str]
    schema: str = "ingot.list.v1"


@dataclass(frozen=True, slots=True)
class ForeseenAction:
    """An action that a build would not leave as it is."""

    task: str
    outcome: str = field(
        metadata={"doc": "would run, may run, would be restored or would be fetched"}
    )
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhyOutput:
    """What `doit why --json` prints."""

    actions: tuple[ForeseenAction, ...]
    up_to_date: int = field(metadata={"doc": "how many others have nothing to do"})
    schema: str = "ingot.why.v1"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one test of `doit doctor`."""

    subject: str
    level: str = field(metadata={"doc": "ok, warning or error"})
    found: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DoctorOutput:
    """What `doit doctor --json` prints."""

    findings: tuple[DoctorFinding, ...]
    schema: str = "ingot.doctor.v1"


@dataclass(frozen=True, slots=True)
class StoreShare:
    """The part of a store that a model, a target or a stage uses."""

    name: str
    results: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoreOutput:
    """What `doit store --json` prints."""

    folder: str
    size_bytes: int
    limit_bytes: int | None
    results: int
    blobs: int
    builds: int
    ran: int = field(metadata={"doc": "actions that ran in all recorded builds"})
    restored: int
    up_to_date: int
    models: tuple[StoreShare, ...]
    targets: tuple[StoreShare, ...]
    stages: tuple[StoreShare, ...]
    schema: str = "ingot.store.v1"


@dataclass(frozen=True, slots=True)
class StoreVerifyOutput:
    """What `doit store --json verify` prints."""

    blobs: int
    results: int
    size_bytes: int
    corrupt: tuple[str, ...] = field(metadata={"doc": "files that were removed"})
    unreadable: tuple[str, ...]
    incomplete: int = field(metadata={"doc": "results that lack a blob"})
    schema: str = "ingot.store-verify.v1"


@dataclass(frozen=True, slots=True)
class VerifyOutput:
    """What `doit verify --json` prints."""

    bundle: str
    accepted: bool
    report: str = field(metadata={"doc": "what was verified, in lines"})
    not_verified: str = field(metadata={"doc": "what could not be tested, or empty"})
    rejected: str = field(metadata={"doc": "why the bundle is wrong, or empty"})
    schema: str = "ingot.verify.v1"


@dataclass(frozen=True, slots=True)
class BuiltAction:
    """How an action of a build ended."""

    task: str
    how: str = field(
        metadata={"doc": "ran, restored, fetched, up to date, failed or not tried"}
    )
    reasons: tuple[str, ...] = field(metadata={"doc": "why it was not up to date"})
    message: str = field(metadata={"doc": "why it failed, or empty"})


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """What a build has made of a model for a target; the keys of a pair may lack."""

    bundle: str = field(metadata={"doc": "the folder, or empty if it was not built"})
    check: dict[str, Any] | None = field(metadata={"doc": "check.json"})
    bench: dict[str, Any] | None = field(metadata={"doc": "bench.json"})


@dataclass(frozen=True, slots=True)
class BuildOutput:
    """What a build prints with --json; its progress goes to standard error."""

    exit_code: int
    wall_s: float
    actions: tuple[BuiltAction, ...]
    results: dict[str, BuiltFiles] = field(metadata={"doc": "by MODEL@TARGET"})
    notes: tuple[str, ...]
    schema: str = "ingot.build.v1"


OUTPUTS = (
    ListOutput,
    WhyOutput,
    DoctorOutput,
    StoreOutput,
    StoreVerifyOutput,
    VerifyOutput,
    BuildOutput,
    Difference,
)


def print_json(value: object) -> None:
    """Print one of these values on standard output, in one line."""
    print(to_json(value))


def schema_text() -> str:
    """Return the JSON Schema of what commands print, one of several by `schema`."""
    forms = []
    for kind in OUTPUTS:
        form = schema_of(kind)
        name = kind.__dataclass_fields__["schema"].default
        form["properties"]["schema"] = {"const": name}
        forms.append(
            {"title": name, **form} | {"required": [*form["required"], "schema"]}
        )
    title = "What commands of ingot print with --json"
    return json.dumps({"$schema": DIALECT, "title": title, "oneOf": forms}, indent=1)


if __name__ == "__main__":
    sys.stdout.write(f"{schema_text()}\n")
