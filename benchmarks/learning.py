"""Scores, calibration and seconds of NIGCN's default, with and without refit, beside the preset, on ten splits.

    NODEWISE_DATA=... python benchmarks/learning.py -o docs/results/learning [NAME ...]

One JSON file per graph; a graph whose file is there is left out. Test labels are read once, after each fit. Seconds are
those of ``fit`` and of the test nodes' rows, the graph in memory; run it alone.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import nodewise as nw
from measuring import keep
from nodewise.formats.split_file import read_split_file
from nodewise.graph.splits import Split, official_split
from nodewise.learn.calibrate import calibration_error
from nodewise.learn.evaluate import versions

NAMES = (
    "cora", "citeseer", "pubmed", "amazon-photo", "amazon-computers", "coauthor-cs", "coauthor-physics",
    "arxiv-standin",
)  # fmt: skip


def run(name: str, count: int) -> dict[str, Any]:
    graph = nw.load(name)
    inductive = name == "arxiv-standin"
    splits = splits_of(name)[:count]
    nw.NIGCN().fit(graph, splits[0].train, splits[0].val, inductive=inductive)  # kernels are compiled once
    rows = {
        "default": [fitted(graph, split, {}, inductive, refit=True) for split in splits],
        "preset": [fitted(graph, split, nw.presets[name], inductive, refit=False) for split in splits],
    }
    result = {"dataset": name, "inductive": inductive, "rows": rows, "versions": versions()}
    if name in ("cora", "citeseer", "pubmed"):
        result["official"] = fitted(graph, official_split(graph), {}, inductive, refit=True)
    return result


def splits_of(name: str) -> list[Split]:
    """The ten fixed splits."""
    return read_split_file(Path(os.environ["NODEWISE_DATA"]) / "splits" / f"{name}.npz", nw.load(name).num_nodes)


def fitted(graph: nw.Graph, split: Split, params: Any, inductive: bool, refit: bool) -> dict[str, Any]:
    """One fit: what the test nodes say of it before a refit and, if there is one, after."""
    truth = graph.labels[split.test]
    started = time.perf_counter()
    model = nw.NIGCN(**params)
    proba = model.fit_predict_proba(graph, split.train, split.val, split.test, inductive=inductive, refit=refit)
    seconds = time.perf_counter() - started
    codes = model.columns_of(graph, truth)
    found = {
        "val_f1": model.val_f1_,
        "test_f1": float(np.mean(model.labels_of_proba(proba) == truth)),
        "calibration_error": calibration_error(proba, codes),
        "least_calibration_error": least_calibration_error(proba),
        "untempered_calibration_error": calibration_error(_untempered(proba, model.temperature_), codes),
        "log_loss": float(-np.log(np.maximum(proba[np.arange(codes.size), codes], 1e-12)).mean()),
        "seconds": seconds - model.seconds_.get("refit", 0.0),
        "stages": model.seconds_,
        "found": model.auto_params_,
        "votes": dict(zip(map(str, model.members_), model.votes_, strict=True)),
    }
    if params == {}:
        threshold = model.set_threshold(0.9)
        sets = proba >= threshold
        found |= {"coverage": float(sets[np.arange(codes.size), codes].mean()), "set_size": float(sets.sum(1).mean())}
    if refit:
        found["refit_test_f1"] = model.score(graph, split.test)
    return found


def least_calibration_error(proba: np.ndarray) -> float:
    """The calibration error that probabilities would show on so many nodes if every one of them were true."""
    bounds, rng = proba.cumsum(1), np.random.default_rng(0)
    drawn = [(bounds < rng.random((len(proba), 1)) * bounds[:, -1:]).sum(1) for _ in range(20)]
    return float(np.mean([calibration_error(proba, labels) for labels in drawn]))


def _untempered(proba: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities as they would be at temperature 1."""
    powers = np.maximum(proba, 1e-30).astype(np.float64) ** temperature
    return powers / powers.sum(1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=10)
    args = parser.parse_args()
    for name in args.names or NAMES:
        file = args.output / f"{name}.json"
        if file.is_file():
            continue
        result = run(name, args.splits)
        keep(result, file)
        for row, values in result["rows"].items():
            means = {key: np.mean([v[key] for v in values]) for key in ("test_f1", "calibration_error", "seconds")}
            print(name, row, {key: round(float(value), 4) for key, value in means.items()}, flush=True)


if __name__ == "__main__":
    main()
