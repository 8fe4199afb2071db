"""Figure 2: how few neighbours of a target hold nearly all of the weight: exact, by walks, by stratified walks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodewise._util.plotting import BLUE, GREY
from nodewise._util.types import DoubleArray, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import ORANGE, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table
from nodewise.lab.paper.subjects import CONVENTION, Subject, find_subject, hyperparameters, is_here, open_subject

TARGETS, QUICK_TARGETS = 50, 10
LOOKS: dict[Engine, tuple[str, str]] = {"exact": ("black", "-"), "walks": (ORANGE, "--"), "stratified": (BLUE, "-.")}


class Weighed(NamedTuple):
    """The weights of the neighbours of some targets by engine, heaviest first, and the lengths of the targets."""

    rows: dict[Engine, list[DoubleArray]]
    errors: dict[Engine, float]
    lengths: IntArray
    hops: DoubleArray


def run(context: Context) -> Result:
    names = [name for name in ("amazon", "pubmed") if name == "amazon" or is_here(name, context)]
    subjects = [find_subject(name, context) for name in names]
    found = {subject: _weigh(open_subject(subject, context), subject.name, context) for subject in subjects}
    targets = QUICK_TARGETS if context.quick else TARGETS
    return Result(
        sentences=[sentence for subject, weighed in found.items() for sentence in _sentences(subject, weighed)],
        tables=[_table(found)],
        figures=[_figure(subject, weighed) for subject, weighed in found.items()],
        ran_on=[f"{subject.ran_on}; {targets} random targets, no limit on neighbours" for subject in subjects],
    )


def _weigh(graph: Graph, name: str, context: Context) -> Weighed:
    params = {**hyperparameters(name), "convention": CONVENTION}
    params |= {"first_k": False, "mass": "walks", "seed": context.seed}
    targets = QUICK_TARGETS if context.quick else TARGETS
    chosen = np.random.default_rng([context.seed, 4]).choice(graph.num_nodes, targets, replace=False)
    found = {engine: diffuse(graph, chosen, engine=engine, threads=context.threads, **params) for engine in LOOKS}
    matrices = {engine: diffusion.matrix for engine, diffusion in found.items()}
    rows = {engine: [_heaviest_first(m[i].data) for i in range(targets)] for engine, m in matrices.items()}
    errors = {engine: float(abs(m - matrices["exact"]).sum() / chosen.size) for engine, m in matrices.items()}
    lengths = found["exact"].lengths
    return Weighed(rows, errors, lengths, ghd(params["omega"], params["rho"], int(lengths.max())))


def _heaviest_first(weights: DoubleArray) -> DoubleArray:
    return np.sort(weights[weights > 0].astype(np.float64))[::-1]


def share_of_neighbours(weights: DoubleArray, share_of_weight: float) -> float:
    """The share of neighbours, heaviest first, that hold this share of the weight.

    >>> share_of_neighbours(np.array([0.9, 0.09, 0.005, 0.005]), 0.99)
    0.5
    """
    needed = np.searchsorted(np.cumsum(weights), share_of_weight * weights.sum() * (1 - 1e-9)) + 1
    return float(needed / weights.size)


def _median_share(rows: list[DoubleArray]) -> float:
    return float(np.median([share_of_neighbours(row, facts("weights")["share_of_weight"]) for row in rows]))


def _table(found: dict[Subject, Weighed]) -> Table:
    group = "% that hold 99%"
    columns = [
        Column("graph"), Column("engine"), Column("neighbours per target", ",.0f"), Column("paper", ".1f", group),
        Column("here", ".1f", group), Column("L1 error against exact", ".4f"), Column("median length", ".0f"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for subject, weighed in found.items():
        for engine, found_rows in weighed.rows.items():
            of_paper = subject.name == facts("weights")["dataset"] and engine == "walks"
            rows.append([
                subject.title,
                engine,
                float(np.mean([row.size for row in found_rows])),
                100 * facts("weights")["share_of_neighbours"] if of_paper else None,
                100 * _median_share(found_rows),
                weighed.errors[engine],
                float(np.median(weighed.lengths)),
            ])  # fmt: skip
    note = "Medians over targets; the paper shows one target, sampled by walks. Errors are those of a target's weights."
    return Table(f"Neighbours that hold 99% of the weight ({facts('weights')['source']})", columns, rows, note)


def _sentences(subject: Subject, weighed: Weighed) -> list[str]:
    share = 100 * _median_share(weighed.rows["walks"])
    errors = weighed.errors
    better = "smaller" if errors["stratified"] < errors["walks"] else "no smaller"
    return [
        f"{subject.name}: {share:.1f}% of the neighbours that walks find hold 99% of the weight (median of targets).",
        f"{subject.name}: the error of stratified walks is {better} than that of as many plain walks "
        f"({errors['stratified']:.4f} against {errors['walks']:.4f} in L1).",
    ]


def _figure(subject: Subject, weighed: Weighed) -> Figure:
    typical = int(np.argsort([row.size for row in weighed.rows["walks"]])[len(weighed.rows["walks"]) // 2])

    def draw(ranked: Any, gathered: Any, hops: Any) -> None:
        for engine, (colour, line) in LOOKS.items():
            row = weighed.rows[engine][typical]
            rank = np.arange(1, row.size + 1)
            ranked.loglog(rank, row, line, color=colour, label=engine)
            gathered.semilogx(rank, np.cumsum(row) / row.sum(), line, color=colour, label=engine)
        for axis, title in ((ranked, "Weight of a neighbour"), (gathered, "Share of the weight so far")):
            axis.set_title(title)
            axis.set_xlabel("neighbour, heaviest first")
        gathered.axhline(facts("weights")["share_of_weight"], color=GREY, linewidth=0.8)
        ranked.legend(loc="lower left")
        hops.bar(np.arange(weighed.hops.size), weighed.hops, color=BLUE, width=0.7)
        hops.set_title(f"Share of the weight by hop\n(lengths {weighed.lengths.min()} to {weighed.lengths.max()})")
        hops.set_xlabel("hop")

    caption = f"{subject.ran_on}. One target with a typical number of neighbours. As Figure 2 of the paper."
    return Figure(f"weights-{subject.name}", picture(draw, columns=3), caption)
