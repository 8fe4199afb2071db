"""Which nodes train, validate and test: the split options of train, compare and tune, and the splits they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nodewise.cli.options import given

if TYPE_CHECKING:
    from nodewise.graph import Graph
    from nodewise.graph.splits import Split


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Splits", **more)


Inductive = Annotated[bool, _option("Train on the subgraph of the training part only.", "--inductive")]


@dataclass(frozen=True)
class SplitOptions:
    """The options; a combination that makes no sense is refused before a graph is loaded."""

    splits: Annotated[int | None, _option("Number of random splits.")] = None
    per_class: Annotated[int | None, _option("Training nodes per class in a random split. (default: 20)")] = None
    val: Annotated[int | None, _option("Validation nodes in a random split. (default: 500)")] = None
    test: Annotated[int | None, _option("Test nodes in a random split. (default: 1000)")] = None
    split: Annotated[str | None, _option("Use the split that comes with the data.", metavar="official")] = None
    split_file: Annotated[
        Path | None,
        _option("Splits: a table with columns node and part, or an npz file with arrays train, val and test."),
    ] = None

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of random splits that the user set."""
        return given(per_class=self.per_class, val=self.val, test=self.test)

    def __post_init__(self) -> None:
        if self.sizes and (self.split_file or self.split):
            size = next(iter(self.sizes)).replace("_", "-")
            other = "--split-file" if self.split_file else "--split"
            raise typer.BadParameter(f"--{size} is for random splits; leave out --{size} or {other}")
        if len(given(splits=self.splits, split_file=self.split_file, split=self.split)) > 1:
            raise typer.BadParameter("give one of --splits, --split-file and --split")
        if self.split not in (None, "official"):
            raise typer.BadParameter(f"--split {self.split}: the only named split is 'official'")


class Chosen(NamedTuple):
    """Splits, in words where they come from, and whether they hold out a part of all labels of a user's own graph."""

    splits: list[Split]
    origin: str
    own: bool = False


def choose_splits(graph: Graph, source: str, options: SplitOptions, seed: int) -> Chosen:
    """The splits that the options ask for.

    Without any: the official split where there is one; of a named data set without one, 20 nodes per class, 500 and
    1,000; of a user's own graph, a fifth of each class to validate and a fifth to test.
    """
    from nodewise._util.errors import InputError
    from nodewise.datasets import registry
    from nodewise.graph.splits import PARTS, held_out_split, official_split, random_splits
    from nodewise.importing.onto_graph import read_splits

    if options.split_file is not None:
        return Chosen(read_splits(graph, options.split_file), str(options.split_file))
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels to learn from; import it with --labels")
    own, by_default = registry.lookup(source) is None, options == SplitOptions()
    if options.split or (by_default and all(part in graph.splits for part in PARTS)):
        found = official_split(graph)
        return Chosen([found], f"official, {_sizes(found)}", own)
    if by_default and own:
        held_out = held_out_split(graph.labels, seed)
        return Chosen([held_out], f"random within each class (seed {seed}), {_sizes(held_out)}", own)
    drawn = random_splits(
        graph.labels,
        1 if options.splits is None else options.splits,
        seed=seed,
        label_names=graph.label_names,
        **options.sizes,
    )
    return Chosen(drawn, f"random (seed {seed}), {_sizes(drawn[0])}")


def _sizes(split: Split) -> str:
    return f"{split.train.size:,} training, {split.val.size:,} validation and {split.test.size:,} test nodes"
