"""The charts of a report: SVG by matplotlib, whose colours the page sets, so that they suit light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from nodewise._util.errors import InputError
from nodewise._util.page import seen
from nodewise.report.findings import Share

# matplotlib draws with these; the page knows what they are.
COLOURS = {"#010101": "var(--ink)", "#020202": "var(--quiet)", "#030303": "var(--rule)", "#040404": "var(--accent)"}
INK, QUIET, RULE, ACCENT = COLOURS
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
WIDTH = 4.6  # inches: a phone's width, and half of a desktop page


def chart(draw: Callable[[Any], None], title: str, height: float) -> str:
    """An ``<svg>`` of what ``draw`` puts on one pair of axes; ``title`` is read out to those who cannot see it."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "matplotlib is not installed, and a report needs it: pip install 'nodewise[report]'"
        ) from error
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.subplots())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', svg, count=1
    )
    for drawn, meant in COLOURS.items():
        svg = svg.replace(drawn, meant)
    return svg


def bars(title: str, names: Sequence[str], values: Sequence[float], xlabel: str) -> str:
    """Horizontal bars, the first on top, each with its number."""

    def draw(axis: Any) -> None:
        places = range(len(names))
        axis.barh(places, values, color=ACCENT, height=0.7)
        axis.set_yticks(places, [_short(name) for name in names], parse_math=False)  # a $ in a name is a $
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(xlabel)
        for place, value in zip(places, values, strict=True):
            axis.annotate(f" {value:,.0f}", (value, place), va="center", fontsize=8, color=QUIET)
        axis.margins(x=0.15)

    return chart(draw, title, 0.9 + 0.24 * max(4, len(names)))


def shares(title: str, found: Sequence[Share], xlabel: str) -> str:
    """A point with its interval for each share, the number of nodes beside its name."""

    def draw(axis: Any) -> None:
        places = range(len(found))
        values = [100 * one.value for one in found]
        reach = [[100 * (one.value - one.low) for one in found], [100 * (one.high - one.value) for one in found]]
        axis.errorbar(values, places, xerr=reach, fmt="o", color=ACCENT, ecolor=ACCENT, elinewidth=2, markersize=5)
        axis.set_yticks(places, [f"{one.name} ({one.count:,})" for one in found])
        axis.set_ylim(len(found) - 0.5, -0.5)
        axis.set_xlim(0, 102)
        axis.set_xlabel(xlabel)

    return chart(draw, title, 0.9 + 0.3 * max(3, len(found)))


def calibration(title: str, found: Sequence[Share]) -> str:
    """Confidence against the share that is right; on the diagonal, probabilities are true."""

    def draw(axis: Any) -> None:
        axis.plot([0, 100], [0, 100], color=QUIET, linewidth=1, linestyle="--")
        x = [100 * float(one.expected or 0) for one in found]
        reach = [[100 * (one.value - one.low) for one in found], [100 * (one.high - one.value) for one in found]]
        axis.errorbar(
            x, [100 * one.value for one in found], yerr=reach, fmt="o", color=ACCENT, elinewidth=2, markersize=5
        )
        axis.set_xlim(0, 102)
        axis.set_ylim(0, 102)
        axis.set_xlabel("the model's probability, %")
        axis.set_ylabel("right, %")

    return chart(draw, title, 3.4)


def _short(name: str, most: int = 24) -> str:
    return seen(name if len(name) <= most else f"{name[: most - 1]}…")
