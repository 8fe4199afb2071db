"""The experiments by name, in the order in which they are run and shown. Their modules load when they are run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from nodewise._util.errors import InputError
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.result import Result


@dataclass(frozen=True)
class Experiment:
    """``title`` and ``source`` head its section; ``question`` is what it answers."""

    name: str
    module: str
    title: str
    source: str
    question: str

    @property
    def run(self) -> Callable[[Context], Result]:
        found: Callable[[Context], Result] = importlib.import_module(f"nodewise.lab.paper.{self.module}").run
        return found


_ALL = (
    Experiment("table2", "table2", "Transductive learning", "Table 2", "Which method labels best?"),
    Experiment("table3", "table3", "Inductive learning", "Table 3", "And when it has learned on a part of the graph?"),
    Experiment("runtime", "runtime", "Running time", "Figures 3 and 6", "How long do the same runs take?"),
    Experiment("ablation", "ablation", "Ablation", "Table 4", "What do its own three ideas bring to NIGCN?"),
    Experiment("labels", "label_shares", "More labels", "Table 5, Figure 4", "What changes with more labels?"),
    Experiment("sensitivity", "sensitivity", "Sensitivity", "Figure 5", "How much do tau and epsilon matter?"),
    Experiment("ghd", "ghd_curves", "Shapes of GHD", "Figure 1", "How much does each hop weigh?"),
    Experiment("weights", "neighbour_weights", "Weights of neighbours", "Figure 2", "How many neighbours matter?"),
    Experiment("complexity", "complexity", "Growth", "Table 1", "Does the cost of NIGCN follow its targets alone?"),
)  # fmt: skip

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiments_named(names: list[str]) -> list[Experiment]:
    """The experiments asked for, in the order of the registry; ``all`` is every one."""
    unknown = [name for name in names if name != "all" and name not in EXPERIMENTS]
    if unknown:
        raise InputError(f"{unknown[0]}: no such experiment; there are {', '.join(EXPERIMENTS)} and all")
    return [e for e in _ALL if e.name in names or "all" in names]
