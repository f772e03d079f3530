"""Pieces in as they arrive; out, a message, or a blob that the store has afterwards."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from ingot.engine.actions import Digest
from ingot.engine.atomic_files import SMALL_BYTES
from ingot.engine.cache.backend import BlobRejected, Timeouts, with_deadline
from ingot.engine.store import Store

# An action result names some files; more than this is something else.
MESSAGE_BYTES = 4 << 20


def message(pieces: Iterator[bytes], timeouts: Timeouts) -> bytes:
    """Return the pieces as one, cut where they are too many for a message.

    Raises: CacheFailure where they come too slowly.
    """
    content = b""
    for piece in with_deadline(pieces, timeouts.deadline(MESSAGE_BYTES)):
        content += piece
        if len(content) > MESSAGE_BYTES:
            break
    return content


def keep(
    store: Store, digest: Digest, pieces: Iterator[bytes], timeouts: Timeouts
) -> bool:
    """Return whether the pieces were the blob, which the store has then.

    Raises: CacheFailure where they come too slowly.
    """
    limited = _limited(digest, pieces, timeouts)
    if digest.size_bytes <= SMALL_BYTES:
        content = bytearray()
        for piece in limited:
            content += piece
        if Digest(hashlib.sha256(content).hexdigest(), len(content)) != digest:
            return False
        store.put_blob(digest, bytes(content))
        return True
    hasher, size_bytes = hashlib.sha256(), 0
    with store.scratch() as folder:
        path = folder / digest.hash
        with open(path, "wb") as file:
            for piece in limited:
                size_bytes += len(piece)
                hasher.update(piece)
                file.write(piece)
        if Digest(hasher.hexdigest(), size_bytes) != digest:
            return False
        store.take_file(path)
    return True


def _limited(
    digest: Digest, pieces: Iterator[bytes], timeouts: Timeouts
) -> Iterator[bytes]:
    """Yield the pieces until they are too many."""
    left = digest.size_bytes
    # What cannot be unpacked is as damaged as what is another content.
    with contextlib.suppress(BlobRejected):
        for piece in with_deadline(pieces, timeouts.deadline(digest.size_bytes)):
            yield piece
            left -= len(piece)
            if left < 0:
                return
