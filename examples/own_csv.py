"""Your own CSV files to labels: write three small files, import, train, predict, and read the result."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import nodewise as nw

SUBJECTS = ["biology", "chemistry", "economics", "physics"]


def write_files(folder: Path) -> None:
    """2,000 papers that cite each other, 8 numbers about each, and the subjects of 400 of them."""
    graph = nw.synthetic.dcsbm(2000, avg_degree=8, classes=4, homophily=0.7, features=8, signal=1.2, seed=1)
    papers = [f"paper{i:04}" for i in range(graph.num_nodes)]
    ends = np.transpose(graph.to_scipy().nonzero())
    known = np.random.default_rng(1).choice(graph.num_nodes, 400, replace=False)
    write(folder / "edges.csv", ["from", "to"], ([papers[u], papers[v]] for u, v in ends if u < v))
    rows = ([paper, *row.round(3)] for paper, row in zip(papers, graph.features, strict=True))
    write(folder / "features.csv", ["node", *(f"topic{j}" for j in range(8))], rows)
    write(folder / "labels.csv", ["node", "label"], ([papers[u], SUBJECTS[graph.labels[u]]] for u in sorted(known)))


def write(path: Path, header: list[str], rows: Iterable[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    write_files(folder)
    graph = nw.import_graph(folder / "edges.csv", folder / "features.csv", folder / "labels.csv")
    print(graph)

    known = np.random.default_rng(0).permutation(np.flatnonzero(graph.labels >= 0))
    train, val, test = np.split(known, [240, 320])
    model = nw.NIGCN().fit(graph, train, val)
    print(f"micro-F1 on {test.size} nodes that were held out: {model.score(graph, test):.3f}")

    unknown = np.flatnonzero(graph.labels < 0)
    labels, proba = model.predict(graph, unknown), model.predict_proba(graph, unknown)
    for node, label, sure in list(zip(unknown, labels, proba.max(1), strict=True))[:5]:
        print(f"{graph.node_names[node]}: {label} ({100 * sure:.0f}%)")


if __name__ == "__main__":
    main()
