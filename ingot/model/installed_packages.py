"""Find a file of a Python distribution that is installed, without importing it.

Importing the package would run its code.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ingot.errors import ManifestError
from ingot.model.source_sections import PackageSection


def find_installed(section: PackageSection) -> Path | None:
    """Return the file; None if the distribution has to be downloaded first.

    It has to be if the section states a version, and that one is not installed.

    Raises: ManifestError if there is no such file, or it belongs to another
        distribution.
    """
    relative = PurePosixPath(section.path)
    if relative.is_absolute() or ".." in relative.parts:
        raise section.at.error("path", "expected a path inside site-packages")
    if section.version:
        if section.sha256 is None:
            hint = "sha256: the digest of the file, without which nothing is downloaded"
            raise section.at.error("", "missing key 'sha256'", hint)
        if not _is_installed(section.distribution, section.version):
            return None
    path = Path(sysconfig.get_path("purelib")) / relative
    if not path.is_file():
        message = f"no file '{section.path}' in site-packages"
        hint = f"pip install --no-deps {section.distribution}"
        raise section.at.error("path", message, hint)
    for error in _check_distribution(section):
        raise error
    return path


def _is_installed(name: str, version: str) -> bool:
    # Here: importing it takes 20 ms.
    from importlib.metadata import distributions

    site = [sysconfig.get_path("purelib")]
    return any(item.version == version for item in distributions(name=name, path=site))


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
