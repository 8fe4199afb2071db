"""Table 1 measured: how the cost of each method grows with the graph while the targets stay the same."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nodewise.diffusion.length import diffusion_lengths
from nodewise.graph import synthetic
from nodewise.graph.splits import random_splits
from nodewise.lab.compare import Comparison, MethodRow
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import draw_line, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Best, Cell, Column, Figure, Result, Table
from nodewise.lab.paper.runs import compared, f1_cell, row_of
from nodewise.lab.paper.subjects import CONVENTION, PER_CLASS, TEST, VAL, labels_of, nigcn_settings
from nodewise.store import is_store, write_store

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
QUICK_MOST = 1_000_000
METHODS = ("SGC", "PPRGo", "GBP", "AGP", "NIGCN")
DEGREE, FEATURES, CLASSES = 15, 32, 10
REPEATS = 3  # the fastest one counts
LIKE = "papers100M"  # whose hyper-parameters NIGCN takes


class Growth(NamedTuple):
    """What the methods took on a graph of ``nodes`` nodes; ``hops``: the median length of the targets."""

    nodes: int
    hops: float
    found: Comparison

    def row(self, method: str) -> MethodRow:
        return row_of(self.found, method)

    def preparation(self, method: str) -> float | None:
        return min((s.preparation_seconds for s in self.row(method).splits), default=None)

    def seconds(self, method: str) -> float | None:
        return min((s.preparation_seconds + s.train_seconds for s in self.row(method).splits), default=None)

    def memory(self, method: str) -> float | None:
        row = self.row(method)
        return None if row.peak_memory is None or not row.splits else row.peak_memory / 1e9

    def f1(self, method: str) -> Cell:
        return f1_cell(self.row(method))


def run(context: Context) -> Result:
    grown: list[Growth] = []
    left: tuple[str, ...] = METHODS
    for nodes in (size for size in SIZES if not context.quick or size <= QUICK_MOST):
        grown.append(_grow(nodes, left, context))
        left = tuple(method for method in left if grown[-1].row(method).complete)
    slopes = {method: slope([(g.nodes, g.preparation(method)) for g in grown]) for method in METHODS}
    note = "Includes Python, libraries and the pages of the mapped graph."
    return Result(
        sentences=_sentences(grown, slopes),
        tables=[
            _growth_table(grown, slopes),
            _table("Peak memory, GB", grown, Growth.memory, "min", note),
            _table("What the seconds bought: F1, %", grown, Growth.f1, "max"),
            _paper_table(),
        ],
        figures=[_figure(grown)],
        ran_on=[
            f"synthetic graphs of {grown[0].nodes:,} to {grown[-1].nodes:,} nodes, average degree {DEGREE}, {FEATURES} "
            f"features, {CLASSES} classes; {PER_CLASS} per class to train, {VAL} to validate, {TEST:,} to test at each "
            f"size; each method in its own process, the graph a mapped file; NIGCN by walks with the paper's "
            f"hyper-parameters of {LIKE}, the others with their defaults"
        ],
    )


def _grow(nodes: int, methods: tuple[str, ...], context: Context) -> Growth:
    """Time the methods on one graph, which is deleted afterwards: the largest takes gigabytes."""
    context.say(f"complexity: a graph of {nodes:,} nodes")
    folder = context.output / "graphs" / f"growth-{nodes}-{context.seed}"
    graph = synthetic.dcsbm(nodes, DEGREE, CLASSES, features=FEATURES, seed=context.seed, threads=context.threads)
    splits = random_splits(labels_of(graph), REPEATS, PER_CLASS, VAL, TEST, context.seed)
    params = {**nigcn_settings(LIKE), "engine": "walks", "weight_decay": 5e-3}
    lengths = diffusion_lengths(graph, np.concatenate(splits[0]), params["tau"], CONVENTION)
    try:
        if not is_store(folder):
            write_store(graph, folder)
        del graph  # the methods run in processes of their own, and need the memory
        found = compared(f"growth-{nodes}", str(folder), methods, splits, context, settings={"NIGCN": params})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Growth(nodes, float(np.median(lengths)), found)


def slope(points: list[tuple[int, float | None]]) -> float | None:
    """The exponent ``b`` of ``seconds ~ nodes^b``, by least squares over the logarithms.

    >>> round(slope([(10, 1.0), (100, 10.0), (1000, 100.0)]), 6)
    1.0
    """
    known = np.array([(math.log(nodes), math.log(value)) for nodes, value in points if value])
    return float(np.polyfit(known[:, 0], known[:, 1], 1)[0]) if len(known) > 1 else None


def _sentences(grown: list[Growth], slopes: dict[str, float | None]) -> list[str]:
    first, last = grown[0], grown[-1]
    said = [
        f"{method}: preparation grows as nodes^{exponent:.2f}: {_in_words(exponent)}."
        if exponent is not None and first.preparation(method) is not None
        else f"{method}: too few sizes finished to tell how it grows."
        for method, exponent in slopes.items()
    ]
    a, b = first.preparation("NIGCN"), last.preparation("NIGCN")
    if a and b:
        said.append(
            f"NIGCN: a graph {last.nodes / first.nodes:.0f} times as large takes {b / a:.1f} times the preparation "
            f"({a:.2f} s, then {b:.2f} s), with the same targets; their median length "
            f"goes from {first.hops:g} to {last.hops:g} hops."
        )
    return said + [f"{r.method} at {g.nodes:,} nodes: {r.note}." for g in grown for r in g.found.rows if r.note]


def _in_words(exponent: float) -> str:
    if exponent < 0.25:
        return "hardly with the graph"
    return "about in proportion to the graph" if exponent > 0.75 else "with the graph, but less than in proportion"


def _growth_table(grown: list[Growth], slopes: dict[str, float | None]) -> Table:
    columns = [Column("method")]
    for growth in grown:
        group = f"{growth.nodes:,} nodes"
        columns += [Column("preparation", ".2f", group, best="min"), Column("in all", ".2f", group, best="min")]
    columns.append(Column("exponent", ".2f", "preparation"))
    rows: list[list[Cell]] = [
        [method, *(time for g in grown for time in (g.preparation(method), g.seconds(method))), slopes[method]]
        for method in METHODS
    ]
    note = (
        f"Seconds of the fastest of {REPEATS} splits; exponent b of seconds ~ nodes^b: 1 is proportional to the graph."
    )
    return Table("Seconds as the graph grows", columns, rows, note)


def _table(title: str, grown: list[Growth], read: Callable[[Growth, str], Cell], best: Best, note: str = "") -> Table:
    """One column per size of the graph."""
    columns = [Column("method"), *(Column(f"{g.nodes:,} nodes", ".2f", best=best) for g in grown)]
    return Table(title, columns, [[method, *(read(g, method) for g in grown)] for method in METHODS], note)


def _paper_table() -> Table:
    table = facts("complexity")
    columns = [Column("method"), *(Column(name) for name in table["columns"])]
    rows: list[list[Cell]] = [
        [method, *(f"O({cost})" if cost else "–" for cost in costs)] for method, costs in table["rows"].items()
    ]
    note = "T: the targets; n nodes, m edges, f features, L hops."
    return Table(f"What the paper derives ({table['source']})", columns, rows, note)


def _figure(grown: list[Growth]) -> Figure:
    nodes = [float(g.nodes) for g in grown]

    def draw(times: Any, memory: Any) -> None:
        for method in METHODS:
            draw_line(times, method, nodes, [g.preparation(method) for g in grown])
            draw_line(memory, method, nodes, [g.memory(method) for g in grown])
        for axis, title in ((times, "Preparation, seconds"), (memory, "Peak memory, GB")):
            axis.set_title(title)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("nodes")
        times.legend()

    return Figure("complexity", picture(draw, columns=2, height=3.6), "The same targets on graphs of growing size.")
