"""The picture of a comparison: score against seconds, one point per method, each with its name beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodewise._util.plotting import BLUE, GREY, VERMILLION, save_picture
from nodewise.lab.compare.results import Comparison, MethodRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "NIGCN"
DIRECTIONS = 16  # in which a name may lie from its point
DISTANCES = (9, 14, 20, 28, 38, 50, 64)  # in points; names from the second on get a line to their point
LEADER = DISTANCES[1]


def draw(comparison: Comparison, path: Path) -> bool:
    """Write the picture; False if matplotlib is missing (which is logged) or no method has a score."""
    rows = [row for row in comparison.rows if row.test_f1_mean is not None]
    return bool(rows) and save_picture(lambda: make_figure(comparison, rows), path, "baselines")


def make_figure(comparison: Comparison, rows: list[MethodRow]) -> Figure:
    """The picture of these ``rows``, made without pyplot, which belongs to the user."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(8, 5.2), dpi=150, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for row in rows:
        _plot(axes, row)
    _dress(axes, comparison, rows)
    canvas.draw()  # settles the layout, which the names need
    figure.set_layout_engine("none")
    _name_points(axes, rows)
    return figure


def _point(row: MethodRow) -> tuple[float, float, float]:
    """Seconds; score and its standard deviation in percent."""
    return max(row.seconds or 0.0, 1e-3), 100 * (row.test_f1_mean or 0.0), 100 * (row.test_f1_std or 0.0)


def _plot(axes: Any, row: MethodRow) -> None:
    seconds, score, spread = _point(row)
    ours = row.method == OURS
    axes.errorbar(
        [seconds],
        [score],
        yerr=[spread] if len(row.splits) > 1 else None,
        fmt="D" if ours else "o",
        markersize=8 if ours else 6,
        color=VERMILLION if ours else BLUE,
        markerfacecolor=None if row.complete else "white",  # open: not all splits
        ecolor=VERMILLION if ours else GREY,
        elinewidth=1.4 if ours else 0.9,
        capsize=2.5,
        zorder=3 if ours else 2,
    )


def _dress(axes: Any, comparison: Comparison, rows: list[MethodRow]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    seconds = [_point(row)[0] for row in rows]
    least, most = min(seconds), max(seconds)
    room = 10**0.2 * (most / least) ** 0.08  # on both sides; however narrow, a 1, 2 or 5 has its tick there
    axes.set_xlim(least / room, most * room)
    narrow = most < 10 * least
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.margins(y=0.14)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("preparation and training, seconds per split (logarithmic)")
    axes.set_ylabel("test micro-F1, %")
    splits = comparison.splits
    parts = [f"mean of {splits} splits ± standard deviation" if splits > 1 else "one split"]
    parts += ["inductive"] if comparison.inductive else []
    parts += [] if all(row.complete for row in rows) else ["open points: not all splits"]
    axes.set_title(f"{comparison.dataset}: {', '.join(parts)}", loc="left", fontsize=11)
    axes.grid(color="#e5e7eb", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


# ---------------------------------------------------------------------- names that do not overlap


def _name_points(axes: Any, rows: list[MethodRow]) -> None:
    """Put each name at the nearest place where it touches no point, no other name and no edge of the picture.

    Points in a crowd choose first, for they have the fewest places.
    """
    from matplotlib.transforms import Bbox

    places = [axes.transData.transform(_point(row)[:2]) for row in rows]
    size = 7 * axes.figure.dpi / 72
    taken = [Bbox.from_bounds(x - size, y - size, 2 * size, 2 * size) for x, y in places]
    for seconds, score, spread in map(_point, rows):  # the error bars
        (x, low), (_, high) = (axes.transData.transform((seconds, score + side * spread)) for side in (-1, 1))
        taken.append(Bbox.from_extents(x - size / 4, low, x + size / 4, high))
    for index in sorted(range(len(rows)), key=lambda i: sum(math.dist(places[i], other) for other in places)):
        taken.append(_put_name(axes, rows[index], taken))


def _put_name(axes: Any, row: MethodRow, taken: list[Any]) -> Any:
    """Write a name where it overlaps least with the boxes that are ``taken``, and return its own box."""
    point, ours = _point(row)[:2], row.method == OURS
    name = axes.annotate(
        row.method,
        point,
        xytext=(0, 0),
        textcoords="offset points",
        fontsize=10.5 if ours else 9,
        fontweight="bold" if ours else "normal",
        color=VERMILLION if ours else "#1f2937",
        zorder=4,
    )

    def overlap(spot: tuple[tuple[float, float], dict[str, str]]) -> float:
        name.set(position=spot[0], **spot[1])
        box = name.get_window_extent().padded(3)
        outside = float(box.width * box.height) - _shared(box, axes.bbox)
        return sum(_shared(box, other) for other in taken) + outside

    spots = list(_offsets())
    offset, aligned = next((spot for spot in spots if overlap(spot) == 0), None) or min(spots, key=overlap)
    name.set(position=offset, **aligned)
    if math.hypot(*offset) >= LEADER:
        arrow = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        axes.annotate("", point, xytext=offset, textcoords="offset points", arrowprops=arrow, zorder=1)
    return name.get_window_extent().padded(3)


def _offsets() -> Iterator[tuple[tuple[float, float], dict[str, str]]]:
    """Places around a point, nearest first, and how a name is aligned there: right and left of the point come first."""
    turns = sorted(range(DIRECTIONS), key=lambda k: (abs(math.sin(2 * math.pi * k / DIRECTIONS)), k))
    for distance in DISTANCES:
        for turn in turns:
            x, y = math.cos(2 * math.pi * turn / DIRECTIONS), math.sin(2 * math.pi * turn / DIRECTIONS)
            across = "left" if x > 0.3 else "right" if x < -0.3 else "center"
            along = "bottom" if y > 0.3 else "top" if y < -0.3 else "center"
            yield (distance * x, distance * y), {"ha": across, "va": along}


def _shared(a: Any, b: Any) -> float:
    """The area that two boxes share."""
    both = a.intersection(a, b)
    return 0.0 if both is None else float(both.width * both.height)
