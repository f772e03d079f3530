"""Know where a Hugging Face hub has a file, and how to ask for it.

The hub is the public one, or that of HF_ENDPOINT. A token comes from HF_TOKEN alone,
and is sent to the hub alone: the hub redirects to servers that need none.

Source: huggingface_hub, file_download.py (hf_hub_url) and constants.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from ingot.errors import IngotError
from ingot.programs.fetch.download import Refused, download

PUBLIC = "https://huggingface.co"


def hub(environment: Mapping[str, str]) -> str:
    """Return the address of the hub."""
    return (environment.get("HF_ENDPOINT") or PUBLIC).rstrip("/")


def file_address(
    repo: str, revision: str, path: str, environment: Mapping[str, str]
) -> str:
    """Return the address of a repository's file at a revision."""
    place = f"resolve/{quote(revision, safe='')}/{quote(path)}"
    return f"{hub(environment)}/{repo}/{place}"


def hub_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with which the hub is asked."""
    token = environment.get("HF_TOKEN", "")
    return {"Authorization": f"Bearer {token}"} if token else {}


def access_hint(repo: str, environment: Mapping[str, str]) -> str:
    """Return what to do where the hub does not give access."""
    if environment.get("HF_TOKEN"):
        return f"accept the terms of {repo} on the hub with the account of HF_TOKEN"
    return f"if {repo} is private or has terms: HF_TOKEN=... with a token of the hub"


def fetch_from_hub(
    repo: str, revision: str, path: str, output: Path, environment: Mapping[str, str]
) -> None:
    """Write a file of a repository to `output`.

    Raises: IngotError if the hub does not have it, or does not give it.
    """
    address = file_address(repo, revision, path, environment)
    try:
        download(address, output, hub_headers(environment))
    except Refused as error:
        raise IngotError(error.message, access_hint(repo, environment)) from error
