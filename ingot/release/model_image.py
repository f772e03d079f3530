"""Describe bundles as OCI images: a manifest for each target, and an index of them.

Every file of a bundle is one layer with the file's own bytes and CNCF ModelPack's media
type, so targets of one layout share the blob of the weights. Nothing here depends on
the time: the same bundles make the same image.

Source: CNCF ModelPack's model specification, `docs/spec.md` and `docs/config.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot import codec
from ingot.bundles.reader import Bundle
from ingot.errors import IngotError
from ingot.release.oci_documents import (
    FILE_PATH,
    LICENCES,
    MODEL,
    MODEL_CONFIG,
    TARGET,
    TITLE,
    VERSION,
    Descriptor,
    Document,
    described,
    index,
    manifest,
)

# The kind of a file by the end of its name; others are documentation.
KINDS = {
    ".irpa": "weight.v1.raw",
    ".vmfb": "code.v1.raw",
    ".py": "code.v1.raw",
    ".h": "code.v1.raw",
    "tokenizer.json": "weight.config.v1.raw",
    "bundle.json": "weight.config.v1.raw",
    ".jinja": "weight.config.v1.raw",
}

# A processor as OCI names it, which is as Go names it.
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_LEVEL = re.compile(r"--iree-llvmcpu-target-cpu=x86-64-(v\d)")

# What a release may be called: what semver.org calls a version.
VERSION_FORM = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?"
)


@dataclass(frozen=True, slots=True)
class TargetImage:
    """The image of one bundle: its manifest, and the content of every blob."""

    target: str
    manifest: Document
    blobs: tuple[tuple[Descriptor, Path | bytes], ...]
    platform: dict[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Return the sha256 of each file of the bundle."""
        layers = (blob for blob, _ in self.blobs if TITLE in blob.annotations)
        return {layer.annotations[TITLE]: layer.sha256 for layer in layers}

    @property
    def descriptor(self) -> Descriptor:
        """Return what the index says of the manifest."""
        named = {TARGET: self.target}
        return self.manifest.descriptor(
            artifact_type=MODEL, platform=self.platform, annotations=named
        )


@dataclass(frozen=True, slots=True)
class ModelImage:
    """The image of a model in one version, for several targets."""

    model: str
    version: str
    targets: tuple[TargetImage, ...]
    index: Document


def model_image(bundles: Iterable[Bundle], version: str) -> ModelImage:
    """Return the image of bundles of one model, whose files are as they were packed.

    Raises: IngotError if the version is none, or a licence forbids it.
    """
    check_version(version)
    chosen = sorted(bundles, key=lambda bundle: str(bundle.contract["target"]["name"]))
    (model,) = {str(bundle.contract["model"]) for bundle in chosen}
    for bundle in chosen:
        if bundle.contract.get("redistribution") == "no":
            raise IngotError(
                f"{bundle.name}: {bundle.contract['licence']} does not let you give"
                " these weights to others",
                "redistribution: yes in the manifest says that you may",
            )
    targets = tuple(_target_image(bundle, version) for bundle in chosen)
    annotations = _annotations(chosen[0], version)
    entries = tuple(target.descriptor for target in targets)
    return ModelImage(model, version, targets, index(entries, annotations, MODEL))


def check_version(text: str) -> None:
    """Check the form of a version.

    Raises: IngotError if it is another.
    """
    if VERSION_FORM.fullmatch(text) is None:
        raise IngotError(
            f"version={text}: not a version", "expected three numbers: version=1.4.0"
        )


def version_order(text: str) -> tuple[Any, ...]:
    """Return what orders versions as semver.org does: 1.4.0-rc.1 is before 1.4.0."""
    found = VERSION_FORM.fullmatch(text)
    assert found is not None, text
    numbers = tuple(map(int, found.groups()[:3]))
    if found[4] is None:
        return (*numbers, 1)
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in found[4].split(".")
    )
    return (*numbers, 0, parts)


def _target_image(bundle: Bundle, version: str) -> TargetImage:
    names = sorted([*bundle.contract["files"], "bundle.json"])
    layers = tuple(_layer(bundle, name) for name in names)
    files = [bundle.folder / name for name in names]
    config = _config(bundle, version, layers)
    blob = described(MODEL_CONFIG, config)
    target = str(bundle.contract["target"]["name"])
    annotations = {**_annotations(bundle, version), TARGET: target}
    return TargetImage(
        target=target,
        manifest=manifest(MODEL, blob, layers, annotations),
        blobs=((blob, config), *zip(layers, files, strict=True)),
        platform=platform(bundle.contract["target"]),
    )


def platform(target: dict[str, Any]) -> dict[str, str]:
    """Return the platform of a target; nothing if its module runs on any processor."""
    machine = MACHINES.get(str(target["machine"]))
    if machine is None:
        return {}
    if machine == "arm64":
        return {"architecture": machine, "os": "linux", "variant": "v8"}
    levels = (_LEVEL.fullmatch(str(flag)) for flag in target["compile_flags"])
    level = next((found[1] for found in levels if found), "v1")
    return {"architecture": machine, "os": "linux", "variant": level}


def _layer(bundle: Bundle, name: str) -> Descriptor:
    kinds = (kind for end, kind in KINDS.items() if name.endswith(end))
    kind = f"application/vnd.cncf.model.{next(kinds, 'doc.v1.raw')}"
    titles = {TITLE: name, FILE_PATH: name}
    if name == "bundle.json":
        content = (bundle.folder / name).read_bytes()
        return described(kind, content, annotations=titles)
    file = bundle.contract["files"][name]
    digest = f"sha256:{file['sha256']}"
    return Descriptor(kind, digest, file["size_bytes"], annotations=titles)


def _config(bundle: Bundle, version: str, layers: tuple[Descriptor, ...]) -> bytes:
    """Return ModelPack's configuration of a model."""
    contract = bundle.contract
    types = contract["parameters"].get("types", {}).values()
    count = sum(math.prod(item["shape"]) for item in types)
    value = {
        "descriptor": {
            "name": contract["model"],
            "version": version,
            "licenses": [contract["licence"]],
        },
        "config": {
            "architecture": contract.get("architecture", ""),
            "format": "irpa",
            "paramSize": parameter_size(count),
        },
        "modelfs": {"type": "layers", "diffIds": [layer.digest for layer in layers]},
    }
    return codec.to_json(value).encode()


def parameter_size(count: int) -> str:
    """Return a number of parameters as ModelPack writes it: "134.5M"."""
    scales = ((10**9, "B"), (10**6, "M"), (10**3, "K"))
    scale, letter = next((x for x in scales if count >= x[0]), scales[-1])
    return f"{count / scale:.1f}{letter}"


def _annotations(bundle: Bundle, version: str) -> dict[str, str]:
    return {
        TITLE: str(bundle.contract["model"]),
        VERSION: version,
        LICENCES: str(bundle.contract["licence"]),
    }
