"""Which nodes train, validate and test: options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nodewise.cli.options import given

if TYPE_CHECKING:
    from nodewise.graph import Graph
    from nodewise.graph.splits import Split


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Splits", show_default=False)


Splits = Annotated[int | None, _option("Number of random splits with 20 nodes per class, 500 and 1,000.")]
SplitFile = Annotated[Path | None, _option("npz with integer arrays train, val, test, a row per split.")]
NamedSplit = Annotated[str | None, _option("'official': the split that comes with the data.")]
PerClass = Annotated[int | None, _option("Training nodes per class in a random split. (default: 20)")]
Val = Annotated[int | None, _option("Validation nodes in a random split. (default: 500)")]
Test = Annotated[int | None, _option("Test nodes in a random split. (default: 1000)")]
Inductive = Annotated[bool, _option("Train on the subgraph of the training part only.", "--inductive")]


class Chosen(NamedTuple):
    """Splits, in words where they come from, and whether they hold out a part of all labels of a user's own graph."""

    splits: list[Split]
    origin: str
    own: bool = False


def check_split_options(splits: int | None, split_file: Path | None, split: str | None, **sizes: int | None) -> None:
    """Raise before a graph is loaded, not after."""
    named = "--split-file" if split_file is not None else "--split"
    if useless := [name for name, size in sizes.items() if size is not None and (split_file or split)]:
        raise typer.BadParameter(
            f"--{useless[0].replace('_', '-')} is for splits that are drawn; leave it out, or {named}"
        )
    if sum(option is not None for option in (splits, split_file, split)) > 1:
        raise typer.BadParameter("give one of --splits, --split-file and --split")
    if split not in (None, "official"):
        raise typer.BadParameter(f"--split {split}: the only named split is 'official'")


def choose_splits(
    graph: Graph,
    source: str,
    splits: int | None,
    split_file: Path | None,
    split: str | None,
    per_class: int | None,
    val: int | None,
    test: int | None,
    seed: int,
) -> Chosen:
    """The splits that these options ask for.

    Without any: the official split where there is one; of a named data set without one, 20 nodes per class, 500 and
    1,000; of a user's own graph, a fifth of each class to validate and a fifth to test.
    """
    from nodewise._util.errors import InputError
    from nodewise.datasets import registry
    from nodewise.formats.split_file import read_split_file
    from nodewise.graph.splits import PARTS, held_out_splits, official_split, random_splits

    own = registry.lookup(source) is None
    if split_file is not None:
        return Chosen(read_split_file(split_file, graph.num_nodes), str(split_file))
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels to learn from; import it with --labels")
    sizes = given(per_class=per_class, val=val, test=test)
    if split is not None or (splits is None and not sizes and all(part in graph.splits for part in PARTS)):
        found = official_split(graph)
        return Chosen([found], f"the official one, {_sizes(found)}", own)
    if splits is None and not sizes and own:
        drawn = held_out_splits(graph.labels, 1, seed)
        return Chosen(drawn, f"drawn by class with seed {seed}, {_sizes(drawn[0])}", own)
    drawn = random_splits(graph.labels, 1 if splits is None else splits, seed=seed, **sizes)
    return Chosen(drawn, f"drawn with seed {seed}, {_sizes(drawn[0])}")


def _sizes(split: Split) -> str:
    return f"{split.train.size:,} nodes to train, {split.val.size:,} to validate, {split.test.size:,} to test"
