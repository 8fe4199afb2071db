"""Three walks as a new user would take them, from raw files to predictions, a report and a description.

    python benchmarks/walks.py -o docs/results/walks             # writes walks.json and walks.md
    python benchmarks/walks.py -o docs/results/walks manpages    # only this walk, beside what the files have

The raw files come from a Debian machine: `packages` needs `apt-get -o Acquire::Languages=en update` first, `manpages`
needs manual pages (`apt-get install manpages-dev`), and `modules` reads the Python that runs the script. Few labels are
in the file of labels. The others "came later": nodewise and logistic regression are scored on those, and tuned only on
the few. Logistic regression sees the same features, or the rows of the adjacency matrix where there are none.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

import nodewise as nw
from measuring import keep, kept
from walk_files import WALKS, Walk


def run(command: str, folder: Path) -> dict[str, Any]:
    """Run a command as typed; what it said, tables cut to their first rows. Its exit code may be an error's."""
    started = time.perf_counter()
    words = [sys.executable, "-m", *shlex.split(command)]
    env = os.environ | {"COLUMNS": "120", "TERM": "dumb", "PYTHONPATH": str(Path(nw.__file__).parents[1])}
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1800,
        check=False,
    )
    seconds, lines, table = time.perf_counter() - started, [], 0
    for line in done.stdout.splitlines():
        table = 0 if not line.startswith(" ") else table + bool(line.strip())
        if line.strip() and table <= 14:
            lines.append(line.rstrip() if len(line.rstrip()) <= 160 else line[:159] + "…")
        elif table == 15:
            lines.append(" …")
    return {"command": command, "seconds": round(seconds, 1), "exit_code": done.returncode, "messages": lines}


def f1(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    return {f"{a}_f1": float(f1_score(truth, found, average=a, zero_division=0)) for a in ("micro", "macro")}


def regression(walk: Walk, binarizer: MultiLabelBinarizer) -> dict[str, Any]:
    """One logistic regression for each label, on features or else on rows of the adjacency matrix.

    C, and where nodes have several labels the threshold too, are the best of five-fold cross-validation.
    """
    started = time.perf_counter()
    graph = walk.graph()
    rows = sp.csr_matrix(graph.to_scipy() if graph.features is None else graph.features)
    train, test = (rows[graph.nodes(list(labels))] for labels in (walk.known, walk.later))
    several = max(map(len, walk.known.values())) > 1
    target = binarizer.transform(walk.known.values())

    def decide(proba: np.ndarray, threshold: float) -> np.ndarray:
        """The most probable label and, where there are several, all from the threshold on: as nodewise decides."""
        return (proba == proba.max(axis=1, keepdims=True)) | (several & (proba >= threshold))

    best: tuple[float, float, float] = (-1, 0, 0)
    for C in (0.1, 1, 10, 100, 1e3, 1e4, 1e5):
        model = OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear"))
        proba = cross_val_predict(
            model, train, target, cv=KFold(5, shuffle=True, random_state=0), method="predict_proba"
        )
        for threshold in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5) if several else (0.5,):
            best = max(best, (f1(target, decide(proba, threshold))["micro_f1"], C, threshold))
    _, C, threshold = best
    proba = OneVsRestClassifier(LogisticRegression(C=C, solver="liblinear")).fit(train, target).predict_proba(test)
    scores = f1(binarizer.transform(walk.later.values()), decide(proba, threshold))
    chosen = {"C": C} | ({"threshold": threshold} if several else {})
    return scores | chosen | {"seconds": round(time.perf_counter() - started, 1)}


def take(name: str, folder: Path) -> dict[str, Any]:
    """Make the files of a walk, run its commands, and score what they predicted."""
    walk = WALKS[name](folder)
    commands, load = [], os.getloadavg()[0]
    for command in walk.commands:
        commands.append(run(command, folder))
        print(json.dumps(commands[-1], indent=1, ensure_ascii=False), flush=True)
    predicted = defaultdict(list)
    with (folder / "predicted.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            predicted[row["node"]].append(row["label"])
    binarizer = MultiLabelBinarizer().fit([*walk.known.values(), *walk.later.values()])
    found = binarizer.transform([[label for label in predicted[n] if label] for n in walk.later])
    graph = walk.graph()
    return {
        "about": walk.about,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": 0 if graph.features is None else graph.features.shape[1],
        "labels": len(binarizer.classes_),
        "labelled_nodes": len(walk.known),
        "test_nodes": len(walk.later),
        "cores": os.cpu_count(),
        "load_average_at_start": round(load, 1),
        "commands": commands,
        "scores": {
            "nodewise": f1(binarizer.transform(walk.later.values()), found),
            "logistic regression": regression(walk, binarizer),
        },
    }


def page(walks: dict[str, Any]) -> str:
    lines = ["# Three walks of a new user", "", *__doc__.split("\n\n")[-1].strip().splitlines(), ""]
    for name, walk in walks.items():
        counts = [f"{walk[k]:,} {k}" for k in ("nodes", "edges", "features", "labels")]
        lines += [f"## {name}", "", f"{walk['about'][0].upper()}{walk['about'][1:]}. {', '.join(counts)}."]
        lines += [f"{walk['labelled_nodes']:,} nodes are labelled; {walk['test_nodes']:,} others test."]
        lines += [f"{walk['cores']} cores, load average {walk['load_average_at_start']} at the start.", ""]
        for done in walk["commands"]:
            failed = f", exit code {done['exit_code']}" if done["exit_code"] else ""
            lines += [f"{done['seconds']:.1f} seconds{failed}:", "", "```console", f"$ {done['command']}"]
            lines += [*done["messages"], "```", ""]
        lines += ["| on the labels that came later | micro-F1 % | macro-F1 % |", "| --- | ---: | ---: |"]
        for method, scores in walk["scores"].items():
            lines.append(f"| {method} | {100 * scores['micro_f1']:.2f} | {100 * scores['macro_f1']:.2f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WALKS))
    args = parser.parse_args()
    file = args.output.with_suffix(".json")
    results = kept(file)
    for name in args.names or WALKS:
        with tempfile.TemporaryDirectory(prefix="walk-") as folder:
            results[name] = take(name, Path(folder))
        print(name, results[name]["scores"], flush=True)
        results = {name: results[name] for name in WALKS if name in results}
        keep(results, file)
        args.output.with_suffix(".md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
