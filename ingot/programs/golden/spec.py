"""Define the specification of a checkpoint's golden outputs."""

from __future__ import annotations

from dataclasses import dataclass

GOLDEN = "golden.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSpec:
    """The checkpoint to compute with transformers, and how much of it."""

    task: str  # its name in messages: "golden stories15m"
    model: str
    folder: str  # of the checkpoint's files
    gguf: str | None  # the file in it, if it is GGUF
    n_ctx: int  # the largest number of positions
    n_ids: int  # how many logits of a prompt are kept
    packages: tuple[tuple[str, str], ...]  # ("transformers", "5.23.0")
