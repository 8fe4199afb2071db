"""Table 4: NIGCN without its own hop weights (HKPR), without lengths by node (UDL), without first-K (NFK)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nodewise.diffusion.length import diffusion_lengths
from nodewise.diffusion.params import Mass
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Result, Table, difference
from nodewise.lab.paper.variants import Ground, grounds, percent, seconds_of
from nodewise.lab.paper.words import effect, mean_and_spread

MASSES: dict[Mass, str] = {"theta": "as in Algorithm 2", "reference": "as in the published program"}


def run(context: Context) -> Result:
    chosen = grounds(context)
    tables, sentences = [], []
    for ground in chosen:
        table, said = _ablate(ground, context)
        tables.append(table)
        sentences += said
    return Result(sentences, tables, ran_on=[ground.ran_on for ground in chosen])


def variants(ground: Ground, mass: Mass) -> dict[str, dict[str, Any]]:
    """The paper's three, and NIGCN itself. UDL's one length is the median of the nodes' own."""
    nodes, plain = np.concatenate(ground.splits[0]), replace(ground.diffusion, mass=mass)
    lengths = diffusion_lengths(ground.graph, nodes, ground.settings["tau"], plain.convention)
    return {
        "HKPR": {"rho": 1.0, "diffusion": plain},
        "UDL": {"diffusion": replace(plain, length=int(np.median(lengths)))},
        "NFK": {"diffusion": replace(plain, first_k=False)},
        "NIGCN": {"diffusion": plain},
    }


def _ablate(ground: Ground, context: Context) -> tuple[Table, list[str]]:
    in_paper = facts("ablation")["rows"]
    rows: list[list[Cell]] = []
    sentences = []
    for mass, words in MASSES.items():
        scores: dict[str, list[float]] = {}
        for name, changes in variants(ground, mass).items():
            found, kept = ground.try_variant(changes)
            scores[name] = percent(found)
            there = in_paper[name] if ground.subject.name == facts("ablation")["dataset"] else None
            gap = difference(there, in_paper["NIGCN"])
            rows.append([name, words, there, mean_and_spread(scores[name]), gap, None, seconds_of(found), kept])
            context.say(f"{ground.name}, {name}: F1 {np.mean(scores[name]):.2f}%")
        for row in rows[-len(scores) :]:
            row[5] = difference(row[3], mean_and_spread(scores["NIGCN"]))
        for name in ("HKPR", "UDL", "NFK"):
            sentences.append(f"{ground.name}, mass {words}: " + effect(name, scores[name], "NIGCN", scores["NIGCN"]))
    return _table(ground, rows), sentences


def _table(ground: Ground, rows: list[list[Cell]]) -> Table:
    columns = [
        Column("variant"), Column("mass of stopped walks"), Column("paper", ".2f", "F1"), Column("here", ".2f", "F1"),
        Column("paper", "+.2f", "less NIGCN"), Column("here", "+.2f", "less NIGCN"), Column("seconds", ".2f"),
        Column("neighbours kept", ",.0f"),
    ]  # fmt: skip
    rho = f"rho of NIGCN is {ground.settings['rho']:g}, of HKPR 1"
    note = f"Micro-F1 in percent; seconds of one split; engine walks; {rho}; UDL takes one length, the median."
    return Table(f"Variants on {ground.name} ({facts('ablation')['source']})", columns, rows, note)
