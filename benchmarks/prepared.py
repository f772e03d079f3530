"""Build everything of ingot and of llama.cpp that a benchmark runs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import llama
from checkouts import ROOT, Checkout, copied, store_as

from ingot.model.manifest import Manifest, read_manifest

PEERS = {
    "f32": "f32",
    "bf16": "bf16",
    "i8": "q8_0",
    "i8_block32": "q8_0",
    "i4_block32": "q4_0",
}
"""By stored type: llama.cpp's nearest type; q8_0 has one scale per 32 values too."""

PLACE = ROOT / "build/.bench"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The programs and files to measure."""

    manifest: Manifest
    checkouts: dict[str, Checkout]  # by stored type
    program: Path
    gguf: dict[str, Path]  # by llama.cpp's type


def prepare(arguments: argparse.Namespace) -> Prepared:
    """Build what is not built yet."""
    model, path = arguments.model, ROOT / "models" / f"{arguments.model}.yaml"
    manifest = read_manifest(path, ROOT)
    PLACE.mkdir(parents=True, exist_ok=True)
    checkouts = {}
    for stored in arguments.types:
        checkout = copied(PLACE / f"{model}-{stored}", model, arguments.target)
        store_as(checkout, stored)
        checkout.build()
        checkouts[stored] = checkout
    program = arguments.llama_bench or llama.built(PLACE / "llama.cpp")
    gguf = {
        element: llama.model(manifest, path, element, PLACE / f"{model}-{element}.gguf")
        for element in dict.fromkeys(PEERS[stored] for stored in arguments.types)
    }
    return Prepared(manifest, checkouts, program, gguf)
