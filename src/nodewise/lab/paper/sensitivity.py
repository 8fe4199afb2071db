"""Figure 5: what happens to F1 as tau, or epsilon, is a quarter to four times the chosen one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodewise.lab.paper.context import Context
from nodewise.lab.paper.plotting import BLUE, GREY, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table
from nodewise.lab.paper.variants import Ground, grounds, percent, seconds_of
from nodewise.lab.paper.words import mean_and_spread


class Point(NamedTuple):
    multiple: float
    value: float
    scores: list[float]
    seconds: float
    kept: float


def run(context: Context) -> Result:
    tables, figures, sentences, ran_on = [], [], [], []
    for ground in grounds(context):
        curves = {name: _curve(ground, name, context) for name in facts("sensitivity")["rows"]}
        tables.append(_table(ground, curves))
        figures.append(_figure(ground, curves))
        sentences += [_sentence(ground, name, points) for name, points in curves.items()] + [_compared(ground, curves)]
        ran_on.append(ground.ran_on)
    return Result(sentences, tables, figures, ran_on)


def _curve(ground: Ground, name: str, context: Context) -> list[Point]:
    points = []
    for multiple in facts("sensitivity")["columns"]:
        value = multiple * ground.settings[name]
        found, kept = ground.try_variant({name: value})
        points.append(Point(multiple, value, percent(found), seconds_of(found), kept))
        context.say(f"{ground.name}, {name} x {multiple:g}: F1 {np.mean(points[-1].scores):.2f}%")
    return points


def _range(points: list[Point]) -> float:
    means = [float(np.mean(point.scores)) for point in points]
    return max(means) - min(means)


def _sentence(ground: Ground, name: str, points: list[Point]) -> str:
    best = max(points, key=lambda point: float(np.mean(point.scores)))
    chosen = next(point for point in points if point.multiple == 1)
    spread = float(np.std(chosen.scores))
    gain = float(np.mean(best.scores) - np.mean(chosen.scores))
    verdict = "the chosen value is the best of the five"
    if best is not chosen:
        beyond = "more than" if gain > spread else "within"
        verdict = (
            f"{best.multiple:g} times the chosen value is best, by {gain:.2f} points "
            f"({beyond} one standard deviation, {spread:.2f})"
        )
    return f"{ground.name}: over all {name} F1 moves by {_range(points):.2f} points; {verdict}."


def _compared(ground: Ground, curves: dict[str, list[Point]]) -> str:
    wider = max(curves, key=lambda name: _range(curves[name]))
    rows = facts("sensitivity")["rows"]
    in_paper = max(rows, key=lambda name: max(rows[name]) - min(rows[name]))
    agrees = "as" if wider == in_paper else "unlike"
    return f"{ground.name}: F1 depends more on {wider}, {agrees} in the paper, where it depends more on {in_paper}."


def _table(ground: Ground, curves: dict[str, list[Point]]) -> Table:
    columns = [
        Column("parameter"), Column("times", "g"), Column("value", "g"), Column("paper", ".2f"), Column("here", ".2f"),
        Column("seconds", ".2f"), Column("neighbours kept", ",.0f"),
    ]  # fmt: skip
    known = ground.subject.name == facts("sensitivity")["dataset"]
    rows: list[list[Cell]] = []
    for name, points in curves.items():
        there = facts("sensitivity")["rows"][name]
        for point, reported in zip(points, there, strict=True):
            score = mean_and_spread(point.scores)
            rows.append(
                [name, point.multiple, point.value, reported if known else None, score, point.seconds, point.kept]
            )
    title = f"F1 against tau and epsilon on {ground.name} ({facts('sensitivity')['source']})"
    return Table(title, columns, rows, "Micro-F1 in percent; seconds of one split; engine walks.")


def _figure(ground: Ground, curves: dict[str, list[Point]]) -> Figure:
    def draw(*axes: Any) -> None:
        for axis, (name, points) in zip(axes, curves.items(), strict=True):
            x = [point.multiple for point in points]
            means, spreads = [np.mean(p.scores) for p in points], [np.std(p.scores) for p in points]
            axis.errorbar(x, means, spreads, color=BLUE, marker="o", capsize=3, label="here")
            if ground.subject.name == facts("sensitivity")["dataset"]:
                axis.plot(x, facts("sensitivity")["rows"][name], "o--", mfc="white", color=GREY, label="paper, Amazon")
            axis.set_xscale("log", base=2)
            axis.set_xticks(x, [f"{m:g}" for m in x])
            axis.set_xlabel(f"{name}, times the chosen {ground.settings[name]:g}")
            axis.set_title(name)
        axes[0].set_ylabel("F1, %")
        axes[0].legend()

    caption = f"{ground.subject.ran_on}. As {facts('sensitivity')['source']} of the paper."
    return Figure(f"sensitivity-{ground.subject.name}", picture(draw, columns=2), caption)
