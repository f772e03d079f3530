"""Pack bundles that are whole and right, and that nobody needs to run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ingot.bundles.contract import seal
from ingot.bundles.reader import Bundle, read_bundle
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
    "quality": None,
    "levels": {
        "component": {"passed": 8, "failed": 0, "worst": 1e-6},
        "golden": {"passed": 3, "failed": 0, "worst": 2e-6},
    },
}


def written(folder: Path, target: str = "x86_64", **changed: Any) -> Bundle:
    """A bundle in this folder; `changed` replaces parts of its contract."""
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
        "runtime": {"package": "iree-base-runtime", "version": "3.13.0"},
        "check": CHECK,
        "architecture": "llama",
    }
    (folder / "bundle.json").write_text(seal(contract | changed))
    return read_bundle(folder)
