"""Figure 2: how few of a target's neighbours hold nearly all of its weight; exact, by walks, by stratified walks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodewise._util.types import DoubleArray, IntArray
from nodewise.datasets.registry import lookup
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.plotting import BLUE, GREY, ORANGE, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table
from nodewise.lab.paper.subjects import CONVENTION, Subject, find_subject, hyperparameters, open_subject

TARGETS, QUICK_TARGETS = 50, 10
LOOKS: dict[Engine, tuple[str, str]] = {"exact": ("black", "-"), "walks": (ORANGE, "--"), "stratified": (BLUE, "-.")}


class Weighed(NamedTuple):
    """The weights that some targets give their neighbours, heaviest first, by engine; and their lengths."""

    rows: dict[Engine, list[DoubleArray]]
    errors: dict[Engine, float]
    lengths: IntArray
    hops: DoubleArray


def run(context: Context) -> Result:
    subjects = [find_subject("amazon", context)]
    pubmed = lookup("pubmed")
    if pubmed is not None and pubmed.available(context.data_dir):
        subjects.append(find_subject("pubmed", context))
    found = {subject: _weigh(open_subject(subject, context), subject.name, context) for subject in subjects}
    targets = QUICK_TARGETS if context.quick else TARGETS
    return Result(
        sentences=[sentence for subject, weighed in found.items() for sentence in _sentences(subject, weighed)],
        tables=[_table(found)],
        figures=[_figure(subject, weighed) for subject, weighed in found.items()],
        ran_on=[f"{subject.ran_on}; {targets} targets at random, no bound on neighbours" for subject in subjects],
    )


def _weigh(graph: Graph, name: str, context: Context) -> Weighed:
    params = {**hyperparameters(name), "convention": CONVENTION}
    params |= {"first_k": False, "mass": "walks", "seed": context.seed}
    chosen = np.random.default_rng([context.seed, 4]).choice(
        graph.num_nodes, QUICK_TARGETS if context.quick else TARGETS, replace=False
    )
    found = {engine: diffuse(graph, chosen, engine=engine, threads=context.threads, **params) for engine in LOOKS}
    matrices = {engine: diffusion.matrix for engine, diffusion in found.items()}
    rows = {
        engine: [_heaviest_first(matrix[i].data) for i in range(chosen.size)] for engine, matrix in matrices.items()
    }
    errors = {engine: float(abs(m - matrices["exact"]).sum() / chosen.size) for engine, m in matrices.items()}
    lengths = found["exact"].lengths
    return Weighed(rows, errors, lengths, ghd(params["omega"], params["rho"], int(lengths.max())))


def _heaviest_first(weights: DoubleArray) -> DoubleArray:
    return np.sort(weights[weights > 0].astype(np.float64))[::-1]


def share_of_neighbours(weights: DoubleArray, share_of_weight: float) -> float:
    """The share of neighbours, heaviest first, that hold so much of the weight.

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
        Column("graph"), Column("engine"), Column("neighbours a target", ",.0f"), Column("paper", ".1f", group),
        Column("here", ".1f", group), Column("L1 error against exact", ".4f"), Column("median length", ".0f"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for subject, weighed in found.items():
        for engine, found_rows in weighed.rows.items():
            of_paper = subject.name == facts("weights")["dataset"] and engine == "walks"
            rows.append([
                subject.name if subject.is_original else f"{subject.name} (stand-in)",
                engine,
                float(np.mean([row.size for row in found_rows])),
                100 * facts("weights")["share_of_neighbours"] if of_paper else None,
                100 * _median_share(found_rows),
                weighed.errors[engine],
                float(np.median(weighed.lengths)),
            ])  # fmt: skip
    note = (
        "Medians over targets; the paper shows one target, sampled by walks. The error is that of a target's weights."
    )
    return Table(f"Neighbours that hold 99% of the weight ({facts('weights')['source']})", columns, rows, note)


def _sentences(subject: Subject, weighed: Weighed) -> list[str]:
    share = 100 * _median_share(weighed.rows["walks"])
    errors = weighed.errors
    better = "less" if errors["stratified"] < errors["walks"] else "no less"
    return [
        f"{subject.name}: {share:.1f}% of the neighbours that walks find hold 99% of the weight (median of targets).",
        f"{subject.name}: the weights of stratified walks are {better} wrong than those of as many plain walks "
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
