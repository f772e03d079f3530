"""Read a checkpoint in a Hugging Face repository, without its weights.

A name such as `hf:owner/name@revision` becomes a commit and the sha256 of every file,
so that the manifest pins what an action downloads when the model is built. For the
import, small files are downloaded, and of each file of weights only the header: behind
it the local file is a hole.

Source: the hub's API, https://huggingface.co/docs/hub/api, GET /api/models/{repo}.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from ingot.errors import IngotError
from ingot.programs.fetch.download import NotFound, Refused, download, download_range
from ingot.programs.fetch.hub_file import (
    access_hint,
    fetch_from_hub,
    file_address,
    hub,
    hub_headers,
)
from ingot.weights.strict_json import parse_object

PREFIX = "hf:"
_NAME = re.compile(r"hf:([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)(?:@([A-Za-z0-9_./-]+))?")
_MAIN = "main"
_COMMIT = re.compile("[0-9a-f]{40}")
_WEIGHTS = ".safetensors"
_INDEX = "model.safetensors.index.json"
# Small files that say something about the model or its texts.
_SMALL = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|modules"
    r"|sentence_bert_config|model\.safetensors\.index|\d_\w+/config)\.json"
    r"|chat_template\.jinja|README\.md|LICEN[CS]E(\.\w+)?"
)
_PINNED = ("config.json", _INDEX)
_LONGEST_HEADER_BYTES = 100_000_000  # as the safetensors library allows


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub at a commit, and the sha256 of each file that is used."""

    repo: str
    commit: str
    sha256: dict[str, str]

    @property
    def pinned(self) -> dict[str, str]:
        """Return the files of the checkpoint, without its tokenizer and texts."""
        return {
            name: digest
            for name, digest in sorted(self.sha256.items())
            if name.endswith(_WEIGHTS) or name in _PINNED
        }


def is_hub_name(source: str) -> bool:
    """Return whether a source is meant to be a repository of the hub."""
    return source.startswith(PREFIX)


def parse_hub_name(source: str) -> tuple[str, str]:
    """Return the repository and the revision that a source names.

    Raises: IngotError if it names none.
    """
    match = _NAME.fullmatch(source)
    if match is None:
        hint = "such as hf:Qwen/Qwen3-0.6B, or hf:Qwen/Qwen3-0.6B@REVISION"
        found = f"expected hf:OWNER/NAME@REVISION, found '{source}'"
        raise IngotError(f"source={source}: {found}", hint)
    return match[1], match[2] or _MAIN


def fetch_description(source: str, folder: Path) -> tuple[Path, Repository]:
    """Write what describes a checkpoint below a folder; return its folder.

    Raises: IngotError if the hub has no such repository or revision, does not give
        access to it, or has no safetensors files in it.
    """
    repo, revision = parse_hub_name(source)
    about = _about(repo, revision, folder)
    commit = str(about.get("sha"))
    if not _COMMIT.fullmatch(commit):
        raise IngotError(f"{hub(os.environ)}: not a hub's answer about {repo}")
    path = folder / repo.rpartition("/")[2]
    path.mkdir()
    sha256: dict[str, str] = {}
    for item in about.get("siblings", ()):
        name = str(item["rfilename"])
        lfs = item.get("lfs") or {}
        if _SMALL.fullmatch(name):
            target = _place(path, name)
            fetch_from_hub(repo, commit, name, target, os.environ)
            sha256[name] = hashlib.sha256(target.read_bytes()).hexdigest()
        elif name.endswith(_WEIGHTS) and "/" not in name and "sha256" in lfs:
            _fetch_header(repo, commit, name, int(lfs["size"]), _place(path, name))
            sha256[name] = str(lfs["sha256"])
    _keep_named(path, sha256)
    if not any(name.endswith(_WEIGHTS) for name in sha256):
        raise IngotError(
            f"source={source}: no safetensors files at commit {commit[:12]}",
            "download its GGUF file, and import that: source=FILE.gguf",
        )
    return path, Repository(repo, commit, sha256)


def current_commit(repo: str, revision: str) -> str:
    """Return the commit that a branch, tag or short commit of a repository names.

    Raises: IngotError if the hub does not say.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    with TemporaryDirectory(prefix="ingot-hub-") as folder:
        return str(_about(repo, revision, Path(folder)).get("sha"))


def _about(repo: str, revision: str, folder: Path) -> dict[str, Any]:
    """Return what the hub says about a repository at a revision."""
    base = hub(os.environ)
    url = f"{base}/api/models/{repo}/revision/{quote(revision, safe='')}?blobs=true"
    answer = folder / "repository.json"
    try:
        download(url, answer, hub_headers(os.environ))
    except NotFound as error:
        message = f"{base}: no model '{repo}' with revision '{revision}'"
        raise IngotError(message, access_hint(repo, os.environ)) from error
    except Refused as error:
        raise IngotError(error.message, access_hint(repo, os.environ)) from error
    return parse_object(answer.read_bytes(), f"{base}: {repo}")


def _place(path: Path, name: str) -> Path:
    """Return where a file of the repository is written, within the folder."""
    if ".." in PurePosixPath(name).parts or name.startswith("/"):
        raise IngotError(f"a file of the repository is named '{name}'")
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    return path / name


def _fetch_header(repo: str, commit: str, name: str, size: int, path: Path) -> None:
    """Write a file whose header is the repository's, and whose rest is a hole."""
    address = file_address(repo, commit, name, os.environ)
    headers = hub_headers(os.environ)
    head = download_range(address, 0, 8, headers)
    length = int.from_bytes(head, "little")
    if length > min(_LONGEST_HEADER_BYTES, size - 8):
        raise IngotError(f"{repo}: {name}: not a safetensors file")
    header = download_range(address, 8, 8 + length, headers)
    with path.open("wb") as file:
        file.write(head + header)
        file.truncate(size)


def _keep_named(path: Path, sha256: dict[str, str]) -> None:
    """Forget other files of weights than those of the index, or of the single file."""
    names = {"model.safetensors"}
    if _INDEX in sha256:
        index = json.loads((path / _INDEX).read_bytes())
        names = {str(name) for name in index.get("weight_map", {}).values()}
    for name in [*sha256]:
        if name.endswith(_WEIGHTS) and name not in names:
            del sha256[name]
            (path / name).unlink()
