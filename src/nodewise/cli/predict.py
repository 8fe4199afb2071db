"""nodewise predict: labels for nodes, by their original names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import say
from nodewise.cli.options import DataDir, Source, load_source


def predict(
    model: Annotated[Path, typer.Argument(help="A folder written by 'nodewise train'.", show_default=False)],
    source: Source,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .parquet or .csv file.", show_default=False)],
    nodes: Annotated[
        str, typer.Option(help="'all', or a file with a node a line (ids, or names where there are names).")
    ] = "all",
    data_dir: DataDir = None,
) -> None:
    """Predict labels with MODEL on SOURCE: a row (node, label, probability) a node.

    Where nodes have several labels each, a row for every label whose probability is above a half.
    """
    from nodewise.learn.nigcn import NIGCN
    from nodewise.predictions import check_output, predictions, read_nodes, write_predictions

    check_output(output)
    fitted = NIGCN.load(model)
    graph = load_source(source, data_dir)
    chosen = read_nodes(nodes, graph)
    table = predictions(fitted, graph, chosen)
    write_predictions(table, output)
    say(f"{chosen.size:,} nodes, {table.num_rows:,} rows written to {output}")
