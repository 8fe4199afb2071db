"""The recipes side by side: the paper's with tuned presets, defaults that find everything themselves, and the full one.

    NODEWISE_DATA=... python benchmarks/recipes.py -o docs/results/recipes cora citeseer pubmed
    NODEWISE_DATA=... python benchmarks/recipes.py -o docs/results/recipes --parts cora citeseer pubmed

Every data set on its ten fixed splits, one thread, test labels read once at the end of each split. With ``--parts``
also the preset with one network, and with one part of the full recipe each, asked for by name and so kept whatever
validation nodes say. A file a data set, written after every split; further runs go on from what is there.
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
    "class shares": {"self_training": 1, "class_shares": True},
    "correct and smooth": {"correct_and_smooth": True},
}


def run(graph: nw.Graph, split: Split, params: dict[str, Any]) -> dict[str, Any]:
    """What ``nodewise train`` with these parameters reports of a split, in short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nw.NodewiseWarning)
        found = evaluate(nw.NIGCN(**params, threads=1), graph, [split]).splits[0]
    return {
        "test_f1": found.test_f1,
        "test_macro_f1": found.test_macro_f1,
        "val_f1": found.val_f1,
        "seconds": found.preparation_seconds + found.train_seconds,
        "kept": found.kept,
    }


def summary(splits: dict[str, dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    """A row: means over the splits that are done, and what each of them gave."""
    done = list(splits.values())
    kept = [part for split in done for part in split["kept"]]
    scores = [split["test_f1"] for split in done]
    return {
        "test_f1_mean": statistics.fmean(scores),
        "test_f1_std": statistics.pstdev(scores),
        "test_macro_f1_mean": statistics.fmean(split["test_macro_f1"] for split in done),
        "val_f1_mean": statistics.fmean(split["val_f1"] for split in done),
        "seconds_a_split": statistics.fmean(split["seconds"] for split in done),
        "kept": {part: kept.count(part) for part in sorted(set(kept))},
        "test_f1": scores,
        "params": params,
        "splits": splits,
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
            for number, split in enumerate(splits):
                known = made["rows"].get(row, {"test_f1": [], "splits": {}})
                if len(known["test_f1"]) >= len(splits) or str(number) in known["splits"]:
                    continue
                done = known["splits"] | {str(number): run(graph, split, params)}
                made["rows"][row] = summary(dict(sorted(done.items(), key=lambda pair: int(pair[0]))), params)
                made |= {"splits": len(splits), "versions": versions()}
                file.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
            told = made["rows"][row]
            score, spread = 100 * told["test_f1_mean"], 100 * told["test_f1_std"]
            print(
                f"{name} {row}: {score:.2f} ± {spread:.2f}, {told['seconds_a_split']:.2f} s, {told['kept']}", flush=True
            )


if __name__ == "__main__":
    main()
