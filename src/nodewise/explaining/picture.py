"""The picture of an explanation: the node in the middle, a ring per step, as SVG or PNG.

A neighbour's size is what it adds; filled it speaks for the class, hollow against it; its colour is its known label.
Numbers are those of the table.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from nodewise._util.errors import InputError
from nodewise._util.plotting import BLUE, VERMILLION
from nodewise._util.words import counted
from nodewise.explaining.explanation import Explanation, Neighbour

LIGHT = {"ground": "#ffffff", "ink": "#1c2127", "quiet": "#5c6570", "rule": "#d9dce0", "unknown": "#9aa3ad"}
DARK = {"ground": "#14171b", "ink": "#e4e7ea", "quiet": "#9aa3ad", "rule": "#363c44", "unknown": "#7d8690"}
# After Okabe and Ito; the class explained and the runner-up come first, a class without a colour is among the others.
COLOURS = (BLUE, VERMILLION, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
OTHERS, UNKNOWN = "other classes", "label not known"
OTHER_COLOUR = "#7a5ea8"
MOST_RINGS = 4
LEAST, LARGEST, CENTRE = 5.0, 20.0, 18.0  # radii
RING, GAP, CROWDED, NARROWEST = 62.0, 6.0, 200.0, 400.0  # between rings, between nodes; a full ring; the least width
EMS = 15  # half of the width, in font sizes
LETTERS = 22  # of a name in the legend


class Disc(NamedTuple):
    x: float
    y: float
    radius: float
    colour: str
    filled: bool
    title: str
    outline: float = 3.0


class Text(NamedTuple):
    x: float
    y: float
    words: str
    middle: bool = False


class Picture(NamedTuple):
    """Shapes in a box of ``width`` and ``height`` whose middle is at ``(width / 2, width / 2)``; ``font``: its size."""

    width: float
    height: float
    font: float
    rings: list[float]
    lines: list[tuple[tuple[float, float], tuple[float, float]]]
    discs: list[Disc]
    texts: list[Text]


def picture(found: Explanation) -> Picture:
    """The shapes of the picture."""
    colours = _colours(found)
    rings = _rings(found)
    radii = _radii(found, rings)
    places, circles = _placed(found, rings, radii)
    half = max(NARROWEST / 2, ((circles[-1] if circles else 0) + LARGEST) / (1 - 1.5 / EMS))  # numbers are outside
    points = [(half + x, half + y) for x, y in places]
    ring_of = {i: r for r, ring in enumerate([[0], *rings]) for i in ring}
    lines = [(points[a], points[b]) for a, b in found.edges if abs(ring_of[a] - ring_of[b]) == 1]
    discs = [
        Disc(
            *points[i], radii[i], colours[_group(found, v)], v.contribution >= 0, _title(v, found), 3.0 + 2.0 * (i == 0)
        )
        for i, v in enumerate(found.drawn)
    ]
    font = half / EMS
    rank = {v.node: str(place) for place, v in enumerate(found.neighbours, 1)}
    texts = [
        _number(disc, half, font, rank[v.node]) for disc, v in zip(discs, found.drawn, strict=True) if v.node in rank
    ]
    height = _add_legend(found, colours, rings, 2 * half, font, discs, texts)
    return Picture(2 * half, height, font, circles, lines, discs, texts)


def _radii(found: Explanation, rings: list[list[int]]) -> list[float]:
    """Areas follow what nodes add, less so where a ring would get too crowded; the middle has its own size."""
    sizes = [math.sqrt(abs(v.contribution)) for v in found.drawn]
    largest = max(sizes[1:], default=0.0) or 1.0
    spread = LARGEST - LEAST
    for ring in rings:
        room = math.tau * CROWDED - len(ring) * (2 * LEAST + GAP)
        spread = min(spread, room * largest / (2 * sum(sizes[i] for i in ring) or 1.0))
    return [CENTRE, *(LEAST + spread * size / largest for size in sizes[1:])]


def _number(disc: Disc, half: float, font: float, words: str) -> Text:
    """A number in a disc or, where the disc is too small for it, beyond it as seen from the middle."""
    x, y, away = disc.x - half, disc.y - half, math.dist((disc.x, disc.y), (half, half))
    if away and disc.radius < 0.33 * font * (1 + len(words)):
        reach = disc.radius + font * (0.2 + 0.3 * len(words) * abs(x / away) + 0.4 * abs(y / away))
        x, y = x * (1 + reach / away), y * (1 + reach / away)
    return Text(half + x, half + y + 0.35 * font, words, True)


def _group(found: Explanation, node: Neighbour) -> str:
    """What a node's colour says: its known label or, where nodes have several, whether it has the one explained."""
    several = found.runner_up is None and len(found.probabilities) > 1
    if not node.labels:
        return UNKNOWN
    if several:
        return found.class_ if found.class_ in node.labels else f"not {found.class_}"
    return node.labels[0]


