"""Write and read in-toto statements, which say something about files by their digests.

Source: in-toto attestation framework 1.0, "Statement"; RFC 3339 for times.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ingot import codec
from ingot.dsse import BadEnvelope, Envelope
from ingot.errors import IngotError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement is about: the files of a bundle, by name."""

    model: str
    version: str
    target: str
    files: Mapping[str, str]  # sha256, 64 hex digits

    @property
    def name(self) -> str:
        """Return the name of the bundle with its version."""
        return f"{self.model}@{self.target} {self.version}"


def statement(subject: Subject, predicate_type: str, predicate: Any) -> bytes:
    """Return a statement about all files of a bundle, the same bytes everywhere."""
    value = {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": sha256}}
            for name, sha256 in sorted(subject.files.items())
        ],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return codec.to_json(value).encode()


def read_statement(envelope: Envelope, predicate_type: str) -> dict[str, Any]:
    """Return the statement in an envelope.

    Raises: BadEnvelope if it is none, or of another type.
    """
    if envelope.payload_type != PAYLOAD_TYPE:
        raise BadEnvelope(f"it is a {envelope.payload_type!r}, not a statement")
    try:
        value = json.loads(envelope.payload)
        found = (value["_type"], value["predicateType"])
        subjects = [
            (item["name"], item["digest"]["sha256"]) for item in value["subject"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadEnvelope("it is not a statement") from error
    if found != (STATEMENT, predicate_type):
        raise BadEnvelope(f"it is a {found[1]!r}, not a {predicate_type!r}")
    return {**value, "subjects": dict(subjects)}


def now() -> int:
    """Return the time of a release, in seconds: SOURCE_DATE_EPOCH, or the clock's.

    Raises: IngotError if SOURCE_DATE_EPOCH is no such number.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        return int(time.time())
    if not (given.isascii() and given.isdigit() and len(given) < 12):
        raise IngotError(f"SOURCE_DATE_EPOCH={given}: expected seconds since 1970")
    return int(given)


def time_text(seconds: int) -> str:
    """Return a time as statements write it: 2026-05-04T03:02:01Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> int:
    """Return the seconds since 1970 of a time that `time_text` wrote.

    Raises: ValueError if it is no such text.
    """
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp())
