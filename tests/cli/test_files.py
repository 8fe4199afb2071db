"""Commands straight from the user's files, without an import first."""

from __future__ import annotations

import csv
import re
import shlex

import numpy as np
import pytest

from files import write
from nodewise import NIGCN
from nodewise.graph import synthetic


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Names for ids, one table for features and labels, and half of the labels missing."""
    monkeypatch.chdir(tmp_path)
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, features=4, signal=2.0, seed=0)
    matrix = graph.to_scipy().tocoo()
    write("links.csv", "u,v\n" + "".join(f"n{i},n{j}\n" for i, j in zip(matrix.row, matrix.col, strict=True) if i < j))
    lines = ["node,a,b,c,d,team"]
    for node, (row, label) in enumerate(zip(graph.features, graph.labels, strict=True)):
        lines.append(f"n{node},{','.join(f'{x:.4f}' for x in row)},{('red', 'blue')[label] if node % 2 else ''}")
    write("nodes.csv", "\n".join(lines) + "\n")
    truth = {f"n{i}": ("red", "blue")[label] for i, label in enumerate(graph.labels)}
    return ["--edges", "links.csv", "--features", "nodes.csv", "--labels", "nodes.csv", "--label", "team"], truth


def test_train_predict_and_report_take_files_in_place_of_a_source(files, run):
    own, truth = files
    code, _, err = run("train", *own)
    assert code == 0, err
    hint = err.strip().splitlines()[-1]
    assert hint.startswith("model saved in links-model")
    command = shlex.split(hint.partition("Next: nodewise ")[2])
    assert command == ["predict", "links-model", *own, "-o", "labels.csv"], "the next command reads the same files"
    code, _, err = run(*command)
    assert code == 0, err
    with open("labels.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 200
    assert np.mean([row["label"] == truth[row["node"]] for row in rows]) > 0.8
    assert {row["known"] for row in rows} == {"", "red", "blue"}
    code, _, err = run("report", "links-model", *own, "-o", "page.html")
    assert code == 0, err
    assert NIGCN.load("links-model").learned_from_.graph == "links"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "give SOURCE, or your own files"),
        (["train", "cora", "--edges", "e.csv"], r"give SOURCE \(cora\) or --edges"),
        (["train", "cora", "--features", "x.csv"], "--features is about files; give --edges too"),
        (["train", "--edges", "absent.csv"], "absent.csv: no such file"),
        (["import", "-o", "s"], "give the file of edges"),
    ],
)
def test_a_source_and_files_do_not_mix(arguments, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*arguments)
    assert code == 2
    assert re.search(message, " ".join(err.replace("│", " ").split()))
    assert not list(tmp_path.iterdir())
