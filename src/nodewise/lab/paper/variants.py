"""Table 4 and Figure 5: NIGCN by walks on dense graphs, with one thing changed (ablation, sensitivity)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nodewise._util.plotting import BLUE, GREY
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.length import diffusion_lengths
from nodewise.diffusion.params import DiffusionConfig, Mass
from nodewise.graph import Graph
from nodewise.graph.splits import Split
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import picture
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table, difference
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, is_here, open_subject, splits_of
from nodewise.lab.rivals import settings as preset
from nodewise.learn.evaluate import evaluate
from nodewise.learn.nigcn import NIGCN

MASSES: dict[Mass, str] = {"theta": "as in Algorithm 2", "reference": "as in the published program"}


class Tried(NamedTuple):
    """Scores in percent, their mean and standard deviation, seconds per split, and neighbours kept per test node."""

    scores: list[float]
    score: list[float]
    seconds: float
    kept: float


@dataclass(frozen=True)
class Setup:
    """A graph, its splits, and the settings of NIGCN on it: Algorithm 2 as published, so that first-K has an effect."""

    subject: Subject
    graph: Graph
    splits: list[Split]
    split_source: str
    inductive: bool
    settings: dict[str, Any]

    @property
    def ran_on(self) -> str:
        how = "inductive" if self.inductive else "transductive"
        return f"{self.subject.ran_on}; {how}, {self.split_source}"

    def try_variant(self, name: str, changes: dict[str, Any], context: Context) -> Tried:
        model = NIGCN(**{**self.settings, **changes})
        found = evaluate(model, self.graph, self.splits, inductive=self.inductive).splits
        scores = [100 * split.test_f1 for split in found if split.test_f1 is not None]
        score = [statistics.fmean(scores), statistics.pstdev(scores)]
        context.say(f"{self.subject.title}, {name}: F1 {score[0]:.2f}%")
        seconds = float(np.mean([split.preparation_seconds + split.train_seconds for split in found]))
        test = self.splits[0].test
        kept = diffuse(self.graph, test, **vars(model.row_maker.on(self.graph))).matrix.nnz / test.size
        return Tried(scores, score, seconds, kept)


def setups(context: Context) -> list[Setup]:
    """The paper's Amazon or its stand-in, and Amazon-Computers if it is on this machine."""
    names = ("amazon", "amazon-computers")
    return [_setup(name, context) for name in names if name == "amazon" or is_here(name, context)]


def _setup(name: str, context: Context) -> Setup:
    subject = find_subject(name, context)
    graph = open_subject(subject, context)
    inductive = all(part in graph.splits for part in ("train", "val", "test"))
    splits, split_source = splits_of(subject, graph, context, inductive)
    chosen = chosen_settings(subject, ("NIGCN",)).get("NIGCN", {})
    settings = {**preset("NIGCN", subject.source), **chosen}
    settings |= {"engine": "walks", "seed": context.seed, "threads": context.threads}
    return Setup(subject, graph, splits, split_source, inductive, settings)


# ---------------------------------------------------------------------- Table 4


def ablation(context: Context) -> Result:
    """Table 4: without its own hop weights (HKPR), without a length per node (UDL), without first-K (NFK)."""
    result = Result([])
    for setup in setups(context):
        table, sentences = _ablate(setup, context)
        result.sentences.extend(sentences)
        result.tables.append(table)
        result.ran_on.append(setup.ran_on)
    return result


def variants(setup: Setup, mass: Mass) -> dict[str, dict[str, Any]]:
    """The paper's three, and NIGCN itself. The one length of UDL is the median over nodes."""
    plain = replace(setup.settings.get("diffusion", DiffusionConfig()), mass=mass)
    nodes = np.concatenate(setup.splits[0])
    lengths = diffusion_lengths(setup.graph, nodes, setup.settings["tau"], plain.convention)
    return {
        "HKPR": {"rho": 1.0, "diffusion": plain},
        "UDL": {"diffusion": replace(plain, length=int(np.median(lengths)))},
        "NFK": {"diffusion": replace(plain, first_k=False)},
        "NIGCN": {"diffusion": plain},
    }


def _ablate(setup: Setup, context: Context) -> tuple[Table, list[str]]:
    in_paper = facts("ablation")["rows"] if setup.subject.name == facts("ablation")["dataset"] else {}
    rows: list[list[Cell]] = []
    sentences = []
    for mass, words in MASSES.items():
        tried = {name: setup.try_variant(name, changes, context) for name, changes in variants(setup, mass).items()}
        own = tried["NIGCN"]
        for name, found in tried.items():
            there = in_paper.get(name)
            gaps = [difference(there, in_paper.get("NIGCN")), difference(found.score, own.score)]
            rows.append([name, words, there, found.score, *gaps, found.seconds, found.kept])
        for name in ("HKPR", "UDL", "NFK"):
            said = effect(name, tried[name].scores, "NIGCN", own.scores)
            sentences.append(f"{setup.subject.title}, mass {words}: {said}")
    return _ablation_table(setup, rows), sentences


