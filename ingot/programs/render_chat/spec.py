"""Define the specification of one prompt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderChatSpec:
    """A template and the conversation to write with it."""

    template: str
    messages: tuple[tuple[str, str], ...]  # role, content
    names: dict[str, str]  # tokens that the template may write
    cpu_s: int
    memory_bytes: int
