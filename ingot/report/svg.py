"""Write the shapes of which every picture of this package consists as SVG text.

Colours are classes, so that one style sheet serves light and dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

# Width of a character of the sans-serif font at 12 px; enough for most words.
CHARACTER = 7.3

# People with colour blindness can tell these apart: blue, orange, green, red.
LIGHT = {
    "page": "#ffffff",
    "ink": "#1c2024",
    "dim": "#60646c",
    "rule": "#d9dce1",
    "panel": "#f5f6f8",
    "blue": "#2563c9",
    "orange": "#b45309",
    "green": "#18794e",
    "red": "#c62a2f",
}
DARK = {
    "page": "#111316",
    "ink": "#edeef0",
    "dim": "#a2a8b1",
    "rule": "#363a3f",
    "panel": "#1b1e22",
    "blue": "#70a5ff",
    "orange": "#f5a524",
    "green": "#4cc38a",
    "red": "#ff6369",
}

RULES = """
svg .page { fill: var(--page) }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
svg .dim { fill: var(--dim) } svg .bold { font-weight: 600 }
svg .end { text-anchor: end } svg .middle { text-anchor: middle }
svg .box { fill: var(--panel); stroke: var(--rule) }
svg .rule { stroke: var(--rule); fill: none }
svg .edge { stroke: var(--dim); fill: none }
svg .limit { stroke: var(--red); stroke-dasharray: 4 3; fill: none }
svg .blue { fill: var(--blue) } svg .orange { fill: var(--orange) }
svg .green { fill: var(--green) } svg .red { fill: var(--red) }
svg .line { stroke: var(--blue); stroke-width: 1.5; fill: none }
svg .trace { stroke-width: 1.5; fill: none } svg .dashed { stroke-dasharray: 6 4 }
svg .trace.ink { stroke: var(--ink) } svg .trace.blue { stroke: var(--blue) }
svg .trace.green { stroke: var(--green) } svg .trace.red { stroke: var(--red) }
svg .trace.orange { stroke: var(--orange) } svg .dotted { stroke-dasharray: 2 3 }
svg .ink { fill: var(--ink) }
svg .band { fill: var(--blue); opacity: .22 } svg .faint { opacity: .45 }
"""


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


STYLE = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
{RULES}"""
"""The style sheet of a page."""

_VARIABLE = re.compile(r"var\(--(\w+)\)")


def svg(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """Return a picture that scales with the page, with a title for screen readers."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
            f'{height:.0f}" role="img" aria-label="{escape(title)}">',
            *body,
            "</svg>",
        ]
    )


def standalone(picture: str, width: float, height: float) -> str:
    """Return the picture as a separate file, with size, style and background.

    Viewers of files, unlike browsers, know no variables, so the rules have the colours
    themselves.
    """
    head, _, rest = picture.partition(">")
    dark = f"@media (prefers-color-scheme: dark) {{{_coloured(DARK)}}}"
    return (
        f'{head} width="{width:.0f}" height="{height:.0f}">\n'
        f"<style>{_coloured(LIGHT)}{dark}</style>\n"
        f'<rect width="100%" height="100%" class="page"/>{rest}\n'
    )


def _coloured(colours: Mapping[str, str]) -> str:
    """Return the rules with these colours in place of variables."""
    return _VARIABLE.sub(lambda name: colours[name[1]], RULES)


def text(x: float, y: float, words: str, kind: str = "", slant: int = 0) -> str:
    """Return words; `kind` is a class of the style sheet, `slant` is in degrees."""
    turn = f' transform="rotate({slant} {x:.1f} {y:.1f})"' if slant else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{turn}>{escape(words)}</text>'


def rect(
    x: float, y: float, width: float, height: float, kind: str, about: str = ""
) -> str:
    """Return a box; `about` appears while the pointer is on it."""
    title = f"<title>{escape(about)}</title>" if about else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}" rx="2" class="{kind}">{title}</rect>'
    )


def dot(x: float, y: float, kind: str, about: str = "") -> str:
    """Return a point of a plot."""
    title = f"<title>{escape(about)}</title>" if about else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}">{title}</circle>'


def path(points: Iterable[tuple[float, float]], kind: str, closed: bool = False) -> str:
    """Return a line through the points, or an area if it is closed."""
    steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{steps}{" Z" if closed else ""}" class="{kind}"/>'


def short(words: str, most: int) -> str:
    """Return words of at most that many characters, cut in the middle."""
    if len(words) <= most:
        return words
    half = (most - 1) // 2
    return f"{words[: most - 1 - half]}…{words[-half:]}"
