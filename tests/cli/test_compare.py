"""nodewise compare, through the command line's own entry point."""

import json
import re
from collections import Counter

import numpy as np
import pytest

SPLITS = ["--splits", "2", "--per-class", "5", "--val", "30", "--test", "50", "--threads", "1"]
ROW = {
    "method", "test_f1_mean", "test_f1_std", "val_f1_mean", "val_f1_std", "preparation_seconds", "train_seconds",
    "seconds", "epochs", "peak_memory", "splits_finished", "splits_asked", "problem", "params", "splits",
}  # fmt: skip


def test_table_on_stdout_then_json_from_what_is_kept_then_refusal(run, store, tmp_path):
    """One run of the method serves three calls; the second and third start no worker."""
    out = tmp_path / "out"
    code, table, err = run("compare", store, "--methods", "sgc", *SPLITS, "-o", out)
    assert code == 0
    assert "test micro-F1 %" in table
    assert "±" in table
    assert "1 of 1: SGC: test micro-F1" in err
    assert str(out) in err
    assert (out / "f1-against-time.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    code, printed, _ = run("compare", store, "--methods", "SGC,sgc", *SPLITS, "-o", out, "--json")
    made = json.loads(printed)
    assert code == 0
    assert made.pop("folder") == str(out)
    assert made == json.loads((out / "comparison.json").read_text())
    assert {"dataset", "source", "graph", "splits", "split_source", "inductive", "budget", "seed"} <= set(made)
    assert {"cores", "memory"} <= set(made["machine"])
    assert "torch" in made["versions"]
    assert "15 training, 30 validation and 50 test nodes" in made["split_source"]
    assert [set(row) for row in made["rows"]] == [ROW]
    row = made["rows"][0]
    assert row["test_f1_mean"] == pytest.approx(np.mean([s["test_f1"] for s in row["splits"]]))
    assert f"{100 * row['test_f1_mean']:.2f}" in table
    assert f"{100 * row['test_f1_mean']:.2f} ± " in (out / "comparison.md").read_text()

    code, printed, err = run("compare", store, "--methods", "sgc", *SPLITS, "--seed", "4", "-o", out)
    assert (code, printed) == (2, "")
    assert "seed is 0 there and 4 here" in err
    assert "choose another folder" in err


def test_when_no_method_has_a_result_the_row_says_why_and_the_exit_code_is_1(run, store, tmp_path):
    code, table, err = run("compare", store, "--methods", "sgc", *SPLITS, "--budget", "0.2", "-o", tmp_path / "out")
    assert code == 1
    assert "stopped after its budget of 0.2 s" in table
    assert "stopped after its budget of 0.2 s" in err
    assert not (tmp_path / "out" / "f1-against-time.png").exists()


def test_messages_with_brackets_are_shown_whole(capsys):
    from nodewise.cli.console import print_table

    print_table(["note"], [["pip install 'nodewise[baselines]'"]])
    assert "nodewise[baselines]" in capsys.readouterr().out


@pytest.mark.parametrize("width", [120, 80, 60])
def test_a_table_shows_every_letter_and_digit_however_narrow_the_terminal(capsys, monkeypatch, width):
    from nodewise.cli.console import print_table

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    numbers = ["82.10", "81.90", "0.512", "1234.5", "1000", "812"]
    columns = ["method", *(f"{i} F1 %" for i in range(6)), "note"]
    print_table(columns, [["GraphSAINT", *numbers, "stopped"]], right=columns[1:-1])
    out = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)  # without its colours
    assert max(map(len, out.splitlines())) <= width
    shown = Counter("".join([*columns, "GraphSAINT", *numbers, "stopped"]).replace(" ", ""))
    assert {letter: count for letter, count in Counter(out).items() if letter in shown} == shown


def test_an_interrupt_says_how_to_continue(run, store, tmp_path, monkeypatch):
    import nodewise.lab.compare.runner

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(nodewise.lab.compare.runner, "run_worker", interrupt)
    code, _, err = run("compare", store, "--methods", "sgc", *SPLITS, "-o", tmp_path / "out")
    assert code == 130
    assert "the same command continues from there" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "gnc"], "no such method"),
        (["--methods", ""], "no such method"),
        (["--methods", "sgc", "--splits", "2", "--split-file", "x.npz"], "give one of"),
        (["--methods", "sgc", "--split", "mine"], "the only named split"),
        (["--methods", "sgc", "--split-file", "none.npz"], "none.npz"),
        (["--methods", "sgc", "--budget", "-1"], "--budget -1.0"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_leaves_nothing(run, store, tmp_path, options, message):
    code, out, err = run("compare", store, *options, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "out").exists()
