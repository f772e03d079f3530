"""A source node of a manifest in, the value that says which file holds the weights out.

What is on this machine is looked up here, so that a missing package or file is an error
of the manifest, at its line; nothing is downloaded and no weight is read.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ingot.errors import IngotError, ManifestError
from ingot.model.yaml_nodes import Node
from ingot.weights.shards import INDEX, read_index

_SINGLE = "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A file that an installed Python distribution carries."""

    distribution: str
    name: str  # relative to site-packages, with slashes
    path: Path  # where it is on this machine, absolute
    sha256: str | None

    @property
    def origin(self) -> str:
        """Return where it comes from, without a word about this machine."""
        return f"python-package {self.distribution}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file beside the manifest."""

    name: str  # as the manifest writes it
    path: Path  # absolute
    sha256: str | None
    kind: str = "file"  # as the manifest writes it: "file", "gguf", "irpa"

    @property
    def origin(self) -> str:
        """Return where it comes from, without a word about this machine."""
        return f"{self.kind} {PurePosixPath(self.name).name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HfDirectory:
    """The safetensors files of a Hugging Face checkpoint."""

    name: str  # as the manifest writes it
    files: tuple[Path, ...]  # absolute, in the order of their names

    @property
    def origin(self) -> str:
        """Return where it comes from, without a word about this machine."""
        return f"hf-directory {PurePosixPath(self.name).name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A file at an address, pinned."""

    url: str  # https: or file:
    sha256: str

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"url {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Random weights of the right shapes, the same everywhere."""

    seed: int

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"synthetic, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splat:
    """One number for every weight: an archive without content, of any size.

    Such a model is compiled and loaded; what it computes means nothing.
    """

    value: float

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"splat of {self.value:g}"


FileSource = PackageFile | LocalFile | Url
WeightSource = FileSource | HfDirectory | Synthetic | Splat


def read_weight_source(
    node: Node, folder: Path, errors: list[ManifestError]
) -> WeightSource | None:
    """Return the source that a checked node names; None where it is not there.

    `folder` is the manifest's; what is missing is added to the errors.
    """
    match node["kind"].text:
        case "synthetic":
            return Synthetic(seed=node["seed"].integer)
        case "splat":
            return Splat(value=node["value"].number)
        case "hf-directory":
            return _directory(node["path"], folder, errors)
        case "gguf" | "irpa" as kind:
            return read_file_source(node, folder, errors, f".{kind}")
    return read_file_source(node, folder, errors, ".safetensors")


def read_file_source(
    node: Node, folder: Path, errors: list[ManifestError], suffix: str
) -> FileSource | None:
    """Return the source of one file, as `read_weight_source` does."""
    sha256 = found.text if (found := node.get("sha256")) else None
    kind = node["kind"].text
    if kind == "url":
        return _url(node["url"], node["sha256"].text, errors)
    place = node["path"]
    if not place.text.endswith(suffix):
        errors.append(place.error(f"expected a {suffix} file, found '{place.text}'"))
        return None
    if kind == "python-package":
        return _package(node, sha256, errors)
    path = folder / place.text
    if not path.is_file():
        message = f"no file '{place.text}' in the manifest's folder"
        errors.append(place.error(message))
    return LocalFile(name=place.text, path=path, sha256=sha256, kind=kind)


def _url(node: Node, sha256: str, errors: list[ManifestError]) -> Url:
    url = urlsplit(node.text)
    if url.scheme == "file" and not Path(unquote(url.path)).is_file():
        errors.append(node.error(f"no file '{unquote(url.path)}'"))
    return Url(url=node.text, sha256=sha256)


def _package(
    node: Node, sha256: str | None, errors: list[ManifestError]
) -> PackageFile | None:
    name, place = node["distribution"].text, node["path"]
    relative = PurePosixPath(place.text)
    if relative.is_absolute() or ".." in relative.parts:
        errors.append(place.error("expected a path inside site-packages"))
        return None
    # Looked up as a file: importing the package would run its code.
    path = Path(sysconfig.get_path("purelib")) / relative
    if not path.is_file():
        message = f"no file '{place.text}' in site-packages"
        hint = f"pip install --no-deps {name}"
        errors.append(place.error(message, hint))
        return None
    errors += _check_distribution(node["distribution"], place.text)
    return PackageFile(distribution=name, name=place.text, path=path, sha256=sha256)


def _check_distribution(node: Node, file: str) -> Iterator[ManifestError]:
    """Yield where what is installed says that a file is not of this distribution.

    A bundle says that it is. Where pip has no list of a distribution's files, nobody
    knows.
    """
    from importlib.metadata import distributions

    site = [sysconfig.get_path("purelib")]
    found = list(distributions(name=node.text, path=site))
    if any(item.files is None or file in map(str, item.files) for item in found):
        return
    owners = [
        item.metadata["Name"]
        for item in distributions(path=site)
        if file in map(str, item.files or ())
    ]
    what = "has no such file" if found else "is not installed"
    hint = f"'{file}' is of '{owners[0]}'" if owners else ""
    message = f"distribution '{node.text}' {what}"
    yield node.error(message, hint or f"pip install --no-deps {node.text}")


def _directory(
    node: Node, folder: Path, errors: list[ManifestError]
) -> HfDirectory | None:
    directory = folder / node.text
    hint = f"expected {_SINGLE} or {INDEX}"
    if (directory / INDEX).is_file():
        try:
            index = read_index(directory / INDEX, INDEX)
        except IngotError as error:
            errors.append(node.error(error.message, error.hint))
            return None
        names = tuple(sorted(set(index.values())))
        hint = f"{INDEX} names it: fetch all files of that revision of the model"
    else:
        names = (_SINGLE,)
    for name in names:
        if not (directory / name).is_file():
            message = f"no file '{name}' in '{node.text}'"
            errors.append(node.error(message, hint))
    return HfDirectory(name=node.text, files=tuple(directory / name for name in names))
