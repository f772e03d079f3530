"""Change valid inputs at random, and say what a reader may do with them.

Inputs have numbers: the same number of a reader is the same input on every machine.
"""

from __future__ import annotations

import copy
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A reader that takes longer hangs; a loaded machine takes a tenth of it for any input.
HANG_S = 20.0

# Numbers and texts at which readers go wrong.
NUMBERS = (0, 1, -1, 2**31, 2**32 - 1, 2**53, 2**63, 2**64, 10**30, 1e308, -0.0)
TEXTS = ("", "\0", "..", "../x", "/etc/passwd", "\ud800", "a" * 5000, "*", "\n", "é")
BYTES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF, *b'{}[]",:\n \t-#&*!|')


class Hang(BaseException):
    """A reader took too long."""


@dataclass(frozen=True)
class Reader:
    """Something that reads what others may have written."""

    name: str
    seeds: Callable[[Path], list[bytes]]  # valid inputs; the folder is empty
    read: Callable[[bytes, Path], object]  # the folder is the one of the seeds
    # What it may raise: everything else is a crash.
    rejects: tuple[type[BaseException], ...]
    count: int  # how many inputs the usual run tries
    is_json: bool = False  # change the tree too, not only bytes
    # Words that bytes seldom become by chance.
    words: tuple[bytes, ...] = ()


def changed(reader: Reader, seeds: list[bytes], number: int) -> bytes:
    """Return the input with this number."""
    generator = random.Random(f"{reader.name} {number}")
    content = generator.choice(seeds)
    if reader.is_json and generator.random() < 0.7:
        value = json.loads(content)
        for _ in range(generator.randint(1, 4)):
            value = _changed_value(value, generator)
        return json.dumps(value).encode("utf-8", errors="surrogatepass")
    for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
        content = _changed_bytes(content, seeds, reader.words, generator)
    return content


def _changed_bytes(
    content: bytes, seeds: list[bytes], words: tuple[bytes, ...], r: random.Random
) -> bytes:
    at = r.randint(0, len(content))
    end = min(len(content), at + r.choice((1, 1, 2, 4, 8, 64)))
    part = content[at:end]
    match r.randrange(9):
        case 0:
            new = bytes([(part[0] if part else 0) ^ 1 << r.randrange(8)])
            return content[:at] + new + content[at + 1 :]
        case 1:
            return content[:at] + bytes([r.choice(BYTES)]) + content[at + 1 :]
        case 2:
            return content[:at] + content[end:]
        case 3:
            return content[:at]
        case 4:
            return content[:at] + part * r.choice((2, 3, 1000)) + content[end:]
        case 5:
            other = r.choice(seeds)
            return content[:at] + other[r.randint(0, len(other)) :]
        case 6:
            size = r.choice((1, 2, 4, 8))
            number = r.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
            new = (number % (1 << 8 * size)).to_bytes(size, "little")
            return content[:at] + new + content[at + size :]
        case 7 if words:
            return content[:at] + r.choice(words) + content[end:]
        case _:
            return content[:at] + r.randbytes(r.choice((1, 4, 16))) + content[at:]


def _changed_value(value: Any, r: random.Random) -> Any:
    """Return the JSON value with one part replaced, removed, doubled or nested."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return _value(r)
    holder, key = r.choice(places)
    match r.randrange(6):
        case 0 | 1 | 2:
            holder[key] = _value(r)
        case 3:
            del holder[key]
        case 4:
            other, at = r.choice(places)
            holder[key] = copy.deepcopy(other[at]) if at in _keys(other) else None
        case _:
            for _ in range(r.choice((1, 3, 200))):
                holder[key] = [holder[key]]
    return value


def _value(r: random.Random) -> Any:
    parts: tuple[Any, ...] = (None, True, [], {}, [None], {"": 0}, [[]], {"name": {}})
    return r.choice((*NUMBERS, *TEXTS, *parts))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every part of the value, as what holds it and its key there."""
    pending = [value]
    while pending:
        holder = pending.pop()
        for key in _keys(holder):
            yield holder, key
            pending.append(holder[key])


def _keys(holder: Any) -> list[Any]:
    if isinstance(holder, dict):
        return list(holder)
    return list(range(len(holder))) if isinstance(holder, list) else []


@contextmanager
def deadline() -> Iterator[None]:
    """Raise Hang in the block if it takes too long."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(reader: Reader, folder: Path, numbers: range) -> str:
    """Read the inputs with these numbers; return what went wrong first, or ""."""
    seeds = reader.seeds(folder)
    for content in seeds:
        reader.read(content, folder)
    for number in numbers:
        content = changed(reader, seeds, number)
        try:
            with deadline():
                reader.read(content, folder)
        except reader.rejects as error:
            wrong = _unexpected(error, reader.rejects)
            if wrong is None:
                continue
            return _text(reader, number, content, wrong, folder)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return _text(reader, number, content, error, folder)
    return ""


def _unexpected(
    error: BaseException, rejects: tuple[type[BaseException], ...]
) -> BaseException | None:
    """Return what a group of errors contains besides those of the reader."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    inner = (_unexpected(one, rejects) for one in error.exceptions)
    crashes = [one for one in error.exceptions if not isinstance(one, rejects)]
    return next(filter(None, (*crashes, *inner)), None)


def _text(
    reader: Reader, number: int, content: bytes, error: BaseException, folder: Path
) -> str:
    kept = folder / f"input-{number}"
    kept.write_bytes(content)
    return (
        f"{reader.name}, input {number}, kept in {kept}:"
        f" {type(error).__name__}: {str(error)[:300]}\n"
        f"  again: INGOT_FUZZ_FROM={number} INGOT_FUZZ=1"
        f" pytest -n0 tests/test_fuzz.py -k '{reader.name}'"
    )
