"""Test that a new version of a system tool changes its identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.engine import toolchain
from ingot.engine.digests import Digests


@pytest.mark.parametrize(
    "name", ["libvulkan_lvp.so", "libvulkan.so.1", "libLLVM-15.so.1"]
)
def test_an_upgraded_library_of_a_driver_changes_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    driver = tmp_path / "libvulkan_lvp.so"
    driver.write_bytes(b"\x7fELF\0libc.so.6\0libLLVM-15.so.1\0")
    for library in ("libvulkan.so.1", "libLLVM-15.so.1", "libLLVM-14.so.1"):
        (tmp_path / library).write_bytes(b"old")
    monkeypatch.setitem(toolchain.SYSTEM_FILES, "mesa-llvmpipe", (str(driver),))
    digests = Digests(tmp_path / "digests.sqlite")
    before = toolchain.identity("mesa-llvmpipe", digests)
    (tmp_path / "libLLVM-14.so.1").write_bytes(b"of something else")
    assert toolchain.identity("mesa-llvmpipe", digests) == before
    with (tmp_path / name).open("ab") as file:
        file.write(b"new")
    assert toolchain.identity("mesa-llvmpipe", digests) != before
