"""Which nodes train, validate and test: options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nodewise.cli.console import say
from nodewise.cli.options import given

if TYPE_CHECKING:
    from nodewise.graph import Graph
    from nodewise.splits import Split


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Splits", show_default=False)


Splits = Annotated[int | None, _option("Number of random splits. (default: 1)")]
SplitFile = Annotated[Path | None, _option("npz with integer arrays train, val, test, a row a split.")]
NamedSplit = Annotated[str | None, _option("'official': the split that comes with the data.")]
PerClass = Annotated[int | None, _option("Training nodes a class in a random split. (default: 20)")]
Val = Annotated[int | None, _option("Validation nodes in a random split. (default: 500)")]
Test = Annotated[int | None, _option("Test nodes in a random split. (default: 1000)")]
Inductive = Annotated[bool, _option("Train on the subgraph of the training part only.", "--inductive")]


class Chosen(NamedTuple):
    """Splits, and in words where they come from."""

    splits: list[Split]
    origin: str


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
    splits: int | None,
    split_file: Path | None,
    split: str | None,
    per_class: int | None,
    val: int | None,
    test: int | None,
    seed: int,
) -> Chosen:
    """The splits that these options ask for."""
    from nodewise.errors import InputError
    from nodewise.splits import official_split, random_splits, read_split_file, share_splits

    if split_file is not None:
        return Chosen(read_split_file(split_file, graph.num_nodes), str(split_file))
    if split is not None:
        return Chosen([official_split(graph)], "the official one")
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels to learn from; import it with --labels")
    sizes, count = given(per_class=per_class, val=val, test=test), 1 if splits is None else splits
    try:
        drawn = random_splits(graph.labels, count, seed=seed, **sizes)
        return Chosen(drawn, f"drawn with seed {seed}, {_sizes(drawn[0])}")
    except InputError:
        if sizes or count < 1 or seed < 0:
            raise
        say("too few known labels for 20 a class, 500 and 1,000: taking 60% / 20% / 20% of them instead")
        drawn = share_splits(graph.labels, count, seed)
        return Chosen(drawn, f"drawn with seed {seed}, 60% / 20% / 20%: {_sizes(drawn[0])}")


def _sizes(split: Split) -> str:
    return f"{split.train.size:,} nodes to train, {split.val.size:,} to validate, {split.test.size:,} to test"
