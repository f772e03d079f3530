"""Describe the content of a compiled module: functions, dispatches, buffers, sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

Count = tuple[str, int]
"""A name, and how often it occurs."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a function allocates or frees, in the order in which it does so."""

    event: str  # "alloca transient", "dealloca transient", "import", "export"
    size_bytes: int | None  # None: it depends on the sizes of a call


@dataclass(frozen=True, slots=True)
class Function:
    """One function: the operations in it, and what it starts."""

    name: str
    operations: tuple[Count, ...]
    dispatches: tuple[Count, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    # The peak of allocated memory; None if a size is not known.
    peak_bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class Section:
    """Things that have a size, such as parameters, by name."""

    title: str
    sizes: tuple[tuple[str, int], ...]  # bytes

    @property
    def size_bytes(self) -> int:
        """Return the sum of all sizes."""
        return sum(size for _, size in self.sizes)


@dataclass(frozen=True, slots=True)
class Content:
    """A module at one level."""

    functions: tuple[Function, ...]
    sections: tuple[Section, ...]  # parameters, constants, code; in that order


def counted(names: list[str]) -> tuple[Count, ...]:
    """Return each name once with its count, the most frequent first."""
    found = {name: names.count(name) for name in dict.fromkeys(names)}
    return tuple(sorted(found.items(), key=lambda item: -item[1]))


def peak_bytes(buffers: tuple[Buffer, ...]) -> int | None:
    """Return the peak of allocated memory; None if a size is not known.

    Memory that a function does not free belongs to its caller, or to the model.
    """
    now, most = 0, 0
    for buffer in buffers:
        event = buffer.event.partition(" ")[0]
        if event not in ("alloca", "dealloca"):
            continue
        if buffer.size_bytes is None:
            return None
        now += buffer.size_bytes if event == "alloca" else -buffer.size_bytes
        most = max(most, now)
    return most


def filtered(content: Content, wanted: Callable[..., bool]) -> Content:
    """Return the functions that match, and the matching parts of the others."""
    functions = []
    for item in content.functions:
        if wanted(item.name):
            functions.append(item)
            continue
        buffers = tuple(b for b in item.buffers if wanted(b.event))
        left = replace(
            item,
            operations=tuple(count for count in item.operations if wanted(count[0])),
            dispatches=tuple(count for count in item.dispatches if wanted(count[0])),
            buffers=buffers,
            peak_bytes=peak_bytes(buffers),
        )
        if left.operations or left.dispatches or left.buffers:
            functions.append(left)
    sections = tuple(
        replace(part, sizes=tuple(size for size in part.sizes if wanted(size[0])))
        for part in content.sections
    )
    return Content(tuple(functions), sections)
