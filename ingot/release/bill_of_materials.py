"""List what a bundle consists of, with a model card, as a CycloneDX ML-BOM.

Source: CycloneDX 1.6, "Machine Learning Bill of Materials". Serial number and time are
derived, so that equal releases have equal bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from ingot import codec
from ingot.release.statements import Subject

_NAMESPACE = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562: of OIDs


def bill_of_materials(
    subject: Subject,
    contract: dict[str, Any],
    bench: dict[str, Any],
    created: str,
) -> bytes:
    """Return the bill of a bundle with this `bundle.json` and this `bench.json`."""
    digests = codec.to_json(dict(subject.files))
    serial = uuid.uuid5(_NAMESPACE, f"{subject.name} {created} {digests}")
    value = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "model",
                "name": subject.model,
                "version": subject.version,
                "description": f"for {contract['target']['name']}",
                "licenses": [{"expression": contract["licence"]}],
                "modelCard": _model_card(contract, bench),
            },
        },
        "components": [*_files(subject), *_packages(contract)],
        "dependencies": [
            {
                "ref": "model",
                "dependsOn": [x["bom-ref"] for x in _packages(contract)],
            }
        ],
    }
    return codec.to_json(value, indent=True).encode() + b"\n"


def _files(subject: Subject) -> Iterator[dict[str, Any]]:
    for name, sha256 in sorted(subject.files.items()):
        yield {
            "type": "file",
            "bom-ref": f"file:{name}",
            "name": name,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
        }


def _packages(contract: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, scope in (("runtime", "required"), ("compiler", "excluded")):
        package = contract[key]
        name, version = package["package"], str(package.get("version", ""))
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            "scope": scope,
        }


def _model_card(contract: dict[str, Any], bench: dict[str, Any]) -> dict[str, Any]:
    ports = [
        (side, port)
        for entry in contract["entry_points"]
        for side in ("inputs", "outputs")
        for port in entry[side]
    ]
    formats = {
        side: sorted({f"{p['role']}: {p['element']}" for s, p in ports if s == side})
        for side in ("inputs", "outputs")
    }
    limits = [f"weights: {contract['weights']}"] if contract.get("weights") else []
    return {
        "modelParameters": {
            "task": _task(contract),
            "modelArchitecture": str(contract.get("architecture", "")),
            **{
                side: [{"format": text} for text in texts]
                for side, texts in formats.items()
            },
        },
        "quantitativeAnalysis": {
            "performanceMetrics": [*_errors(contract), *_times(bench)]
        },
        "considerations": {
            "technicalLimitations": [*limits, f"checked by: {_judge(contract)}"]
        },
    }


def _task(contract: dict[str, Any]) -> str:
    if contract.get("pooling"):
        return "sentence embedding"
    return "text generation" if contract.get("sampling") else "other"


def _judge(contract: dict[str, Any]) -> str:
    check = contract["check"]
    return f"{check['judge']}{', on an emulated device' if check['emulated'] else ''}"


def _errors(contract: dict[str, Any]) -> Iterator[dict[str, Any]]:
    check = contract["check"]
    for level, found in sorted(check["levels"].items()):
        for name in ("max_abs_error", "tolerance"):
            if found.get(name) is not None:
                yield {"type": name, "value": str(found[name]), "slice": level}
    for name, value in sorted((check["quality"] or {}).items()):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield {"type": name, "value": str(value)}


def _times(bench: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for run in bench.get("runs", []):
        sizes = ", ".join(f"{k} {v}" for k, v in sorted(run.get("sizes", {}).items()))
        yield {
            "type": "latency_ms (median)",
            "value": str(run["latency_ms"]["median"]),
            "slice": f"{run['entry_point']} {sizes}".strip(),
        }
