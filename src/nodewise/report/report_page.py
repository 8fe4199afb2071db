"""A report as one page that needs no other file: light and dark, on paper and on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nodewise._util.atomic import AnyPath, new_file
from nodewise._util.page import escape, facts, figures, new_target, paragraph, section, table
from nodewise._util.page import page as whole_page
from nodewise._util.progress import Progress, silent
from nodewise._util.words import counted
from nodewise.graph import Graph
from nodewise.learn.nigcn import NIGCN
from nodewise.report import charts
from nodewise.report.findings import LISTED, Findings, ListedNode, find

MOST_BARS, MOST_CONFUSED = 25, 30  # classes that a chart and a table show


def write_report(
    model: str | Path | NIGCN, graph: Graph, path: AnyPath, *, overwrite: bool = False, progress: Progress = silent
) -> Findings:
    """Write a page about ``graph`` and what a ``model`` (or the one saved at a path) makes of it; what it found.

    >>> import nodewise as nw, tempfile, pathlib
    >>> g = nw.synthetic.dcsbm(400, avg_degree=8, classes=3, features=8, seed=0)
    >>> model = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 260))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = nw.write_report(model, g, pathlib.Path(folder, "report.html"))
    >>> found.micro_f1.count
    140
    """
    target = new_target(path, (".html", ".htm"), overwrite)
    learned = model if isinstance(model, NIGCN) else NIGCN.load(model)
    found = find(learned, graph, progress=progress)
    progress("page", 0, None)
    text = page(found)
    with new_file(target, overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return found


def page(found: Findings) -> str:
    """The whole page as HTML."""
    parts = [_summary(found), _graph(found), _score(found), _lost(found), _nodes(found)]
    return whole_page(f"{found.name}: a report", found.name, parts)


def _summary(found: Findings) -> str:
    graph, score = found.graph, found.micro_f1
    shown = [
        (f"{graph['nodes']:,}", "nodes"),
        (f"{graph['edges']:,}", "edges"),
        (f"{graph['labelled']:,}", "labelled nodes"),
        (f"{len(found.labels):,}", "classes"),
    ]
    if score is not None:
        shown.insert(0, (f"{100 * score.value:.1f}%", f"micro-F1 ({100 * score.low:.1f} to {100 * score.high:.1f})"))
    return facts(*shown)


def _graph(found: Findings) -> str:
    graph = found.graph
    homophily = graph["homophily"]
    words = (
        f"{counted(graph['components'], 'connected component')}, the largest of {graph['largest_component']:,} nodes; "
        f"{graph['mean_neighbours']:.1f} neighbours per node on average, {graph['without_neighbours']:,} nodes have "
        f"none. "
        f"{100 * graph['labelled'] / graph['nodes']:.1f}% of the nodes have a label."
    )
    if graph["labels"] > graph["labelled"]:
        words += f" A labelled node has {graph['labels'] / graph['labelled']:.1f} labels on average."
    if homophily is not None:
        words += f" Of the labelled neighbours of a node with a label, {100 * homophily:.1f}% have that label too."
    names = [str(low) if low == high else f"{low:,} to {high:,}" for low, high, _ in graph["neighbours"]]
    degrees = charts.bars("Nodes by number of neighbours", names, [n for *_, n in graph["neighbours"]], "nodes")
    shown = sorted(found.labels, key=lambda one: -one["nodes"])[:MOST_BARS]
    balance = charts.bars(
        "Labelled nodes by class", [one["label"] for one in shown], [one["nodes"] for one in shown], "nodes"
    )
    cells = [(one["label"], f"{one['nodes']:,}", _percent(one["homophily"])) for one in shown]
    classes = table(("class", "labelled nodes", "neighbours of the same class, %"), cells) + _others(len(found.labels))
    return section(
        "The graph and its labels", paragraph(words), figures(("Neighbours", degrees), ("Classes", balance)), classes
    )


def _others(classes: int) -> str:
    more = classes - MOST_BARS
    return paragraph(f"And {more:,} smaller classes, which nodewise report --json lists.") if more > 0 else ""


def _score(found: Findings) -> str:
    if found.micro_f1 is None:
        return section("How good is it?", paragraph("No labelled node was held out, so there is no score."))
    score = found.micro_f1
    words = (
        f"Micro-F1 {100 * score.value:.1f}% on {score.count:,} {found.scored_on} (95% interval {100 * score.low:.1f} "
        f"to {100 * score.high:.1f}), macro-F1 {100 * (found.macro_f1 or 0):.1f}%, calibration error "
        f"{found.calibration_error or 0:.3f}."
    )
    curve = charts.calibration("Probability against the share that is right", found.calibration)
    cells = [
        (one["label"], _percent(one["precision"]), _percent(one["recall"]), f"{one['support']:,}")
        for one in sorted(found.classes, key=lambda one: -one["support"])
        if one["support"]
    ]
    classes = table(("class", "precision, %", "recall, %", "nodes"), cells[:MOST_BARS]) + _others(len(cells))
    return section(
        "How good is it?",
        paragraph(words),
        figures(("How sure, and how often right", curve)),
        classes,
        _confusion(found),
    )


def _confusion(found: Findings) -> str:
    """The confusion matrix as a table, each cell as dark as its share of the row."""
    rows = [i for i, row in enumerate(found.confusion) if sum(row) or any(other[i] for other in found.confusion)]
    if not 1 < len(rows) <= MOST_CONFUSED:
        return ""
    names = [found.classes[i]["label"] for i in rows]
    head = "".join(f'<th class="turned"><span>{escape(name)}</span></th>' for name in names)
    lines = []
    for i, name in zip(rows, names, strict=True):
        total = max(1, sum(found.confusion[i]))
        counts = [found.confusion[i][j] for j in rows]
        cells = "".join(f'<td class="cell" style="--share:{100 * n / total:.0f}%">{n or ""}</td>' for n in counts)
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    matrix = f'<table class="confusion"><tr><th></th>{head}</tr>{"".join(lines)}</table>'
    return (
        f'<h3>Confusion: one row per true class, one column per predicted class</h3><div class="scroll">{matrix}</div>'
    )


def _lost(found: Findings) -> str:
    if found.micro_f1 is None:
        return ""
    drawn = [
        ("By number of neighbours", charts.shares("Right, by number of neighbours", found.by_degree, "right, %")),
        (
            "By distance to the nearest known label",
            charts.shares("Right, by distance to a label", found.by_distance, "right, %"),
        ),
    ]
    return section(
        "Where is it right, and where not?", figures(*drawn), paragraph("Lines are 95% intervals; in brackets, nodes.")
    )


def _nodes(found: Findings) -> str:
    parts = [
        ("The most confident mistakes", "Held-out nodes that the model got wrong, the surest first.", found.mistakes),
        (
            "Which nodes to label next",
            "Of the unlabelled nodes with the most neighbours, those it is least sure of.",
            found.to_label,
        ),
        (
            "Which labels look wrong",
            "Labels that all other labels contradict, the clearest first (leave-one-out ridge regression).",
            found.doubtful,
        ),
    ]
    return section("Nodes to look at", *(_list(*part) for part in parts if part[2]))


def _list(title: str, words: str, nodes: Sequence[ListedNode]) -> str:
    labelled = any(one.label is not None for one in nodes)
    head = ("node", "neighbours", *(("label",) if labelled else ()), "the model says", "probability, %")
    cells = [
        (
            one.node,
            f"{one.neighbours:,}",
            *((one.label or "",) if labelled else ()),
            one.predicted,
            f"{100 * one.probability:.1f}",
        )
        for one in nodes[:LISTED]
    ]
    return f"<h3>{escape(title)}</h3>{paragraph(words)}{table(head, cells)}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"
