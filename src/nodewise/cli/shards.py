"""What ``predict`` and ``embed`` share: their options, and the last line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nodewise.cli.console import say, stages
from nodewise.cli.options import given

if TYPE_CHECKING:
    from nodewise.batch.folder import Summary

_CLUSTER = "Cluster"

Model = Annotated[Path, typer.Argument(help="A folder written by 'nodewise train'.", show_default=False)]
Nodes = Annotated[str, typer.Option(help="'all', or a file with one node per line: ids, or names if there are names.")]
Chunk = Annotated[int | None, typer.Option(help="Nodes per shard. (default: 65536)", show_default=False)]
Engine = Annotated[
    str | None,
    typer.Option(help="auto, exact, walks or stratified. (default: the one used in training)", show_default=False),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory limit, for example 4GB. (default: a quarter of what is available)", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the shards of another job in this folder.")]
On = Annotated[str, typer.Option(help="local, or ray: on a cluster.", rich_help_panel=_CLUSTER)]
Address = Annotated[
    str | None,
    typer.Option(
        help="The cluster: HOST:6379 or auto. (default: $RAY_ADDRESS, or a new one on this machine)",
        rich_help_panel=_CLUSTER,
        show_default=False,
    ),
]


def make_shards(
    kind: Literal["predict", "embed"], model: Path, source: str, output: Path, memory: str | None, **options: Any
) -> None:
    """Run, show how it goes, and say what came of it."""
    from nodewise._util.memory import parse_bytes
    from nodewise.batch import run

    amount = None if memory is None else parse_bytes(memory)
    with stages() as progress:
        done = run(kind, model, source, output, memory=amount, progress=progress, **given(**options))
    rate = f", {done.made / done.seconds:,.0f} nodes/s" if done.made and done.seconds else ""
    extra = _about_labels(done, options)
    say(f"{done.nodes:,} nodes, {done.rows:,} rows{extra} written to {output}: {done.seconds:.1f} s{rate}")


def _about_labels(done: Summary, options: dict[str, Any]) -> str:
    """What an option about labels came to: how large sets are, or how many nodes have no label."""
    if options.get("coverage") is not None and done.nodes:
        return f" ({done.rows / done.nodes:.2f} labels per node)"
    if options.get("min_confidence") is not None:
        return f" ({done.unlabelled:,} without a label)"
    return ""