def _colours(found: Explanation) -> dict[str, str]:
    """A colour for each group that is drawn."""
    groups = Counter(_group(found, v) for v in found.drawn)
    unknown = groups.pop(UNKNOWN, 0)
    first = [name for name in (found.class_, found.runner_up) if name]
    names = [*first, *(name for name, _ in groups.most_common() if name not in first)]
    colours = {name: COLOURS[i] if i < len(COLOURS) else OTHER_COLOUR for i, name in enumerate(names) if name in groups}
    return colours | ({UNKNOWN: "unknown"} if unknown else {})


def _rings(found: Explanation) -> list[list[int]]:
    """Places of the neighbours by steps; the last ring holds those further away too."""
    steps = [MOST_RINGS if v.hop is None else min(v.hop, MOST_RINGS) for v in found.drawn]
    rings = [[i for i, step in enumerate(steps) if i and step == ring] for ring in range(1, MOST_RINGS + 1)]
    return [ring for ring in rings if ring]


def _placed(
    found: Explanation, rings: list[list[int]], radii: list[float]
) -> tuple[list[tuple[float, float]], list[float]]:
    """Where each node is, the middle being (0, 0), and the radii of the rings.

    A ring is wide enough for its nodes, which are spread evenly in the order of the nodes further in that they touch.
    """
    angles: dict[int, float] = {}
    places, circles, circle = [(0.0, 0.0)] * len(found.drawn), [], 0.0
    near: dict[int, list[int]] = {}
    for a, b in found.edges:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    for ring in rings:
        inner = {i: [angles[j] for j in near.get(i, ()) if j in angles] for i in ring}
        wish = {i: _mean_angle(inner[i]) for i in ring}
        order = sorted(ring, key=lambda i: (wish[i], found.drawn[i].labels, i))
        around = sum(2 * radii[i] + GAP for i in order)
        circle = max(circle + RING, around / math.tau)
        circles.append(circle)
        spare = (math.tau * circle - around) / len(order)
        at = 0.0
        for i in order:
            width = (2 * radii[i] + GAP + spare) / circle
            angles[i] = at + width / 2
            at += width
        turn = _mean_angle([wish[i] - angles[i] for i in order if inner[i]])
        for i in order:
            angles[i] += turn
            places[i] = circle * math.cos(angles[i]), circle * math.sin(angles[i])
    return places, circles


def _mean_angle(angles: Sequence[float]) -> float:
    """The mean direction, from 0 to a whole turn; 0 without any."""
    return math.atan2(sum(map(math.sin, angles)), sum(map(math.cos, angles))) % math.tau


def _title(node: Neighbour, found: Explanation) -> str:
    label = ", ".join(node.labels) or "not known"
    steps = "the node itself" if node.hop == 0 else "far" if node.hop is None else counted(node.hop, "step")
    return f"{node}: {node.contribution:+.3f} for {found.class_}; weight {node.weight:.3g}, {steps}, label {label}"


