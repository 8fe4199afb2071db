"""The picture of a study: the score of each trial, and the scores against each parameter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodewise._util.plotting import BLUE, GREY, VERMILLION, save_picture
from nodewise.tune.space import CHOICES, NAMES, NUMBERS, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nodewise.tune.study import Tuned

COLUMNS = 3


def draw(tuned: Tuned, path: Path) -> bool:
    """Write the picture; False if matplotlib is missing, which is logged."""
    return save_picture(lambda: make_figure(tuned), path, "tune")


def make_figure(tuned: Tuned) -> Figure:
    """At the top, the trials in order with the best so far; below, the score against each parameter."""
    from matplotlib.figure import Figure

    rows = -(-len(NAMES) // COLUMNS)
    figure = Figure(figsize=(9, 3.2 + 2.1 * rows), dpi=130, layout="constrained")
    grid = figure.add_gridspec(1 + rows, COLUMNS, height_ratios=[1.6, *[1] * rows])
    _history(figure.add_subplot(grid[0, :]), tuned)
    for i, name in enumerate(NAMES):
        _slice(figure.add_subplot(grid[1 + i // COLUMNS, i % COLUMNS]), tuned, name)
    return figure


def _history(axes: Any, tuned: Tuned) -> None:
    whole, given_up = ([t for t in tuned.trials if t.given_up is flag] for flag in (False, True))
    if given_up:
        axes.plot([t.number for t in given_up], [100 * t.value for t in given_up], "x", color=GREY, label="given up")
    axes.plot([t.number for t in whole], [100 * t.value for t in whole], "o", color=BLUE, ms=4, label="trial")
    best = np.maximum.accumulate([100 * t.value for t in whole])
    axes.step([t.number for t in whole], best, where="post", color=VERMILLION, label="best so far")
    axes.axhline(100 * tuned.trials[0].value, color=GREY, lw=1, ls="--", label="default")
    _frame(axes, tuned)
    axes.set(xlabel="trial", ylabel="validation micro-F1, %")
    gain = "better than the default" if tuned.is_better else "no measurable gain over the default"
    title = f"{tuned.dataset}: {len(tuned.trials)} trials, best {100 * tuned.best.value:.2f}% ({gain})"
    axes.set_title(title, fontsize=11)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="lower right", fontsize=8, framealpha=0.9)


def _slice(axes: Any, tuned: Tuned, name: str) -> None:
    whole, given_up = ([t for t in tuned.trials if t.given_up is flag] for flag in (False, True))
    for trials, mark, colour in ((given_up, "x", GREY), (whole, "o", BLUE), ([tuned.best], "D", VERMILLION)):
        values = [within(trial.point)[name] for trial in trials]
        x = [CHOICES[name].index(value) for value in values] if name in CHOICES else values
        axes.plot(x, [100 * trial.value for trial in trials], mark, color=colour, ms=4)
    if name in NUMBERS:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter("")
    if name in CHOICES:
        axes.set_xticks(range(len(CHOICES[name])), [_word(value) for value in CHOICES[name]])
        axes.margins(x=0.2)
    _frame(axes, tuned)
    axes.set_xlabel(name.replace("_", " "), fontsize=9)
    axes.tick_params(labelsize=8)


def _frame(axes: Any, tuned: Tuned) -> None:
    """Limits from the trials that matter: a very bad one would squeeze all others together."""
    values = 100 * np.array([trial.value for trial in tuned.trials])
    low = max(values.min(), np.median(values) - 3 * (values.max() - np.median(values)) - 1)
    margin = 0.5 + 0.06 * (values.max() - low)
    axes.set_ylim(low - margin, values.max() + margin)
    axes.grid(color="#e6e8eb", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _word(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
