"""nodewise reproduce, through its own entry point."""

import json


def test_it_writes_a_page_and_says_where(run, tmp_path):
    code, out, err = run("reproduce", "ghd", "-o", tmp_path / "out", "--quick")
    assert code == 0
    assert out.splitlines()[-1] == str(tmp_path / "out" / "index.html")
    assert "closed form" in out
    assert "Shapes of GHD" in err
    made = {"ghd.json", "ghd.png", "index.html", "report.md"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*made, "arguments.json"}
    assert json.loads((tmp_path / "out" / "ghd.json").read_text())["asked"]["quick"] is True


def test_a_second_call_says_that_nothing_was_left_to_do(run, tmp_path):
    run("reproduce", "ghd", "-o", tmp_path / "out")
    made = (tmp_path / "out" / "ghd.json").stat().st_mtime_ns
    code, _, err = run("reproduce", "ghd", "-o", tmp_path / "out")
    assert code == 0
    assert "ghd: already finished" in err
    assert (tmp_path / "out" / "ghd.json").stat().st_mtime_ns == made


def test_a_folder_of_something_else_is_left_alone(run, tmp_path):
    (tmp_path / "project" / "graphs").mkdir(parents=True)
    (tmp_path / "project" / "graphs" / "mine.txt").write_text("precious")
    code, _, err = run("reproduce", "ghd", "-o", tmp_path / "project", "--quick")
    assert code == 2
    assert "holds 'graphs' and is no reproduction of nodewise" in err
    assert [path.name for path in (tmp_path / "project").rglob("*")] == ["graphs", "mine.txt"]


def test_mistakes_end_with_code_2_and_one_line(run, tmp_path):
    for args, message in (
        (["table9", "-o", tmp_path / "out"], "table9: no such experiment"),
        (["ghd", "-o", tmp_path / "out", "--splits", "0"], "--splits 0: expected"),
        (["ghd", "-o", tmp_path / "out", "--splits-dir", tmp_path / "none"], "not a folder"),
    ):
        code, _, err = run("reproduce", *args)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert run("reproduce", "ghd")[0] == 2  # no folder named
