"""New nodes: take the test nodes of a split out of the graph, train on the rest, and bring them back as new nodes.

    NODEWISE_DATA=... python benchmarks/new_nodes.py -o docs/results/new-nodes.json

Beside it the score of a model that had the test nodes in its graph, without their labels, all along.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean

import numpy as np

import nodewise as nw
from learning import splits_of
from measuring import keep, kept

SPLITS = 3


def without(graph: nw.Graph, out: np.ndarray) -> tuple[nw.Graph, np.ndarray, np.ndarray]:
    """The graph without some nodes, where each node is then (those taken out follow), and the edges taken out."""
    rest = np.setdiff1d(np.arange(graph.num_nodes), out)
    place = np.empty(graph.num_nodes, np.int64)
    place[rest], place[out] = np.arange(rest.size), rest.size + np.arange(out.size)
    adjacency = graph.to_scipy().tocoo()
    ends = place[np.stack([adjacency.row, adjacency.col])]
    return graph.subgraph(rest), place, ends[:, (ends >= rest.size).any(0) & (ends[0] != ends[1])]


def measure(name: str, split: int) -> dict[str, float]:
    graph, (train, val, test) = nw.load(name), splits_of(name)[split]
    inside = nw.NIGCN(seed=split).fit(graph, train, val).score(graph, test)
    rest, place, edges = without(graph, test)
    model = nw.NIGCN(seed=split).fit(rest, place[train], place[val])
    started = time.perf_counter()
    more = rest.extended(edges, graph.features[test])
    said = model.predict(more, more.new_nodes)
    seconds = time.perf_counter() - started
    unchanged = np.array_equal(model.predict_proba(more, place[val]), model.predict_proba(rest, place[val]))
    return {
        "split": split,
        "inside": inside,
        "new": float((said == graph.labels[test]).mean()),
        "seconds": seconds,
        "nodes": test.size,
        "engine": model.engine_,
        "old_unchanged": unchanged,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["coauthor-cs", "arxiv-standin"])
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = kept(options.output)
    for name in options.names:
        found[name] = [measure(name, split) for split in range(SPLITS)]
        keep(found, options.output)
        inside, new = (100 * fmean(one[key] for one in found[name]) for key in ("inside", "new"))
        print(f"{name}: in the graph all along {inside:.2f}, as new nodes {new:.2f}")


if __name__ == "__main__":
    main()
