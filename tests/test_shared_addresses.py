"""Test that invalid addresses of shared caches are rejected, and none is resolved."""

from __future__ import annotations

import pytest

from ingot.engine.cache.backend import Timeouts
from ingot.engine.cache.cache_address import connect
from ingot.errors import IngotError


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "https://:80/ingot",
        "http://a b",
        "http://me:s3cret@",
        "grpc://",
        "grpc://localhost:abc",
        "grpc://localhost:99999",
        "grpc://localhost:0",
        "s3://",
        "s3:/bucket",
        "s3:///prefix",
        "file://net/cache",
        "file:cache",
        "file://",
        "file:///dev/null",
    ],
)
def test_an_address_without_a_host_or_folder_is_rejected(address: str) -> None:
    with pytest.raises(IngotError) as caught:
        connect(address, {}, Timeouts())
    scheme = address.partition(":")[0]
    expected = f"shared cache: the address is invalid; expected {scheme}://"
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    "address",
    [
        "http://é.example",
        "http://[::1]:80/a_b",
        "grpc://cache_1:80/i",
        "file:///no/dir",
    ],
)
def test_an_address_is_not_resolved(address: str) -> None:
    connect(address, {}, Timeouts())
