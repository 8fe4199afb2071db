"""nodewise predict: labels for nodes, by their original names; and what it shares with nodewise embed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import complain, print_json, say, stages
from nodewise.cli.files import FileOptions, source_or_files
from nodewise.cli.options import Address, DataDir, Memory, On, SourceOrFiles, Threads, given

if TYPE_CHECKING:
    from nodewise.batch.job import Kind, Summary

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder written by 'nodewise train'.")]


@dataclass(frozen=True)
class ShardOptions:
    """The options of commands that write many nodes in shards."""

    nodes: Annotated[
        str,
        typer.Option(metavar="<all|path|a,b,c>", help="All, a file with one node per line, or a list: ids, or names."),
    ] = "all"
    engine: Annotated[
        str | None, typer.Option(help="auto, exact, walks or stratified. (default: the one used in training)")
    ] = None
    chunk: Annotated[int | None, typer.Option(help="Nodes per shard. (default: 65536)")] = None
    memory: Memory = None
    threads: Threads = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False
    on: On = "local"
    address: Address = None
    data_dir: DataDir = None
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False


def predict(
    model: Model,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="A folder of shards, a .parquet or .csv file, or - (stdout).")
    ],
    options: ShardOptions,
    files: FileOptions,
    source: SourceOrFiles = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Write sets of labels that contain the true one this often, for example 0.9."),
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave the label empty where its probability is lower, for example 0.8.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="K", help="Write the K most probable labels of each node, one row each.")
    ] = None,
    keep_known: Annotated[
        bool, typer.Option("--keep-known", help="Nodes with a known label keep it, with probability 1.")
    ] = False,
    all_probabilities: Annotated[
        bool, typer.Option("--all-probabilities", help="Write a column for the probability of each class, too.")
    ] = False,
    new_edges: Annotated[
        str | None,
        typer.Option(
            help="Edges of nodes that SOURCE does not have: predict these alone.", rich_help_panel="New nodes"
        ),
    ] = None,
    new_features: Annotated[
        str | None, typer.Option(help="Features of the new nodes, one row each.", rich_help_panel="New nodes")
    ] = None,
) -> None:
    """Predict the label of each node of SOURCE, or of your own files (--edges, --features, --labels), with MODEL.

    One row (node, label, probability, known) per node, where 'known' is the label that SOURCE gives it, or empty;
    where nodes have several labels, one row per label. With --coverage, one row per label in the node's set, the most
    probable first. If a run is interrupted, the same command continues
    where it stopped.
    """
    which = given(coverage=coverage, min_confidence=min_confidence, top=top)
    which |= {"keep_known": keep_known, "all_probabilities": all_probabilities}
    source, _ = source_or_files(source, files)
    if new_edges is not None:
        _predict_new(model, source, output, options, new_edges, new_features, which)
        return
    if new_features is not None:
        raise typer.BadParameter("--new-features goes with --new-edges; give the edges of the new nodes too")
    write_shards("predict", model, source, output, options, **which)


def _predict_new(
    model: Path, source: str, output: Path, options: ShardOptions, edges: str, features: str | None, which: Any
) -> None:
    from nodewise.batch import predict_new

    if options.nodes != "all" or options.on != "local":
        raise typer.BadParameter("--new-edges predicts the new nodes alone, here; leave --nodes and --on out")
    done = predict_new(
        model, source, output, edges, features, data_dir=options.data_dir, overwrite=options.overwrite, **which
    )
    _say_done(done, output, options.json, which)


def write_shards(
    kind: Kind, model: Path, source: str, output: Path, options: ShardOptions, **which_labels: Any
) -> None:
    """Run the job with progress bars, and say what was written."""
    from nodewise._util.memory import parse_bytes
    from nodewise.batch import run

    settings: dict[str, Any] = given(**vars(options), **which_labels)
    as_json, stdout = settings.pop("json"), str(output) == "-"
    if as_json and stdout:
        raise typer.BadParameter("--json and -o - both write to stdout; leave one of them out")
    if options.memory is not None:
        settings["memory"] = parse_bytes(options.memory)
    try:
        with stages() as progress:
            done = run(kind, model, source, output, progress=progress, **settings)
    except KeyboardInterrupt:
        complain(f"{output}: finished shards are kept; the same command continues from there")
        raise
    _say_done(done, output, as_json, settings)


def _say_done(done: Summary, output: Path, as_json: bool, settings: dict[str, Any]) -> None:
    from nodewise._util.words import counted

    if as_json:
        print_json({**asdict(done), "output": str(output)})
        return
    extra = ""
    if "coverage" in settings and done.nodes:
        extra = f" ({done.rows / done.nodes:.2f} labels per node)"
    elif "min_confidence" in settings:
        extra = f" ({done.unlabelled:,} without a label)"
    rate = f", {done.made / done.seconds:,.0f} nodes/s" if done.made and done.seconds else ""
    place = "stdout" if str(output) == "-" else output
    made = f"{counted(done.nodes, 'node')}, {counted(done.rows, 'row')}{extra}"
    say(f"{made} written to {place}: {done.seconds:.1f} s{rate}")
