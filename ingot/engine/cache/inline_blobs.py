"""Small blobs within the result that names them: who fetches it asks once, not thrice.

The API has a place for them; they are blobs of their own too, for whoever looks there.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.engine.actions import ActionResult, Digest
from ingot.engine.keys import digest_of
from ingot.engine.store import Store

# What a disk gives a file at least; a larger blob is worth a request.
INLINE_BYTES = 4 << 10


def inlined(store: Store, result: ActionResult) -> ActionResult:
    """Return the result with the contents of its small blobs, all in the store."""
    small = {d for d in result.blobs() if 0 < d.size_bytes <= INLINE_BYTES}
    contents = [(digest, store.blob(digest).read_bytes()) for digest in small]
    return replace(result, contents=tuple(sorted(contents)))


def is_whole(result: ActionResult) -> bool:
    """Return whether the contents in the result are what their digests say."""
    return all(digest_of(content) == digest for digest, content in result.contents)


def keep(store: Store, result: ActionResult) -> list[Digest]:
    """Put the contents in the result into the store; return what is still missing.

    The contents have been looked at.
    """
    for digest, content in result.contents:
        store.put_blob(digest, content)
    kept = {digest for digest, _ in result.contents}
    return [digest for digest in result.blobs() if digest not in kept]
