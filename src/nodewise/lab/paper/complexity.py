"""Table 1, put to the test: how the cost of a method grows as the graph does and its targets do not."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise.diffusion.length import diffusion_lengths
from nodewise.graph import synthetic
from nodewise.graph.splits import random_splits
from nodewise.lab.compare import Comparison, MethodRow
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.plotting import draw_line, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table
from nodewise.lab.paper.runs import compared, f1_cell
from nodewise.lab.paper.subjects import CONVENTION, PER_CLASS, TEST, VAL, labels_of, nigcn_settings
from nodewise.store import is_store, write_store

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
QUICK_MOST = 1_000_000
METHODS = ("SGC", "PPRGo", "GBP", "AGP", "NIGCN")
DEGREE, FEATURES, CLASSES = 15, 32, 10
REPEATS = 3  # the least of so many is the time of a method
LIKE = "papers100M"  # whose hyper-parameters NIGCN takes


class Growth(NamedTuple):
    """What the methods took on a graph of so many nodes."""

    nodes: int
    hops: float
    found: Comparison

    def row(self, method: str) -> MethodRow | None:
        return next((row for row in self.found.rows if row.method == method), None)

    def preparation(self, method: str) -> float | None:
        row = self.row(method)
        return min((s.preparation_seconds for s in row.splits), default=None) if row else None

    def seconds(self, method: str) -> float | None:
        row = self.row(method)
        return min((s.preparation_seconds + s.train_seconds for s in row.splits), default=None) if row else None

    def memory(self, method: str) -> float | None:
        row = self.row(method)
        return None if row is None or row.peak_memory is None or not row.splits else row.peak_memory / 1e9


def run(context: Context) -> Result:
    grown: list[Growth] = []
    left: tuple[str, ...] = METHODS
    for nodes in (size for size in SIZES if not context.quick or size <= QUICK_MOST):
        grown.append(_grow(nodes, left, context))
        left = tuple(m for m in left if (row := grown[-1].row(m)) is not None and row.complete)
    slopes = {method: slope([(g.nodes, g.preparation(method)) for g in grown]) for method in METHODS}
    return Result(
        sentences=_sentences(grown, slopes),
        tables=[_growth_table(grown, slopes), _memory_table(grown), _f1_table(grown), _paper_table()],
        figures=[_figure(grown)],
        ran_on=[
            f"synthetic graphs of {grown[0].nodes:,} to {grown[-1].nodes:,} nodes, average degree {DEGREE}, {FEATURES} "
            f"features, {CLASSES} classes; {PER_CLASS} a class to train, {VAL} to validate, {TEST:,} to test at every "
            f"size; each method in its own process, the graph a mapped file; NIGCN by walks with the paper's "
            f"hyper-parameters of {LIKE}, the others by their defaults"
        ],
    )


def _grow(nodes: int, methods: tuple[str, ...], context: Context) -> Growth:
    """Time the methods on one graph, which is deleted afterwards: the largest takes gigabytes."""
    folder = context.output / "graphs" / f"growth-{nodes}-{context.seed}"
    try:
        return _timed(folder, nodes, methods, context)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _timed(folder: Path, nodes: int, methods: tuple[str, ...], context: Context) -> Growth:
    context.say(f"complexity: a graph of {nodes:,} nodes")
    graph = synthetic.dcsbm(nodes, DEGREE, CLASSES, features=FEATURES, seed=context.seed, threads=context.threads)
    if not is_store(folder):
        write_store(graph, folder)
    splits = random_splits(labels_of(graph), REPEATS, PER_CLASS, VAL, TEST, context.seed)
    params = {**nigcn_settings(LIKE), "engine": "walks", "weight_decay": 5e-3}
    lengths = diffusion_lengths(graph, np.concatenate(splits[0]), params["tau"], CONVENTION)
    del graph  # the methods run in processes of their own, and need the memory
    found = compared(f"growth-{nodes}", str(folder), methods, splits, context, settings={"NIGCN": params})
    return Growth(nodes, float(np.median(lengths)), found)


def slope(points: list[tuple[int, float | None]]) -> float | None:
    """The exponent ``b`` of ``seconds ~ nodes^b``, by least squares over the logarithms.

    >>> round(slope([(10, 1.0), (100, 10.0), (1000, 100.0)]), 6)
    1.0
    """
    known = np.array([(math.log(nodes), math.log(value)) for nodes, value in points if value])
    return float(np.polyfit(known[:, 0], known[:, 1], 1)[0]) if len(known) > 1 else None


def _sentences(grown: list[Growth], slopes: dict[str, float | None]) -> list[str]:
    said = []
    first, last = grown[0], grown[-1]
    for method, exponent in slopes.items():
        times = [g.preparation(method) for g in grown]
        if exponent is None or times[0] is None:
            said.append(f"{method}: too few sizes finished to tell how it grows.")
            continue
        said.append(f"{method}: preparation grows as nodes^{exponent:.2f}: {_in_words(exponent)}.")
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
    rows: list[list[Cell]] = []
    for method in METHODS:
        times: list[Cell] = [value for g in grown for value in (g.preparation(method), g.seconds(method))]
        rows.append([method, *times, slopes[method]])
    note = (
        f"Seconds, the least of {REPEATS} splits; the exponent b of seconds ~ nodes^b is 1 in proportion to the graph."
    )
    return Table("Seconds as the graph grows", columns, rows, note)


def _memory_table(grown: list[Growth]) -> Table:
    columns = [Column("method"), *(Column(f"{g.nodes:,} nodes", ".2f", best="min") for g in grown)]
    rows: list[list[Cell]] = [[method, *(g.memory(method) for g in grown)] for method in METHODS]
    return Table("Most memory held, GB", columns, rows, "Python, libraries and the pages of the mapped graph included.")


def _f1_table(grown: list[Growth]) -> Table:
    columns = [Column("method"), *(Column(f"{g.nodes:,} nodes", ".2f", best="max") for g in grown)]
    rows: list[list[Cell]] = [[method, *(f1_cell(g.row(method)) for g in grown)] for method in METHODS]
    return Table("What the seconds bought: F1, %", columns, rows)


def _paper_table() -> Table:
    table = facts("complexity")
    columns = [Column("method"), *(Column(name) for name in table["columns"])]
    rows: list[list[Cell]] = [
        [method, *(f"O({cost})" if cost else "–" for cost in costs)] for method, costs in table["rows"].items()
    ]
    return Table(
        f"What the paper derives ({table['source']})",
        columns,
        rows,
        "T: the targets; n nodes, m edges, f features, L hops.",
    )


def _figure(grown: list[Growth]) -> Figure:
    nodes = [float(g.nodes) for g in grown]

    def draw(times: Any, memory: Any) -> None:
        for method in METHODS:
            draw_line(times, method, nodes, [g.preparation(method) for g in grown])
            draw_line(memory, method, nodes, [g.memory(method) for g in grown])
        for axis, title in ((times, "Preparation, seconds"), (memory, "Most memory, GB")):
            axis.set_title(title)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("nodes")
        times.legend()

    return Figure("complexity", picture(draw, columns=2, height=3.6), "The same targets on graphs of growing size.")
