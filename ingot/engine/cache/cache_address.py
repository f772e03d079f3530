"""Parse the shared cache's address and return the backend that speaks its protocol.

    https://cache.example/ingot      Bazel's HTTP protocol
    grpcs://cache.example/instance   Bazel's remote-execution API
    s3://bucket/prefix               also gs:// and az://
    file:///net/cache                a folder

A password comes from the environment or from netrc, never from a file of the checkout;
it is neither printed nor passed on to an action.
"""

from __future__ import annotations

import base64
import netrc
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from ingot.engine.cache.backend import CacheBackend, Timeouts
from ingot.errors import IngotError, did_you_mean

FORMS = {
    **{name: f"{name}://HOST:PORT/PATH" for name in ("http", "https")},
    **{name: f"{name}://HOST:PORT/INSTANCE" for name in ("grpc", "grpcs")},
    **{name: f"{name}://BUCKET/PREFIX" for name in ("s3", "gs", "az")},
    "file": "file:///FOLDER",
}

# Both an HTTP header and gRPC's metadata accept these characters.
TOKEN = re.compile(r"[!-~]+")

# The extra that installs what a scheme needs.
EXTRAS = {"grpc": "reapi", "grpcs": "reapi", "s3": "s3", "gs": "s3", "az": "s3"}


def without_password(address: str) -> str:
    """Return the address as messages may show it.

    Raises: IngotError if it is not an address of a shared cache.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        raise IngotError("shared cache: the address is not a URL") from None
    scheme = parts.scheme
    if scheme not in FORMS:
        raise IngotError(
            f"shared cache: no protocol named '{scheme}'; expected SCHEME://LOCATION",
            did_you_mean(scheme, list(FORMS), "protocols"),
        )
    if not _is_valid(parts):
        raise IngotError(
            f"shared cache: the address is invalid; expected {FORMS[scheme]}"
        )
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl().rstrip("/")


def _is_valid(parts: SplitResult) -> bool:
    """Return whether it names a host, with a valid port, or an absolute folder."""
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        is_other = folder.exists() and not folder.is_dir()
        return not parts.netloc and folder.is_absolute() and not is_other
    try:
        port = parts.port
    except ValueError:
        return False
    return port != 0 and re.fullmatch(r"[^\s@]+", parts.hostname or "") is not None


def has_password(address: str) -> bool:
    """Return whether the address names a user."""
    return "@" in urlsplit(address).netloc


def connect(
    address: str, environment: Mapping[str, str], timeouts: Timeouts
) -> CacheBackend:
    """Return the backend for the address, without contacting it.

    Raises: IngotError if the address is wrong, or a package is missing.
    """
    shown = without_password(address)
    parts = urlsplit(shown)
    try:
        if parts.scheme == "file":
            from ingot.engine.cache.folder_cache import FolderBackend

            return FolderBackend(Path(unquote(parts.path)))
        credentials = authorization(address, environment)
        if parts.scheme in ("http", "https"):
            from ingot.engine.cache.http_cache import HttpBackend

            return HttpBackend(shown, credentials, timeouts)
        if parts.scheme in ("grpc", "grpcs"):
            from ingot.engine.cache.reapi_cache import ReapiBackend

            return ReapiBackend(shown, credentials, timeouts)
        from ingot.engine.cache.bucket_cache import BucketBackend

        return BucketBackend(shown, timeouts)
    except ValueError as error:
        raise IngotError(f"shared cache {shown}: invalid address: {error}") from error
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(parts.scheme, "")
        raise IngotError(
            f"shared cache {shown}: the package '{error.name}' is not installed",
            f"run: pip install 'ingot-build[{extra}]'",
        ) from error


def authorization(address: str, environment: Mapping[str, str]) -> str | None:
    """Return the header's value: from a token, the URL's user, or netrc, in this order.

    Raises: IngotError for a token that no header can hold, without quoting it.
    """
    # A token read from a file often ends with a newline.
    token = environment.get("INGOT_SHARED_CACHE_TOKEN", "").strip()
    if token:
        if TOKEN.fullmatch(token) is None:
            raise IngotError(
                "INGOT_SHARED_CACHE_TOKEN: not a bearer token; expected printable ASCII"
                " characters without spaces"
            )
        return f"Bearer {token}"
    parts = urlsplit(address)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        user, password = _netrc(parts.hostname or "", environment)
    if not user:
        return None
    pair = os.fsencode(f"{user}:{password}")
    return f"Basic {base64.b64encode(pair).decode()}"


def _netrc(host: str, environment: Mapping[str, str]) -> tuple[str, str]:
    path = environment.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        found = netrc.netrc(path).authenticators(host)
    except OSError:
        return "", ""
    except netrc.NetrcParseError as error:
        # The exception's own message may quote a password.
        raise IngotError(f"{path}:{error.lineno}: not a netrc file") from None
    return ("", "") if found is None else (found[0], found[2])
