"""Take a file out of an npm package, without npm.

The registry is the one that npm would ask: `NPM_CONFIG_REGISTRY`, a line of `.npmrc`,
or the public one.

Source: npm's documentation of `npmrc`, `config` and `package-lock.json` (integrity).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from ingot.errors import IngotError, did_you_mean
from ingot.programs.fetch.download import NotFound, download
from ingot.programs.fetch.spec import FetchSpec

PUBLIC = "https://registry.npmjs.org"
# The short form of a package's description, which has no readme.
_SHORT = {"Accept": "application/vnd.npm.install-v1+json, application/json;q=0.8"}
_SETTING = re.compile(r"^\s*([^#;=\s]+)\s*=\s*(.*?)\s*$", re.MULTILINE)


def fetch_from_npm(
    specification: FetchSpec, output: Path, environment: Mapping[str, str]
) -> None:
    """Write a file of a package to `output`.

    Raises: IngotError if the registry has no such package, version or file, or if the
        package has another integrity.
    """
    name = specification.name
    archive = output.with_name("package.tgz")
    download(_address(specification, registry(name, environment), output), archive)
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha512").digest()
    integrity = f"sha512-{base64.b64encode(found).decode()}"
    if integrity != specification.integrity:
        raise IngotError(
            f"{name} {specification.version}: not the pinned package; expected"
            f" integrity {specification.integrity}, found {integrity}",
            f"compare with: npm view {name}@{specification.version} dist.integrity",
        )
    _extract(specification, archive, output)
    archive.unlink()


def registry(package: str, environment: Mapping[str, str]) -> str:
    """Return the address of the registry that has the package, as npm is configured."""
    scope = package.partition("/")[0] if package.startswith("@") else ""
    given = {name.lower(): value for name, value in environment.items()}
    settings = dict(_settings(given))
    named = settings.get(f"{scope}:registry") if scope else None
    found = named or given.get("npm_config_registry") or settings.get("registry")
    return (found or PUBLIC).rstrip("/")


def _settings(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings of the global and then of the user's own file."""
    home = Path(environment.get("home", "/"))
    own = environment.get("npm_config_userconfig") or home / ".npmrc"
    for path in (environment.get("npm_config_globalconfig") or "/etc/npmrc", own):
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            continue
        for name, value in _SETTING.findall(text):
            yield name, value.strip("\"'")


def _address(specification: FetchSpec, base: str, output: Path) -> str:
    """Return the address of the package's archive.

    Raises: IngotError if there is no such package or version.
    """
    name, version = specification.name, specification.version
    description = output.with_name("package.json")
    try:
        download(f"{base}/{quote(name, safe='@')}", description, _SHORT)
    except NotFound as error:
        message = f"{base}: no npm package '{name}'"
        hint = "write its name as npmjs.com does; npm config get registry shows the one"
        raise IngotError(message, f"{hint} that is asked") from error
    try:
        versions = json.loads(description.read_bytes())["versions"]
        if version not in versions:
            hint = did_you_mean(version, tuple(versions), "versions")
            raise IngotError(f"{base}: {name} has no version '{version}'", hint)
        return str(versions[version]["dist"]["tarball"])
    except (ValueError, KeyError, TypeError) as error:
        hint = "npm config get registry shows which address is asked"
        raise IngotError(f"{base}: not an npm registry's answer", hint) from error


def _extract(specification: FetchSpec, archive: Path, output: Path) -> None:
    """Write the file in the archive, whose top folder may have any name.

    Raises: IngotError if there is none.
    """
    known: list[str] = []
    with tarfile.open(archive, "r:gz") as package:
        for member in package:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix()
            if not member.isfile():
                continue
            known.append(path)
            if path == specification.path:
                content = package.extractfile(member)
                assert content is not None
                with content, output.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                return
    raise IngotError(
        f"{specification.name} {specification.version}: no file"
        f" '{specification.path}' in the package",
        did_you_mean(specification.path, known, "files"),
    )