def effect(name: str, scores: Sequence[float], than: str, others: Sequence[float]) -> str:
    """How one variant compares with another on the same splits; scores in percent.

    There is an effect if the mean of the differences is more than one standard deviation of them away from 0.

    >>> effect("NFK", [50.0, 52.0], "NIGCN", [60.0, 61.0])
    'NFK scores 9.50 points less than NIGCN (differences ± 0.50): an effect is seen.'
    >>> effect("UDL", [60.0, 62.0], "NIGCN", [61.0, 61.0])
    'UDL scores the same as NIGCN (differences ± 1.00): no effect is seen.'
    """
    pairs = [a - b for a, b in zip(scores, others, strict=True)]
    mean, spread = statistics.fmean(pairs), statistics.pstdev(pairs)
    how = f"{abs(mean):.2f} points {'more' if mean > 0 else 'less'} than" if abs(mean) >= 0.005 else "the same as"
    if len(scores) < 2:
        return f"{name} scores {how} {than} on the one split that was run: too few to tell."
    seen = "an effect is seen" if abs(mean) > spread else "no effect is seen"
    return f"{name} scores {how} {than} (differences ± {spread:.2f}): {seen}."


def _ablation_table(setup: Setup, rows: list[list[Cell]]) -> Table:
    columns = [
        Column("variant"), Column("mass of stopped walks"), Column("paper", ".2f", "F1"), Column("here", ".2f", "F1"),
        Column("paper", "+.2f", "less NIGCN"), Column("here", "+.2f", "less NIGCN"), Column("seconds", ".2f"),
        Column("neighbours kept", ",.0f"),
    ]  # fmt: skip
    rho = f"rho of NIGCN is {setup.settings['rho']:g}, of HKPR 1"
    note = f"Micro-F1 in percent; seconds of one split; engine walks; {rho}; UDL takes one length, the median."
    return Table(f"Variants on {setup.subject.title} ({facts('ablation')['source']})", columns, rows, note)


# ---------------------------------------------------------------------- Figure 5


Curve = dict[float, Tried]  # by the multiple of the chosen value


def sensitivity(context: Context) -> Result:
    """Figure 5: tau and epsilon from a quarter of the chosen value to four times it."""
    result = Result([])
    for setup in setups(context):
        curves = {name: _curve(setup, name, context) for name in facts("sensitivity")["rows"]}
        result.sentences.extend(_sentence(setup, name, curve) for name, curve in curves.items())
        result.sentences.append(_compared(setup, curves))
        result.tables.append(_sensitivity_table(setup, curves))
        result.figures.append(_figure(setup, curves))
        result.ran_on.append(setup.ran_on)
    return result


def _curve(setup: Setup, name: str, context: Context) -> Curve:
    return {
        multiple: setup.try_variant(f"{name} x {multiple:g}", {name: multiple * setup.settings[name]}, context)
        for multiple in facts("sensitivity")["columns"]
    }


def _range(curve: Curve) -> float:
    means = [tried.score[0] for tried in curve.values()]
    return max(means) - min(means)


def _sentence(setup: Setup, name: str, curve: Curve) -> str:
    best = max(curve, key=lambda multiple: curve[multiple].score[0])
    gain, spread = curve[best].score[0] - curve[1].score[0], curve[1].score[1]
    verdict = "the chosen value is the best of the five"
    if best != 1:
        beyond = "more than" if gain > spread else "within"
        verdict = (
            f"{best:g} times the chosen value is best, by {gain:.2f} points "
            f"({beyond} one standard deviation, {spread:.2f})"
        )
    return f"{setup.subject.title}: over all values of {name} F1 changes by {_range(curve):.2f} points; {verdict}."


def _compared(setup: Setup, curves: dict[str, Curve]) -> str:
    wider = max(curves, key=lambda name: _range(curves[name]))
    rows = facts("sensitivity")["rows"]
    in_paper = max(rows, key=lambda name: max(rows[name]) - min(rows[name]))
    agrees = "as" if wider == in_paper else "unlike"
    title = setup.subject.title
    return f"{title}: F1 depends more on {wider}, {agrees} in the paper, where it depends more on {in_paper}."


def _sensitivity_table(setup: Setup, curves: dict[str, Curve]) -> Table:
    columns = [
        Column("parameter"), Column("times", "g"), Column("value", "g"), Column("paper", ".2f"), Column("here", ".2f"),
        Column("seconds", ".2f"), Column("neighbours kept", ",.0f"),
    ]  # fmt: skip
    known = setup.subject.name == facts("sensitivity")["dataset"]
    rows: list[list[Cell]] = [
        [name, x, x * setup.settings[name], reported("sensitivity", name, x) if known else None, *tried[1:]]
        for name, curve in curves.items()
        for x, tried in curve.items()
    ]
    title = f"F1 against tau and epsilon on {setup.subject.title} ({facts('sensitivity')['source']})"
    return Table(title, columns, rows, "Micro-F1 in percent; seconds of one split; engine walks.")


def _figure(setup: Setup, curves: dict[str, Curve]) -> Figure:
    def draw(*axes: Any) -> None:
        for axis, (name, curve) in zip(axes, curves.items(), strict=True):
            x = list(curve)
            means, spreads = zip(*(tried.score for tried in curve.values()), strict=True)
            axis.errorbar(x, means, spreads, color=BLUE, marker="o", capsize=3, label="here")
            if setup.subject.name == facts("sensitivity")["dataset"]:
                axis.plot(x, facts("sensitivity")["rows"][name], "o--", mfc="white", color=GREY, label="paper, Amazon")
            axis.set_xscale("log", base=2)
            axis.set_xticks(x, [f"{m:g}" for m in x])
            axis.set_xlabel(f"{name}, times the chosen {setup.settings[name]:g}")
            axis.set_title(name)
        axes[0].set_ylabel("F1, %")
        axes[0].legend()

    caption = f"{setup.subject.ran_on}. As {facts('sensitivity')['source']} of the paper."
    return Figure(f"sensitivity-{setup.subject.name}", picture(draw, columns=2), caption)
