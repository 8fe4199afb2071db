"""The recipes side by side: the paper's with tuned presets, defaults that find everything themselves, and the full one.

    NODEWISE_DATA=... python benchmarks/recipes.py -o docs/results/recipes cora citeseer pubmed
    NODEWISE_DATA=... python benchmarks/recipes.py -o docs/results/recipes --parts cora citeseer pubmed

Every data set on its ten fixed splits, one thread, test labels read once at the end of each split. With ``--parts``
also the preset with one network, and with one part of the full recipe each, asked for by name and so kept whatever
validation nodes say. A file a data set, which further runs add to; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import warnings
from pathlib import Path
from typing import Any

import nodewise as nw
from nodewise.learn.evaluate import evaluate, versions
from nodewise.splits import Split, read_split_file

RECIPES: dict[str, dict[str, Any]] = {"auto": {}, "full": {"recipe": "full"}}
PARTS: dict[str, dict[str, Any]] = {
    "one network": {},
    "heads": {"heads": 4},
    "hop attention": {"hop_attention": True},
    "raw features": {"raw_features": True},
    "label reuse": {"label_reuse": True},
    "consistency": {"consistency": 5.0},
    "self-training": {"self_training": 1},
    "correct and smooth": {"correct_and_smooth": True},
}


def run(graph: nw.Graph, splits: list[Split], params: dict[str, Any]) -> dict[str, Any]:
    """What ``nodewise train`` with these parameters reports, in short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nw.NodewiseWarning)
        found = evaluate(nw.NIGCN(**params, threads=1), graph, splits)
    seconds = [split.preparation_seconds + split.train_seconds for split in found.splits]
    kept = [part for split in found.splits for part in split.kept]
    return {
        "test_f1_mean": found.test_f1_mean,
        "test_f1_std": found.test_f1_std,
        "test_macro_f1_mean": found.test_macro_f1_mean,
        "val_f1_mean": statistics.fmean(split.val_f1 or 0.0 for split in found.splits),
        "seconds_a_split": statistics.fmean(seconds),
        "kept": {part: kept.count(part) for part in sorted(set(kept))},
        "test_f1": found.test_f1,
        "params": params,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", default=os.environ.get("NODEWISE_DATA", "data"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.datasets:
        graph = nw.load(name, options.data)
        splits = read_split_file(Path(options.data, "splits", f"{name}.npz"), graph.num_nodes)[: options.splits]
        file = options.output / f"{name}.json"
        made = json.loads(file.read_text("utf-8")) if file.exists() else {"dataset": name, "rows": {}}
        preset = dict(nw.presets[name])
        parts = {part: {**preset, "heads": 1, **params} for part, params in PARTS.items()} if options.parts else {}
        for row, params in {"paper": preset, **RECIPES, **parts}.items():
            if row not in made["rows"]:
                made["rows"][row] = run(graph, splits, params)
                made |= {"splits": len(splits), "versions": versions()}
                file.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
            told = made["rows"][row]
            score, spread = 100 * told["test_f1_mean"], 100 * told["test_f1_std"]
            print(
                f"{name} {row}: {score:.2f} ± {spread:.2f}, {told['seconds_a_split']:.2f} s, {told['kept']}", flush=True
            )


if __name__ == "__main__":
    main()
