"""List the keys of weight sources and of tokenizer sources, by their kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingot.model.name_patterns import PATH, SHA256
from ingot.model.schema_types import (
    Integer,
    ListOf,
    MapOf,
    Number,
    Section,
    Tagged,
    Text,
    key,
    optional,
)

_DIGEST = "digest that the file must have"
_VERSION = Text("a version such as 1.0.2", r"[0-9A-Za-z][0-9A-Za-z.+!-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSection(Section):
    """A file of a Python distribution."""

    kind: str
    distribution: str = key(Text("a distribution's name"), "its name on PyPI")
    version: str = optional(
        _VERSION, "its version, which is downloaded where it is not installed"
    )
    path: str = key(PATH, "the file, relative to site-packages")
    sha256: str | None = optional(SHA256, _DIGEST, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmSection(Section):
    """A file of an npm package."""

    kind: str
    package: str = key(
        Text(
            "a package's name such as left-pad or @scope/name",
            r"(@[a-z0-9~._-]+/)?[a-z0-9~._-]+",
        ),
        "its name in the npm registry",
    )
    version: str = key(_VERSION, "its version")
    path: str = key(PATH, "the file, relative to the package's folder")
    integrity: str = key(
        Text("a digest such as npm writes: sha512-...", "sha512-[A-Za-z0-9+/]{86}=="),
        "digest that the package must have, as npm view PACKAGE@VERSION dist.integrity",
    )
    sha256: str = key(SHA256, _DIGEST)


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


_REPO = Text("a repository such as owner/name", r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_COMMIT = Text("a commit: 40 hexadecimal digits", "[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFileSection(Section):
    """A file of a Hugging Face repository."""

    kind: str
    repo: str = key(_REPO, "the repository on the hub")
    revision: str = key(_COMMIT, "its commit")
    path: str = key(PATH, "the file in the repository")
    sha256: str = key(SHA256, _DIGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSection(Section):
    """A checkpoint in a Hugging Face repository."""

    kind: str
    repo: str = key(_REPO, "the repository on the hub")
    revision: str = key(_COMMIT, "its commit")
    files: Mapping[str, str] = key(
        MapOf(SHA256, PATH, min=1),
        "sha256 of its safetensors files, config.json and the index of shards",
    )


PartSection = PackageSection | NpmSection | FileSection | UrlSection | HubFileSection

_PACKAGE = ("python-package", PackageSection)
_NPM = ("npm-package", NpmSection)
_FILE = ("file", FileSection)
_URL = ("url", UrlSection)
_HUB_FILE = ("huggingface-file", HubFileSection)

PART = Tagged(
    "kind", "where the part comes from", (_PACKAGE, _NPM, _FILE, _URL, _HUB_FILE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsSection(Section):
    """A file that was published in parts."""

    kind: str
    name: str = key(
        Text("a file's name", "[^/]+"),
        "name of the file that the parts are joined to",
    )
    sha256: str = key(SHA256, _DIGEST)
    parts: tuple[PartSection, ...] = key(
        ListOf(PART, min=2), "where its parts come from, in their order"
    )


_PARTS = ("parts", PartsSection)

OF = Tagged(
    "kind",
    "where llama2.c's file comes from",
    (_PACKAGE, _NPM, _FILE, _URL, _HUB_FILE, _PARTS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama2cSection(Section):
    """A checkpoint of llama2.c (version 0), or the vocabulary behind it."""

    kind: str
    of: PartSection | PartsSection = key(OF, "where llama2.c's file comes from")


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


_LLAMA2C = ("llama2c", Llama2cSection)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularySection(Section):
    """The vocabulary inside the GGUF file that holds the weights."""

    kind: str


FileSourceSection = PartSection | PartsSection | Llama2cSection
SourceSection = (
    FileSourceSection | DirectorySection | HubSection | SyntheticSection | SplatSection
)
TokenizerSection = FileSourceSection | VocabularySection

WEIGHT_SOURCE = Tagged(
    "kind",
    "where the weights come from",
    (
        _PACKAGE,
        _NPM,
        _FILE,
        ("hf-directory", DirectorySection),
        ("huggingface", HubSection),
        _HUB_FILE,
        ("gguf", FileSection),
        ("irpa", FileSection),
        _URL,
        _PARTS,
        _LLAMA2C,
        ("synthetic", SyntheticSection),
        ("splat", SplatSection),
    ),
)
TOKENIZER_SOURCE = Tagged(
    "kind",
    "where the tokenizer comes from: a tokenizer.json, or the weights' own GGUF",
    (
        _PACKAGE,
        _NPM,
        _FILE,
        _URL,
        _HUB_FILE,
        _PARTS,
        _LLAMA2C,
        ("gguf", VocabularySection),
    ),
)
