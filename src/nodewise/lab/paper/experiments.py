"""The list of experiments, and what each of them is given: :data:`EXPERIMENTS` and :class:`Context`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nodewise._util.errors import InputError
from nodewise.lab.paper.result import Result

SPLITS, QUICK_SPLITS = 10, 2  # ten, as in the paper


@dataclass(frozen=True)
class Context:
    """What the user asked for. ``quick``: smaller graphs and fewer splits; ``budget``: seconds per method and graph.

    ``splits_dir`` holds ``NAME.npz`` with the splits of a data set; by default ``$NODEWISE_DATA/splits``.
    """

    output: Path
    quick: bool = False
    splits: int | None = None
    splits_dir: Path | None = None
    budget: float | None = None
    seed: int = 0
    threads: int | None = None
    data_dir: Path | None = None
    say: Callable[[str], None] = lambda message: None

    @property
    def num_splits(self) -> int:
        return self.splits or (QUICK_SPLITS if self.quick else SPLITS)

    def asked(self) -> dict[str, Any]:
        """What the numbers depend on: an experiment that was finished with the same is not run again."""
        asked = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("output", "say")}
        asked["splits"] = self.num_splits
        return {name: str(value) if isinstance(value, Path) else value for name, value in asked.items()}


@dataclass(frozen=True)
class Experiment:
    """``function``: its module and name; ``title`` and ``source`` head its section; ``question``: what it answers."""

    name: str
    function: str
    title: str
    source: str
    question: str

    def run(self, context: Context) -> Result:
        """The module loads only now, with torch and numba."""
        found: Result = pkgutil.resolve_name(f"nodewise.lab.paper.{self.function}")(context)
        return found


_ALL = (  # in the order in which they are run and shown
    Experiment("table2", "f1_and_time.table2", "Transductive learning", "Table 2", "Which method labels best?"),
    Experiment("table3", "f1_and_time.table3", "Inductive learning", "Table 3", "And on an unseen part of the graph?"),
    Experiment("runtime", "f1_and_time.runtime", "Running time", "Figures 3 and 6", "How long do the same runs take?"),
    Experiment("ablation", "variants.ablation", "Ablation", "Table 4", "What does each idea of NIGCN add?"),
    Experiment("labels", "label_shares.run", "More labels", "Table 5, Figure 4", "What changes with more labels?"),
    Experiment("sensitivity", "variants.sensitivity", "Sensitivity", "Figure 5", "How much do tau and epsilon matter?"),
    Experiment("ghd", "ghd_curves.run", "Shapes of GHD", "Figure 1", "How much does each hop weigh?"),
    Experiment("weights", "neighbour_weights.run", "Weights of neighbours", "Figure 2", "How many neighbours matter?"),
    Experiment("complexity", "complexity.run", "Growth", "Table 1", "Does the cost of NIGCN follow its targets alone?"),
)  # fmt: skip

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, in the order of :data:`EXPERIMENTS`; ``all`` is every one."""
    unknown = [name for name in names if name != "all" and name not in EXPERIMENTS]
    if unknown:
        raise InputError(f"{unknown[0]}: no such experiment; there are {', '.join(EXPERIMENTS)} and all")
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names or "all" in names]
