"""Compute the next token's logits with a decoder's entry points and a session.

Each call takes the caches and returns them. If the session keeps the module loaded, the
caches stay in the same memory from the first token to the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.model.graph import EntryPoint
    from ingot.model.shapes import TensorType
    from ingot.runtime.session import Session

Array: TypeAlias = Any

PREFILL, DECODE = "prefill", "decode"
# The inputs of a decoder's entry points besides the caches.
ROLES = ("tokens", "start", "last_index", "block_table", "cache")


class Decoder:
    """One sequence, with its tokens in the caches."""

    def __init__(
        self, session: Session, entries: tuple[EntryPoint, ...], ctx: int
    ) -> None:
        """Create empty caches for `ctx` tokens.

        Raises: IngotError if the entry points are not those of a decoder.
        """
        self._session = session
        self._prefill, self._decode = decoder_entries(entries)
        self._length = 0
        sizes = {"batch": 1, "ctx": ctx}
        if block_size := self._prefill.block_size:
            # One sequence has all blocks except block 0, which belongs to no sequence.
            blocks = -(-ctx // block_size)
            sizes |= {"n_block_seq": blocks, "n_block": 1 + blocks}
        self._blocks = sizes.get("n_block_seq", 0)
        self._caches = {
            name: session.zeros(
                tuple(
                    sizes[dim] if isinstance(dim, str) else dim for dim in type_.shape
                )
            )
            for name, type_ in _caches(self._prefill).items()
        }

    @property
    def length(self) -> int:
        """Return how many tokens the caches hold."""
        return self._length

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first `length`: others will overwrite them."""
        assert 0 <= length <= self._length
        self._length = length

    def prefill(self, tokens: tuple[int, ...]) -> Array:
        """Return the logits of the token after these, which continue the sequence.

        Shapes: [n_vocab].
        """
        return self._call(self._prefill, tokens)

    def decode(self, token: int) -> Array:
        """Return the logits of the token after this one.

        Shapes: [n_vocab].
        """
        return self._call(self._decode, (token,))

    def _call(self, entry: EntryPoint, tokens: tuple[int, ...]) -> Array:
        import numpy as np

        given = {
            "tokens": np.array([tokens], np.int32),
            "start": np.array([self._length], np.int32),
            "last_index": np.array([len(tokens) - 1], np.int32),
            "block_table": np.arange(1, 1 + self._blocks, dtype=np.int32)[None],
        }
        tensors = tuple(
            self._caches[port.name] if port.role == "cache" else given[port.role]
            for port in entry.inputs
        )
        made = self._session.call(entry.name, tensors, len(entry.outputs))
        self._length += len(tokens)
        logits = None
        for port, tensor in zip(entry.outputs, made, strict=True):
            if port.updates:
                self._caches[port.updates] = tensor
            elif port.role == "logits":
                logits = self._session.array(tensor)
        assert logits is not None  # `decoder_entries` has checked it
        return logits[0, -1]


def decoder_entries(entries: tuple[EntryPoint, ...]) -> tuple[EntryPoint, EntryPoint]:
    """Return `prefill` and `decode`.

    Raises: IngotError if they are missing, or differ from those of a decoder.
    """
    found = {entry.name: entry for entry in entries}
    for name in (PREFILL, DECODE):
        if name not in found:
            names = ", ".join(found) or "none"
            raise IngotError(
                f"not a decoder; expected the entry points {PREFILL} and {DECODE}, "
                f"found {names}"
            )
        _check_inputs(found[name])
    prefill, decode = found[PREFILL], found[DECODE]
    written, read = _caches(prefill), _caches(decode)
    if written != read:
        raise IngotError(
            f"{DECODE}: expected the caches of {PREFILL}, {_listed(written)}, "
            f"found {_listed(read)}"
        )
    return prefill, decode


def _check_inputs(entry: EntryPoint) -> None:
    """Reject an entry point with other inputs or outputs than a decoder's.

    Raises: IngotError.
    """
    for port in entry.inputs:
        if port.role not in ROLES:
            raise IngotError(
                f"{entry.name}: input '{port.name}' has a role that no decoder has; "
                f"expected {', '.join(sorted(ROLES))}, found {port.role}"
            )
    logits = [port for port in entry.outputs if port.role == "logits"]
    if len(logits) != 1:
        raise IngotError(
            f"{entry.name}: expected one output with the role logits, "
            f"found {len(logits)}"
        )
    updated = {port.updates for port in entry.outputs if port.updates}
    for name in _caches(entry):
        if name not in updated:
            raise IngotError(f"{entry.name}: no output updates the cache '{name}'")


def _caches(entry: EntryPoint) -> dict[str, TensorType]:
    return {port.name: port.type for port in entry.inputs if port.role == "cache"}


def _listed(caches: dict[str, TensorType]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in caches.items()) or "none"
