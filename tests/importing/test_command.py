"""nodewise import: budgets, types, and going on after an interruption, from the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from files import write
from nodewise import open_store
from nodewise.cli import console

EDGES = ("import", "--edges", "edges.csv", "-o", "store")


def test_memory_and_type_of_features_are_options(run):
    write("edges.csv", "0,1\n1,2\n")
    np.save("x.npy", np.eye(3, dtype=np.float32))
    code, _, said = run(*EDGES, "--features", "x.npy", "--memory", "2GB", "--feature-dtype", "float16")
    assert code == 0
    assert "Graph(nodes=3, edges=2, features=3) written to store" in said
    assert open_store("store").features.dtype == np.float16
    code, _, said = run(*EDGES, "--overwrite", "--memory", "1MB")
    assert code == 2
    assert "memory 1 MB: sorting edges takes at least" in said
    assert open_store("store").num_nodes == 3  # as it was


def test_ctrl_c_says_how_to_go_on(run, monkeypatch):
    write("edges.csv", "0,1\n1,2\n")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nodewise.importing.building.merge_runs", interrupted)
        code, _, said = run(*EDGES)
    assert code == 130
    assert "store: finished steps are kept; the same command with --resume continues" in said
    assert not Path("store").exists()
    code, _, said = run(*EDGES)
    assert code == 2
    assert "--resume" in said
    assert run(*EDGES, "--resume")[0] == 0
    assert open_store("store").num_edges == 2


def test_stages_are_bars_with_the_time_left(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with console.stages() as show:
        show("sorting", 10, None)
        show("sorting", 20, 40)
        show("merging", 5, 50)
    said = capsys.readouterr().err
    assert "sorting" in said
    assert "50%" in said
    assert "merging" in said
    assert "10%" in said


def test_nothing_moves_where_there_is_no_terminal(capsys):
    with console.stages() as show:
        show("sorting", 1, 2)
    assert capsys.readouterr().err == ""


def test_each_stage_is_one_line_where_lines_are_asked_for_and_there_is_no_terminal(capsys):
    with console.stages(lines=True) as show:
        for done in range(3):
            show("sorting", done, 2)
        show("merging", 0, None)
    assert capsys.readouterr().err == "sorting …\nmerging …\n"
