"""Print the forms of manifests and architectures as JSON Schemas for editors.

    python -m ingot.model.json_schema manifest > docs/manifest.schema.json

A schema lists keys and types, from the tables by which the reader checks files. Only
the reader can check that names exist, that shapes fit and that files are there.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ingot.codec import DIALECT
from ingot.model.architecture_schema import ARCHITECTURE
from ingot.model.manifest_schema import ManifestFile
from ingot.model.schema_types import (
    Boolean,
    Choice,
    Either,
    Form,
    Integer,
    Key,
    ListOf,
    MapOf,
    Number,
    Record,
    Tagged,
    Text,
    keys_of,
)

FORMS: dict[str, Form] = {"manifest": ManifestFile, "architecture": ARCHITECTURE}

Schema = dict[str, Any]


def schema_text(name: str) -> str:
    """Return the schema of "manifest" or "architecture" as JSON text."""
    titles = {
        "manifest": "A model for ingot: models/<name>.yaml",
        "architecture": "A component graph for ingot: models/architectures/<name>.yaml",
    }
    head = {"$schema": DIALECT, "title": titles[name]}
    return json.dumps(head | schema(FORMS[name]), indent=1) + "\n"


def schema(form: Form) -> Schema:
    """Return the JSON Schema of a form."""
    match form:
        case Text(what, pattern):
            found: Schema = {"type": "string", "minLength": 1}
            # Anchored: a schema's pattern may match anywhere in the text.
            return found | (
                {"pattern": f"^(?:{pattern})$", "description": what} if pattern else {}
            )
        case Integer(least, most):
            limits = {"minimum": least, "maximum": most}
            given = {name: end for name, end in limits.items() if end is not None}
            return {"type": "integer"} | given
        case Number():
            return {"type": "number"}
        case Boolean():
            return {"type": "boolean"}
        case Choice(words):
            return {"enum": list(words)}
        case ListOf(of, least):
            return {"type": "array", "items": schema(of)} | _least("minItems", least)
        case MapOf(of, name, least):
            return {
                "type": "object",
                "propertyNames": schema(name),
                "additionalProperties": schema(of),
            } | _least("minProperties", least)
        case Record(keys=wanted):
            return _record(wanted)
        case Tagged(tag, doc, variants):
            return {
                "oneOf": [
                    _record((Key(tag, Choice((word,)), doc), *keys_of(section)))
                    for word, section in variants
                ]
            }
        case Either(forms):
            return {"anyOf": [schema(item) for item in forms]}
        case _:
            return _record(keys_of(form))


def _record(keys: tuple[Key, ...]) -> Schema:
    return {
        "type": "object",
        # The key's own meaning tells more than its form's.
        "properties": {
            key.name: schema(key.form) | {"description": key.doc} for key in keys
        },
        "required": [key.name for key in keys if not key.optional],
        "additionalProperties": False,
    }


def _least(word: str, count: int) -> Schema:
    return {word: count} if count else {}


def main() -> None:
    """Print the schema that `argv[1]` names, the manifest's where none is named."""
    name = sys.argv[1] if len(sys.argv) > 1 else "manifest"
    if name not in FORMS:
        raise SystemExit(f"no schema named '{name}'; known: {', '.join(FORMS)}")
    sys.stdout.write(schema_text(name))


if __name__ == "__main__":
    main()
