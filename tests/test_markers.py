"""Test that tests without what they need are skipped here, and fail in CI."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest

LACKS_NGINX = "not installed; apt-get install nginx-light"


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a test that needs nginx, on a machine without nginx."""
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    monkeypatch.setattr(conftest, "missing", conftest.missing.__wrapped__)
    return SimpleNamespace(get_closest_marker=lambda name: name == "nginx" or None)


def test_a_test_without_its_tool_is_skipped_with_the_remedy(
    marked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=LACKS_NGINX):
        conftest.require(marked)


def test_in_ci_a_test_without_its_tool_fails(
    marked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=LACKS_NGINX):
        conftest.require(marked)


def test_a_marker_whose_tool_is_installed_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/sbin/{name}")
    assert conftest.missing.__wrapped__("nginx") == ""
