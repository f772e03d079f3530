"""Provide a session without a model, which returns the tokens of a script."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.bundles import generator
from tests.tiny_decoder import N_VOCAB


class Scripted:
    """Logits whose largest is the next token of the script."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = iter(tokens)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        return np.zeros(shape, np.float32)

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        logits = np.zeros((1, 1, N_VOCAB), np.float32)
        logits[0, 0, next(self._tokens)] = 1
        return logits, tensors[-1]

    def array(self, tensor: Any) -> Any:
        return tensor


def script(monkeypatch: pytest.MonkeyPatch, tokens: list[int]) -> None:
    """Let bundles say these tokens."""
    monkeypatch.setattr(generator, "open_session", lambda *_: Scripted(tokens))
