"""nodewise explain: why a node got its label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodewise.cli.console import print_json, print_table, say
from nodewise.cli.options import DataDir, Json, Source, load_source
from nodewise.cli.predict import Model

if TYPE_CHECKING:
    from nodewise.explaining.explanation import Explanation

SHOWN_CLASSES = 5


def explain(
    model: Model,
    source: Source,
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node: its name, or its id.")],
    class_: Annotated[
        str | None, typer.Option("--class", help="Class to explain. (default: the predicted one)")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of neighbours and features to list.")] = 20,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a page (.html) or a picture (.svg, .png), too.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Explain why MODEL gives NODE of SOURCE its label: what each neighbour and each feature adds.

    The parts sum to the logit of the class, exactly. Also: which neighbours would have to go for another label, and
    which training nodes are most similar.
    """
    from nodewise._util.page import new_target
    from nodewise.explaining.explain import explain as explain_node
    from nodewise.explaining.explanation import ENDINGS

    if output is not None:
        new_target(output, ENDINGS, overwrite)
    found = explain_node(model, load_source(source, data_dir), node, class_, top)
    if json:
        print_json(found.to_json())
    else:
        _print(found)
    if output is not None:
        found.save(output, overwrite=overwrite)
        say(f"{'page' if output.suffix.lower() == '.html' else 'picture'} written to {output}")


def _print(found: Explanation) -> None:
    from nodewise.explaining.explanation_page import rows_of_features, rows_of_neighbours, rows_of_ridge, sentences

    head, rows = rows_of_neighbours(found)
    print_table(head, rows, right=("", *head[2:-1]))
    if found.features is not None:
        head, rows = rows_of_features(found)
        print_table(head, rows, right=head[1:])
    if found.ridge is not None:
        head, rows = rows_of_ridge(found)
        print_table(head, rows, right=head[1:-1])
    classes = list(found.probabilities.items())[:SHOWN_CLASSES]
    lines = [
        ("predicted", ", ".join(found.predicted) or "none"),
        ("known label", ", ".join(found.labels) or "not known"),
        ("probabilities", ", ".join(f"{name} {100 * share:.1f}%" for name, share in classes)),
    ]
    if found.reached:
        shares = (f"{one.label} {100 * one.share:.1f}% ({one.nodes:,})" for one in found.reached[:SHOWN_CLASSES])
        lines.append(("labels in reach, by weight", ", ".join(shares)))
    if found.similar:
        nodes = (f"{one} ({', '.join(one.labels)}, {one.similarity:.3f})" for one in found.similar)
        lines.append(("similar training nodes", ", ".join(nodes)))
    print_table(("node", str(found)), [*lines, *sentences(found).items()])
