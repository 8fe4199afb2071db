"""What readers of a comparison see: marks in the table, names in the picture."""

import itertools
import random
import sys
from dataclasses import fields

import pytest

from nodewise.lab.compare import Comparison, FinishedSplit, MethodRow
from nodewise.lab.compare.score_plot import draw, make_figure
from nodewise.lab.compare.table import COLUMNS, cells
from nodewise.lab.rivals import METHODS


def row(name, scores, asked=None, seconds=1.0, problem=None):
    empty = dict.fromkeys(field.name for field in fields(FinishedSplit))  # tables and pictures show none of the rest
    facts = {"preparation_seconds": seconds / 2, "train_seconds": seconds / 2, "epochs": 7, "peak_memory": 5 * 10**8}
    splits = [
        FinishedSplit(**{**empty, **facts, "split": i, "val_f1": score, "test_f1": score})
        for i, score in enumerate(scores)
    ]
    return MethodRow(name, {}, splits, len(scores) if asked is None else asked, problem, 5 * 10**8)


def comparison(*rows):
    graph = {"nodes": 10, "edges": 20, "features": 3, "classes": 2}
    machine = {"processor": "abacus", "cores": 2, "memory": 10**9}
    versions = {"nodewise": "1", "torch": "2"}
    return Comparison("cora", "cora", graph, 2, "a file", False, None, 0, 1, machine, versions, list(rows))


def scores_in(text):
    lines = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")][2:]
    return {name.strip(): score.strip() for name, score in lines}


def test_best_is_bold_and_second_best_underlined():
    made = comparison(row("GCN", [0.7, 0.8]), row("GAT", [0.8, 0.8]), row("SGC", [0.7, 0.7]))
    assert scores_in(made.to_markdown()) == {
        "GCN": "<u>75.00 ± 5.00</u>",
        "GAT": "**80.00 ± 0.00**",
        "SGC": "70.00 ± 0.00",
    }


def test_ties_share_a_mark_and_unfinished_methods_get_none():
    made = comparison(
        row("GCN", [0.8, 0.8]),
        row("GAT", [0.80001, 0.80001]),
        row("SGC", [0.7, 0.7]),
        row("GDC", [0.9], 2, problem="stopped after its budget of 5 s"),
        row("GBP", [], 2, problem="needs nodewise[baselines] | a pipe"),
    )
    assert scores_in(made.to_markdown()) == {
        "GCN": "**80.00 ± 0.00**",
        "GAT": "**80.00 ± 0.00**",
        "SGC": "<u>70.00 ± 0.00</u>",
        "GDC": "90.00",
        "GBP": "",
    }
    assert r"needs nodewise[baselines] \| a pipe" in made.to_markdown()
    assert "1 of 2 splits: stopped after its budget of 5 s" in made.to_markdown()


def test_one_method_alone_is_not_the_best():
    assert scores_in(comparison(row("GCN", [0.7, 0.8])).to_markdown()) == {"GCN": "75.00 ± 5.00"}


def test_every_column_has_a_cell():
    assert len(cells(row("GCN", []))) == len(cells(row("GCN", [0.5]))) == len(COLUMNS)


@pytest.mark.parametrize("crowd", [0.02, 0.3, 2.0])
def test_names_in_the_picture_do_not_overlap(crowd):
    source = random.Random(5)
    rows = [
        row(name, [0.8 + 0.02 * crowd * source.gauss(0, 1)] * 2, seconds=2.0 ** (1 + crowd * source.gauss(0, 1)))
        for name in METHODS
    ]
    figure = make_figure(comparison(*rows), rows)
    axes = figure.axes[0]
    named = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in named if text.get_fontweight() == "bold"] == ["NIGCN"]
    assert {text.get_text() for text in named} == set(METHODS)
    boxes = [text.get_window_extent() for text in named]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(figure.bbox.x0 <= b.x0 and b.x1 <= figure.bbox.x1 for b in boxes)


def test_the_picture_is_a_png_and_needs_a_score(tmp_path):
    assert draw(comparison(row("GCN", [0.7])), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not draw(comparison(row("GCN", [], 1)), tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not draw(comparison(row("GCN", [0.7])), tmp_path / "a.png")
    assert "nodewise[baselines]" in caplog.text
