"""nodewise evaluate: how good a saved model is on labels that it has not learned from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import print_json, print_line, say
from nodewise.cli.describe import score_in_words
from nodewise.cli.options import DataDir, Json, Source, load_source
from nodewise.cli.predict import Model
from nodewise.cli.train import show_classes


def evaluate(
    model: Model,
    source: Source,
    labels: Annotated[
        Path | None, typer.Option(help="A file of nodes and labels to compare with. (default: the labels of SOURCE)")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Compare what MODEL predicts for SOURCE with labels that it has not learned from.

    Nodes that trained or chose the model are left out. Classes are matched by name.
    """
    from nodewise.learn.evaluate import score_model
    from nodewise.learn.nigcn import NIGCN

    result = score_model(NIGCN.load(model), load_source(source, data_dir), labels)
    if json:
        print_json(asdict(result))
        return
    show_classes(result.classes)
    print_line(f"{result.graph}: {score_in_words(vars(result))}")
    if result.left_out:
        say(f"{result.left_out:,} labelled nodes were left out: the model learned from them")
