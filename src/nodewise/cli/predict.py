"""nodewise predict: labels for nodes, by their original names; and what it shares with nodewise embed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import complain, say, stages
from nodewise.cli.options import Address, DataDir, Memory, On, Source, Threads, given

if TYPE_CHECKING:
    from nodewise.batch.job import Kind

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder written by 'nodewise train'.")]


@dataclass(frozen=True)
class ShardOptions:
    """The options of commands that write many nodes in shards."""

    nodes: Annotated[
        str,
        typer.Option(metavar="<all|path>", help="All, or a file with one node per line: ids, or names if there are."),
    ] = "all"
    engine: Annotated[
        str | None, typer.Option(help="auto, exact, walks or stratified. (default: the one used in training)")
    ] = None
    chunk: Annotated[int | None, typer.Option(help="Nodes per shard. (default: 65536)")] = None
    memory: Memory = None
    threads: Threads = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what another job wrote there.")] = False
    on: On = "local"
    address: Address = None
    data_dir: DataDir = None


def predict(
    model: Model,
    source: Source,
    output: Annotated[Path, typer.Option("-o", "--output", help="A folder of shards, or a .parquet or .csv file.")],
    options: ShardOptions,
    coverage: Annotated[
        float | None,
        typer.Option(help="Write sets of labels that contain the true one this often, for example 0.9."),
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave the label empty where its probability is lower, for example 0.8.")
    ] = None,
) -> None:
    """Predict the label of each node of SOURCE with MODEL.

    One row (node, label, probability) per node; where nodes have several labels, one row per label. With --coverage,
    one row per label in the node's set, the most probable first. If a run is interrupted, the same command continues
    where it stopped.
    """
    write_shards("predict", model, source, output, options, coverage=coverage, min_confidence=min_confidence)


def write_shards(
    kind: Kind, model: Path, source: str, output: Path, options: ShardOptions, **which_labels: float | None
) -> None:
    """Run the job with progress bars, and say what was written."""
    from nodewise._util.memory import parse_bytes
    from nodewise._util.words import counted
    from nodewise.batch import run

    settings: dict[str, Any] = given(**vars(options), **which_labels)
    if options.memory is not None:
        settings["memory"] = parse_bytes(options.memory)
    try:
        with stages() as progress:
            done = run(kind, model, source, output, progress=progress, **settings)
    except KeyboardInterrupt:
        complain(f"{output}: finished shards are kept; the same command continues from there")
        raise
    extra = ""
    if "coverage" in settings and done.nodes:
        extra = f" ({done.rows / done.nodes:.2f} labels per node)"
    elif "min_confidence" in settings:
        extra = f" ({done.unlabelled:,} without a label)"
    rate = f", {done.made / done.seconds:,.0f} nodes/s" if done.made and done.seconds else ""
    made = f"{counted(done.nodes, 'node')}, {counted(done.rows, 'row')}{extra}"
    say(f"{made} written to {output}: {done.seconds:.1f} s{rate}")
