"""The pictures of the experiments: one style for all, and one colour per method."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from nodewise._util.errors import InputError
from nodewise._util.plotting import BLUE, GREY

ORANGE, GREEN, PINK, SKY = "#e69f00", "#009e73", "#cc79a7", "#56b4e9"  # with BLUE, of Okabe and Ito's colours
# Each method has the same colour and marker in every picture.
LOOKS = {
    "NIGCN": (BLUE, "o"), "PPRGo": (ORANGE, "s"), "GBP": (GREEN, "^"), "AGP": (PINK, "D"), "SGC": (SKY, "v"),
}  # fmt: skip
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b626d",
    "axes.labelcolor": "#2b3038",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.8,
    "xtick.color": "#5b626d",
    "ytick.color": "#5b626d",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "savefig.dpi": 160,
}


def check_matplotlib() -> None:
    """Raise if it is missing: before hours of work, not after."""
    if find_spec("matplotlib") is None:
        raise InputError("matplotlib is not installed, and the figures need it: pip install 'nodewise[baselines]'")


def picture(draw: Callable[..., None], columns: int = 1, height: float = 3.2) -> bytes:
    """A PNG of what ``draw`` puts on this many axes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
        draw(*axes)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def draw_line(axis: Any, name: str, x: list[float], y: list[float | None]) -> None:
    """A method's line in its own colour, with gaps where it has no number."""
    colour, marker = LOOKS.get(name, (GREY, "o"))
    drawn = [float("nan") if value is None else value for value in y]
    axis.plot(x, drawn, marker=marker, color=colour, zorder=3 if name == "NIGCN" else 2, label=name)
