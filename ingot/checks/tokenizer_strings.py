"""List the strings on which a tokenizer is compared: the same 2,000 for every model.

They come from a seed and from blocks of Unicode that have not changed for ten years, so
that every Python and every library knows their characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from random import Random

COUNT = 2000

# First and last character of the letters of twelve scripts.
SCRIPTS = {
    "Latin": (0x41, 0x17F),
    "Greek": (0x391, 0x3C9),
    "Cyrillic": (0x410, 0x45F),
    "Georgian": (0x10D0, 0x10F0),
    "Hebrew": (0x5D0, 0x5EA),
    "Arabic": (0x621, 0x64A),
    "Devanagari": (0x904, 0x94D),
    "Bengali": (0x985, 0x9CD),
    "Thai": (0xE01, 0xE4E),
    "Hangul": (0xAC00, 0xD7A3),
    "Kana": (0x3041, 0x30FA),
    "Han": (0x4E00, 0x9FA5),
}

_EMOJI = (
    *"😀🎉🚀🌍❤✨🔥👍🐍🧪",
    "👩‍💻",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🇩🇪",
    "1️⃣",
)
_WORDS = tuple(
    """the of and to in is that it was for on are as with his they at be this have from
    or one had by word but not what all were we when your can said there use an each
    which she do how their if will up other about out many then them these so some her
    would make like him into time has look two more write go see number no way could
    people my than first water been call who oil its now find long down day did get
    come made may part Paris France London I'm don't they're we'll you've it's
    """.split()  # noqa: SIM905
)
_CODE = (
    "def f(x: int) -> str:\n    return f'{x:>5}'\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] << 2; }",
    "SELECT * FROM t WHERE x <> 'a' AND y >= 1.5e-3;",
    '<div class="a">&nbsp;</div><!-- x -->\n',
    '\tif [[ -z $HOME ]]; then\n\t\techo "${x:-y}" | tr a-z A-Z\n\tfi\n',
    '{"key": [1, 2.0, null, true], "a\\n": "\\u00e9"}',
    "https://example.org/a_b?c=d&e=%20#f",
    "x = [0]*10; print(x[-1:], 3//2, ~0xFF, 1_000)",
    "C:\\Users\\name\\file.txt -> /usr/bin/env",
    "$e^{i\\pi} + 1 = 0$ \\frac{a}{b}",
)
_SPACES = (
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\n\n",
    " \n",
    "\n ",
    "\u00a0",
    "\u3000",
)
_NUMBERS = (
    "0",
    "7",
    "42",
    "007",
    "1234",
    "1,234,567.89",
    "3.14159",
    "½",
    "²",
    "Ⅷ",
    "٣",
)
_MARKS = tuple("!?.,;:'\"-–—…()[]{}<>/\\@#$%^&*_+=|~`«»„“”‚‘’·•§¶©®™°±×÷€£¥")
_EDGES = (
    "",
    " ",
    "a",
    " a",
    "a ",
    "  a  ",
    # Beside a space, llama.cpp and Hugging Face read it differently.
    "\u2581",
    "\u2581a",
    "a\u0301 e\u0308 n\u0303",
    "\ufb01 \u212b \u1e9e",
    "\u200b\u200d\ufeff",
    "\x00\x01\x7f",
    "\ufffd",
    "\U0010fffd\ue000",
    "<0x41><0x0A>",
    "Hello, world!",
    "½²Ⅷ x² 10½",
    "ǅ İ ı ß ẞ ſ",
)


@cache
def _letters(first: int, last: int) -> str:
    characters = map(chr, range(first, last + 1))
    return "".join(x for x in characters if unicodedata.category(x)[0] in "LM")


def strings(special: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the strings; some contain a tokenizer's special tokens.

    Their lengths are from 0 to 5,000 characters; most are below 200.
    """
    random = Random(20260101)
    found = dict.fromkeys((*_EDGES, *special[:32], *_CODE, *_long(random)))
    while len(found) < COUNT:
        found[_mixed(random, special)] = None
    return tuple(found)[:COUNT]


def _pick(random: Random, items: tuple[str, ...] | list[str] | str) -> str:
    # `random()` alone is the same in every version of Python.
    return items[int(random.random() * len(items))]


def _long(random: Random) -> Iterator[str]:
    """Yield long runs of one kind, on which tokenizers need much time or memory."""
    for size in (300, 500, 1000, 5000):
        yield "a" * size
        yield " " * size
        yield "1" * size
        yield "\n" * size
        yield ("ab" * size)[:size]
    for size in (1000, 2000, 5000):
        for script in SCRIPTS:
            yield _word(random, script, size)
        yield " ".join(_pick(random, _WORDS) for _ in range(size))[:size]
        yield "".join(_pick(random, _EMOJI) for _ in range(size))[:size]
        yield "".join(str(int(random.random() * 10)) for _ in range(size))


def _word(random: Random, script: str, size: int) -> str:
    letters = _letters(*SCRIPTS[script])
    return "".join(_pick(random, letters) for _ in range(size))


def _mixed(random: Random, special: tuple[str, ...]) -> str:
    """Return a string of several parts of all kinds."""
    script = _pick(random, list(SCRIPTS))
    parts = []
    for _ in range(1 + int(random.random() * 12)):
        kind = random.random()
        if kind < 0.35:
            parts.append(_word(random, script, 1 + int(random.random() * 9)))
        elif kind < 0.55:
            parts.append(_pick(random, _WORDS))
        elif kind < 0.6:
            parts.append(_pick(random, _WORDS).upper())
        elif kind < 0.66:
            parts.append(_pick(random, _EMOJI))
        elif kind < 0.76:
            parts.append(_pick(random, _NUMBERS))
        elif kind < 0.88:
            parts.append(_pick(random, _MARKS))
        elif kind < 0.9:
            parts.append(_pick(random, _CODE))
        elif kind < 0.92 and special:
            parts.append(_pick(random, special))
        if random.random() < 0.6:
            parts.append(" " if random.random() < 0.7 else _pick(random, _SPACES))
    return "".join(parts)
