"""nodewise info: what a graph is like, which engine suits it, and how long training should take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import print_json, print_table
from nodewise.cli.options import DataDir, Json, Source, given, load_source

if TYPE_CHECKING:
    from nodewise.graph import Graph


def info(
    source: Source,
    tau: Annotated[
        float | None, typer.Option(help="Show the lengths for this tau. (default: the preset's, or 1.9)")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Plan for this epsilon. (default: the preset's, or 0.01)")
    ] = None,
    targets: Annotated[int, typer.Option(help="Plan for this many nodes.")] = 1640,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Describe SOURCE: counts, degrees, components, labels, lengths, the plan, and the expected training time."""
    from nodewise.learn.presets import presets
    from nodewise.report.describe import describe

    graph = load_source(source, data_dir)
    known, default = presets.get(source.lower(), {}), {"tau": 1.9, "epsilon": 0.01, "convention": "paper"}
    params = {name: known.get(name, value) for name, value in default.items()} | given(tau=tau, epsilon=epsilon)
    report = describe(graph, targets=targets, **params)
    report["train_seconds"] = _train_seconds(graph)
    if json:
        print_json(report)
    else:
        print_table(("", report["name"]), list(_lines(report)))


def _lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    near, parts, features, labels = (report[key] for key in ("neighbours", "components", "features", "labels"))
    lines = [
        ("nodes", f"{report['nodes']:,}"),
        ("edges", f"{report['edges']:,}" + (", weighted" if report["weighted"] else "")),
        ("neighbours", f"{_range(near)}, mean {near['mean']:.1f}; {near['none']:,} nodes have none"),
        ("components", f"{parts['count']:,}, the largest of {parts['largest']:,} nodes"),
        ("features", _features(features)),
        ("labels", _labels(labels)),
    ]
    for convention, spread in report["lengths"].items():
        lines.append((f"lengths, {convention}", f"{_range(spread)} hops at tau {report['tau']}"))
    plan = report["plan"]
    lines.append((f"plan, {plan['targets']:,} targets", f"{plan['engine']}: {plan['reason']}"))
    if expected := report["train_seconds"]:
        stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in expected.items())
        lines.append(("training", f"about {sum(expected.values()):.1f} s expected ({stages})"))
    return lines


def _train_seconds(graph: Graph) -> dict[str, float] | None:
    """The time that ``nodewise train`` should take if it holds out two fifths of the labels."""
    from nodewise.graph.splits import held_out_split
    from nodewise.learn.nigcn import NIGCN

    if graph.labels is None:
        return None
    split = held_out_split(graph.labels)
    return NIGCN().expected_seconds(graph, *(part.size for part in split))


def _range(spread: dict[str, float]) -> str:
    return f"{spread['min']:,} to {spread['max']:,}, median {spread['median']:,.0f}"


def _features(features: dict[str, Any] | None) -> str:
    if features is None:
        return "none"
    sparse = f", sparse, {100 * features['filled']:.2g}% filled" if features["sparse"] else ""
    return f"{features['columns']:,} columns of {features['dtype']}{sparse}"


def _labels(labels: dict[str, Any] | None) -> str:
    if labels is None:
        return "none"
    if "per_node" in labels:
        return f"{labels['classes']:,} labels, {labels['per_node']:.2f} per node"
    homophily = labels["edge_homophily"]
    tail = "" if homophily is None else f", edge homophily {homophily:.3f}"
    return f"{labels['classes']:,} classes, {100 * labels['coverage']:.1f}% of nodes known{tail}"
