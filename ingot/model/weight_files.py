"""A weight source of a manifest in, the files that an action reads it from out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ingot.engine.actions import Output, Source, SourceFile
from ingot.model.weight_sources import (
    FileSource,
    HfDirectory,
    Splat,
    Synthetic,
    Url,
    WeightSource,
)
from ingot.weights.shards import INDEX

FOLDER = "weights"


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file of weights: where an action sees it, and what a message calls it."""

    path: str  # "weights/model.safetensors"
    label: str  # as the manifest names it
    sha256: str | None  # that the file must have
    source: Source


def weight_files(source: WeightSource) -> tuple[WeightFile, ...]:
    """Return the files that hold the source's tensors; none where it has none."""
    if isinstance(source, Synthetic | Splat):
        return ()
    if isinstance(source, HfDirectory):
        return tuple(
            WeightFile(
                path=f"{FOLDER}/{path.name}",
                label=f"{source.name}/{path.name}",
                sha256=None,
                source=SourceFile(path),
            )
            for path in source.files
        )
    label = source.url if isinstance(source, Url) else source.name
    name = file_name(source)
    return (WeightFile(f"{FOLDER}/{name}", label, source.sha256, file_input(source)),)


def weight_index(source: WeightSource) -> tuple[tuple[str, Source], ...]:
    """Return the input that says which file holds which tensor, where there is one."""
    if not isinstance(source, HfDirectory) or len(source.files) == 1:
        return ()
    return ((f"{FOLDER}/{INDEX}", SourceFile(source.files[0].parent / INDEX)),)


def file_input(source: FileSource) -> Source:
    """Return the input that holds the file: what is on this machine is read there."""
    if not isinstance(source, Url):
        return SourceFile(source.path)
    if is_fetched(source):
        return Output(fetch_task(source), file_name(source))
    return SourceFile(Path(unquote(urlsplit(source.url).path)))


def is_fetched(source: WeightSource | None) -> bool:
    """Return whether the file is to be downloaded, by the action `fetch_task` names."""
    return isinstance(source, Url) and not source.url.startswith("file:")


def fetch_task(source: Url) -> str:
    """Return the task that downloads the file; models that pin one file share it."""
    return f"fetch:{file_name(source)}-{source.sha256[:12]}"


def file_name(source: FileSource) -> str:
    """Return the last part of the file's place."""
    place = urlsplit(source.url).path if isinstance(source, Url) else source.name
    return PurePosixPath(unquote(place)).name or "file"
