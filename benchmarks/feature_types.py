"""What float16 and int8 features cost in F1: the ten fixed splits of three data sets, from stores of each type.

    NODEWISE_DATA=... python benchmarks/feature_types.py -o docs/results/feature-types.json

Each data set is written to a store as it is (float32), with float16 and with int8 features, and trained from there
with its preset, the same engine, splits and seeds. Times are not compared: the float32 features are sparse here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import nodewise as nw
from learning import splits_of
from measuring import keep
from nodewise.graph.features import Quantized
from nodewise.learn.evaluate import evaluate, versions
from nodewise.store import open_store, write_store

DATASETS = ("pubmed", "coauthor-cs", "amazon-computers")
TYPES = ("float32", "float16", "int8")


def stored(graph: nw.Graph, kind: str, folder: Path) -> nw.Graph:
    """The graph from a store whose features are of type ``kind``."""
    dense = graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)
    if kind == "float16":
        graph = graph.replace(features=dense.astype(np.float16))
    elif kind == "int8":
        graph = graph.replace(features=Quantized.of(dense))
    write_store(graph, folder / kind)
    return open_store(folder / kind, verify=False)


def feature_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("feature*.npy"))


def measure(name: str, splits: int) -> list[dict[str, Any]]:
    graph, chosen = nw.load(name), splits_of(name)[:splits]
    nodes = np.concatenate([chosen[0].train, chosen[0].val])
    engine = nw.NIGCN(**nw.presets[name]).row_maker.settled(graph, nodes).params.engine
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for kind in TYPES:
            model = nw.NIGCN(**nw.presets[name], seed=0).set_params(engine=engine)
            result = evaluate(model, stored(graph, kind, Path(temporary)), chosen)
            scores = [100 * score for score in result.test_f1]
            rows.append({
                "dataset": name,
                "type": kind,
                "feature_bytes": feature_bytes(Path(temporary, kind)),
                "test_f1": statistics.fmean(scores),
                "std": statistics.pstdev(scores),
                "cost": (rows[0]["test_f1"] if rows else statistics.fmean(scores)) - statistics.fmean(scores),
            })  # fmt: skip
            print("{dataset:18} {type:8} F1 {test_f1:.2f} ± {std:.2f}, costs {cost:+.2f} points".format(**rows[-1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    if not os.environ.get("NODEWISE_DATA"):
        parser.error("set NODEWISE_DATA to the folder of data sets and splits")
    rows = [row for name in DATASETS for row in measure(name, arguments.splits)]
    keep({"rows": rows, "versions": versions()}, arguments.output)


if __name__ == "__main__":
    main()