def _add_legend(
    found: Explanation, colours: dict[str, str], rings: list[list[int]], width: float, font: float, discs: list[Disc],
    texts: list[Text],
) -> float:  # fmt: skip
    """Add what colours and shapes mean below the picture; returns the height of all."""
    named = [(name, colour) for name, colour in colours.items() if colour != OTHER_COLOUR]
    named += [(OTHERS, OTHER_COLOUR)] if OTHER_COLOUR in colours.values() else []
    entries = [(colour, True, name if name in (OTHERS, UNKNOWN) else f"label {name}") for name, colour in named]
    entries += [("quiet", True, f"for {found.class_}"), ("quiet", False, f"against {found.class_}")]
    line, left = 1.55 * font, 0.8 * font
    for place, (colour, filled, name) in enumerate(entries):
        x, y = left + (place % 2) * width / 2, width + (place // 2 + 0.5) * line
        discs.append(Disc(x + 0.4 * font, y - 0.35 * font, 0.4 * font, colour, filled, ""))
        texts.append(Text(x + 1.2 * font, y, name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"))
    y = width + ((len(entries) + 1) // 2 + 0.5) * line
    for words in _words(found, rings):
        texts.append(Text(left, y, words))
        y += line
    return y


def _words(found: Explanation, rings: list[list[int]]) -> list[str]:
    steps = [found.drawn[ring[0]].hop for ring in rings]
    shown = ", ".join(f"{step}" if step and step < MOST_RINGS else f"{MOST_RINGS} or more" for step in steps)
    words = [f"Rings: {shown} {'step' if shown == '1' else 'steps'} away. Size: what it adds."] if rings else []
    hidden = found.rest.count + len(found.neighbours) - len(found.drawn)
    return [*words, *([f"{counted(hidden, 'more neighbour')} not drawn."] if hidden > 0 else [])]


# ---------------------------------------------------------------------- SVG and PNG


def svg(found: Explanation) -> str:
    """An ``<svg>`` whose colours the page around it sets."""
    made = picture(found)
    middle = made.width / 2
    parts = [f'<circle cx="{middle:.1f}" cy="{middle:.1f}" r="{r:.1f}" class="ring"/>' for r in made.rings]
    for start, end in made.lines:
        parts.append(f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>')
    for disc in made.discs:
        colour = f"var(--{disc.colour})" if disc.colour in LIGHT else disc.colour
        title = f"<title>{escape(disc.title)}</title>" if disc.title else ""
        parts.append(
            f'<circle cx="{disc.x:.1f}" cy="{disc.y:.1f}" r="{disc.radius - disc.outline / 2:.1f}" stroke="{colour}" '
            f'stroke-width="{disc.outline}" fill="{colour if disc.filled else "var(--ground)"}">{title}</circle>'
        )
    for text in made.texts:
        anchor = ' text-anchor="middle"' if text.middle else ""
        parts.append(f'<text x="{text.x:.1f}" y="{text.y:.1f}"{anchor}>{escape(text.words)}</text>')
    style = (
        ".why line{stroke:var(--quiet);stroke-opacity:.4}"
        ".why .ring{stroke:var(--rule);fill:none;stroke-dasharray:2 5}.why text{fill:var(--ink);"
        "stroke:var(--ground);stroke-width:.22em;stroke-linejoin:round;paint-order:stroke;font-family:system-ui,"
        f"Roboto,Arial,sans-serif;font-size:{made.font:.1f}px}}.why{{--unknown:{LIGHT['unknown']}}}"
    )
    label = escape(f"What neighbours of {found} add for {found.class_}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="why" viewBox="0 0 {made.width:.0f} {made.height:.0f}" '
        f'role="img" aria-label="{label}"><style>{style}</style>{"".join(parts)}</svg>'
    )


def standalone_svg(found: Explanation) -> str:
    """A file of its own, for light and dark."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    style = f"svg{{{light};background:var(--ground)}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    return svg(found).replace("<style>", f"<style>{style}", 1) + "\n"


def png(found: Explanation) -> bytes:
    """The same picture, by matplotlib."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle
        from matplotlib.patheffects import withStroke
    except ImportError as error:
        raise InputError(
            "matplotlib is not installed, and a PNG needs it: pip install 'nodewise[report]', or write an .svg file"
        ) from error
    made = picture(found)
    inch = 72.0  # points: one unit of the picture is a point
    figure = Figure(figsize=(made.width / inch, made.height / inch), facecolor=LIGHT["ground"])
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, made.width), ylim=(made.height, 0))
    axes.set_axis_off()
    for radius in made.rings:
        axes.add_patch(Circle((made.width / 2, made.width / 2), radius, fill=False, ec=LIGHT["rule"], ls=":"))
    for start, end in made.lines:
        axes.plot(*zip(start, end, strict=True), color=LIGHT["quiet"], alpha=0.4, lw=1, zorder=1)
    for disc in made.discs:
        colour = LIGHT.get(disc.colour, disc.colour)
        face = colour if disc.filled else LIGHT["ground"]
        axes.add_patch(
            Circle((disc.x, disc.y), disc.radius - disc.outline / 2, ec=colour, lw=disc.outline, fc=face, zorder=2)
        )
    halo = [withStroke(linewidth=0.22 * made.font, foreground=LIGHT["ground"])]
    for text in made.texts:
        place: dict[str, Any] = {"ha": "center" if text.middle else "left", "va": "baseline", "parse_math": False}
        axes.text(
            text.x, text.y, text.words, fontsize=made.font, color=LIGHT["ink"], path_effects=halo, zorder=3, **place
        )
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=2 * inch, metadata={"Software": None})
    return stream.getvalue()
