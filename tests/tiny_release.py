"""Pack bundles that are whole and right, and that nobody needs to run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.bundles.contract import seal
from ingot.bundles.reader import Bundle, read_bundle
from ingot.dsse import PrivateKey
from ingot.release.evidence import Builder, make_evidence
from ingot.release.model_image import ModelImage, model_image
from ingot.release.provenance import Checkout
from ingot.release.publish import publish
from ingot.release.repository import Repository
from ingot.release.statements import Subject
from tests import tiny_bundle

WEIGHTS = bytes(range(256)) * 40

MACHINES: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "x86_64": ("x86_64", ("--iree-llvmcpu-target-cpu=x86-64-v3",)),
    "x86_64-v4": ("x86_64", ("--iree-llvmcpu-target-cpu=x86-64-v4",)),
    "aarch64": ("aarch64", ("--iree-llvmcpu-target-cpu=generic",)),
    "vulkan": (None, ("--iree-hal-target-device=vulkan",)),
}

CHECK: dict[str, Any] = {
    "passed": True,
    "emulated": False,
    "judge": "transformers 5.23.0 (float64)",
    "tokenizer_judge": None,
    "quality": None,
    "levels": {
        "component": {"rows": 8, "failed": 0, "max_abs_error": 1e-06},
        "golden": {"rows": 3, "failed": 0, "max_abs_error": 2e-06},
    },
}


def written(
    folder: Path, target: str = "x86_64", salt: str = "", **changed: Any
) -> Bundle:
    """A bundle in this folder; `changed` replaces parts of its contract.

    Bundles with another salt differ in every file.
    """
    folder.mkdir(parents=True)
    machine, flags = MACHINES[target]
    files = {
        "LICENSE": b"do as you like\n",
        "check.json": json.dumps({"schema": "ingot.check.v1", **CHECK}).encode(),
        "golden.json": b'{"cases": []}',
        "model.irpa": WEIGHTS,
        "model.vmfb": f"the module of {target}".encode(),
        "tokenizer.json": b"{}",
    }
    files = {name: content + salt.encode() for name, content in files.items()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    contract = tiny_bundle.contract()
    contract["target"] |= {
        "name": target,
        "machine": machine,
        "compile_flags": list(flags),
    }
    contract |= {
        "files": {
            name: {
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_bytes": len(content),
            }
            for name, content in files.items()
        },
        "parameters": {
            "scope": "model",
            "archive": "model.irpa",
            "types": {"w": {"element": "f32", "shape": [40, 64]}},
        },
        "inputs": {
            "sources": {"models/tiny.yaml": {"sha256": "a" * 64, "size_bytes": 3}},
            "linked_module": {"sha256": "b" * 64, "size_bytes": 3},
            "weights": {"origin": "o", "files": [{"file": "w", "sha256": "c" * 64}]},
        },
        "compiler": {
            "package": "iree-base-compiler",
            "version": "3.13.0",
            "commit": "d" * 40,
            "commands": [["iree-compile", "linked.mlir"]],
        },
        "runtime": {"package": "iree-base-runtime", "version": "3.13.0"},
        "check": CHECK,
        "architecture": f"llama{salt}",
    }
    (folder / "bundle.json").write_text(seal(contract | changed))
    return read_bundle(folder)


BENCH: dict[str, Any] = {
    "runs": [
        {
            "entry_point": "encode",
            "sizes": {"batch": 1, "seq": 16},
            "latency_ms": {"median": 1.25},
        }
    ]
}

CREATED = 1_777_777_777


def builder(**changed: Any) -> Builder:
    """A builder whose checkout is clean."""
    given: dict[str, Any] = {
        "checkout": Checkout("e" * 40, "https://git.example/tiny", dirty=False),
        "name": "https://ci.example/builder",
        "created": CREATED,
        "packages": {"iree-base-runtime": "f" * 64},
    }
    return Builder(**given | changed)


def signed(bundle: Bundle, version: str, key: PrivateKey, **changed: Any) -> Signed:
    """The image of a bundle, and the evidence about it."""
    image = model_image([bundle], version)
    (target,) = image.targets
    subject = Subject(image.model, version, target.target, target.files)
    evidence = make_evidence(bundle, subject, BENCH, builder(**changed), key)
    return Signed(image, subject, evidence)


@dataclass(frozen=True)
class Signed:
    """A release of one bundle."""

    image: ModelImage
    subject: Subject
    evidence: dict[str, bytes]

    def publish(self, repository: Repository) -> None:
        (target,) = self.image.targets
        publish(repository, self.image, "dev", {target.target: self.evidence})
