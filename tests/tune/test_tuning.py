"""nodewise tune: one diffusion, many trials, and an honest verdict."""

import contextlib
import errno
import json
import math
import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nodewise import NIGCN, InputError, StoreError, find_preset, open_store, write_store
from nodewise._util import run_folder
from nodewise.graph import synthetic
from nodewise.graph.splits import Split, random_splits
from nodewise.learn import ensemble, fitting
from nodewise.learn.metrics import micro_f1
from nodewise.learn.presets import presets, read_preset, write_preset
from nodewise.learn.search import CURVES, DEEPEST
from nodewise.tune import judge, tune
from nodewise.tune import study as study_file
from nodewise.tune import trials as trials_file
from nodewise.tune.bank import HopBank, affordable_hops
from nodewise.tune.judge import Answers, Verdict, answers, compared, judged
from nodewise.tune.space import CHOICES, NAMES, NUMBERS, neighbours, within
from nodewise.tune.trial_plot import draw, make_figure
from nodewise.tune.trials import STARTING, Trial, Trials, _floors

SIZES = dict(per_class=10, val=40, test=100)
POINT = dict(omega=1.0, rho=0.3, lr=0.03, dropout=0.4, hidden=64, row_norm="l2", teach=True)
PARAMS = dict(**POINT, feature_norm="l1", epsilon=0.01, max_hops=DEEPEST)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Ensembles of ridges alone, and no picture: most of what is tested here needs neither."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "ROSTER", ())
        patch.setattr(study_file, "draw", lambda tuned, path: True)
        yield


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(300, avg_degree=8, classes=3, features=10, signal=0.8, seed=1)


@pytest.fixture(scope="module")
def store(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("tuning") / "store"
    write_store(graph, place)
    return str(place)


@pytest.fixture(scope="module")
def splits(graph):
    return random_splits(graph.labels, 2, seed=0, **SIZES)


@pytest.fixture(scope="module")
def tuned(store, splits, tmp_path_factory):
    return tune(store, tmp_path_factory.mktemp("study") / "out", splits, trials=STARTING + 2, threads=1)


@pytest.fixture(scope="module")
def trials(graph, splits):
    return Trials(graph, splits, PARAMS, 0, 1, None)


# ---------------------------------------------------------------------- the bank


@pytest.mark.parametrize("row_norm", ["l2", "none"])
@pytest.mark.parametrize(("omega", "rho", "hops"), [(0.9, 0.0, DEEPEST), (2.0, 1.0, DEEPEST), (1.2, 0.1, 5)])
def test_rows_are_those_of_a_model_with_the_same_parameters(graph, splits, omega, rho, hops, row_norm):
    params = dict(omega=omega, rho=rho, max_hops=hops, epsilon=0.01, feature_norm="l1", row_norm=row_norm)
    model = NIGCN(**params, engine="exact", threads=1).fit(graph, splits[0].train, splits[0].val)
    nodes = np.array([51, 70, 249])
    bank = HopBank(graph, nodes, "l1", hops, epsilon=0.01, threads=1)
    assert bank.engine == "exact"
    expected = replace(model.row_maker, own=True).rows(graph, nodes)
    assert np.allclose(bank.rows(omega, rho, row_norm), expected, atol=1e-6)


def test_a_bank_is_as_deep_as_memory_allows():
    assert affordable_hops(100, 10, "1GB") == DEEPEST
    assert affordable_hops(100, 10, 2 * 4 * 100 * 10 * 6) == 5
    with pytest.raises(InputError, match="--memory"):
        affordable_hops(100, 10, 2 * 4 * 100 * 10 * 2)


# ---------------------------------------------------------------------- the space


@pytest.mark.parametrize("curve", CURVES)
def test_every_default_and_its_neighbours_have_a_place(curve):
    default = {**POINT, "omega": curve[0], "rho": curve[1]}
    for point in (default, *neighbours(default, DEEPEST)):
        NIGCN(**point).check_params()
        place = within(point)
        assert all(low <= place[name] <= high for name, (low, high) in NUMBERS.items())
        assert all(place[name] in values for name, values in CHOICES.items())


def test_neighbours_differ_in_one_thing():
    for point in neighbours(POINT, DEEPEST):
        assert sum(point[name] != POINT[name] for name in NAMES) == 1


# ---------------------------------------------------------------------- what a trial is worth


def test_halves_share_the_validation_nodes_class_by_class(graph, splits, trials):
    for split, problem in zip(splits, trials._problems(0), strict=True):
        halves = [trials.bank.nodes[half] for half in problem.halves]
        assert sorted(np.concatenate(halves)) == sorted(split.val)
        counts = [np.bincount(graph.labels[half], minlength=3) for half in halves]
        assert np.abs(counts[0] - counts[1]).max() <= 1


def test_the_half_that_judges_is_not_learned_from(trials):
    problem = trials._problems(0)[0]
    for half in (0, 1):
        labels = problem.labels.copy()
        labels[problem.halves[half]] = np.roll(labels[problem.halves[half]], 7)
        said = [list(answers(PARAMS, 0, trials.rows(PARAMS), [replace(problem, labels=seen)]))[half].predicted
                for seen in (problem.labels, labels)]  # fmt: skip
        assert np.array_equal(*said)


def test_the_value_is_the_mean_over_halves_and_splits(trials):
    parts = list(answers(PARAMS, 0, trials.rows(PARAMS), trials._problems(0)))
    scores = [micro_f1(part.true, part.predicted) for part in parts]
    assert len(scores) == 4
    found = judged(PARAMS, 0, trials.rows(PARAMS), trials._problems(0), [], math.inf)
    assert found.value == pytest.approx(np.mean(scores))
    assert found.reports == pytest.approx([np.mean(scores[: i + 1]) for i in range(4)])


def scored(monkeypatch, scores):
    """Let each half have this many of ten labels right."""

    def parts(params, seed, rows, problems):
        for score in scores:
            yield Answers(np.arange(10), np.ones(10, int), (np.arange(10) < score).astype(int))

    monkeypatch.setattr(judge, "answers", parts)


def test_trials_below_the_floor_of_any_step_but_the_last_are_given_up(monkeypatch):
    scored(monkeypatch, [5, 5, 5, 5])
    for step in range(4):
        floors = [0.0] * step + [0.6] + [0.0] * (3 - step)
        trial = judged({}, 0, None, [None, None], floors, math.inf)
        assert trial.given_up == (step < 3)
        assert trial.reports == [0.5] * (step + 1)


def test_a_trial_that_was_good_once_is_not_given_up(monkeypatch):
    scored(monkeypatch, [9, 1, 1, 1])
    trial = judged({}, 0, None, [None, None], [0.8] * 4, math.inf)
    assert trial.reports == pytest.approx((0.9, 0.5, 11 / 30, 0.3))
    assert not trial.given_up


def test_no_trial_begins_after_the_deadline():
    assert judged({}, 0, None, [], [], time.time() - 1) is None


def test_where_training_diverges_nothing_is_right(trials, monkeypatch):
    def diverge(*args):
        raise InputError("training diverged")

    monkeypatch.setattr(judge, "learn", diverge)
    assert judged(PARAMS, 0, trials.rows(PARAMS), trials._problems(0), [], math.inf).value == 0


def test_nodes_with_several_labels_are_judged_by_micro_f1(graph):
    several = graph.replace(
        labels=np.stack([graph.labels == 0, graph.labels > 0, graph.labels == 2], 1).astype(np.int8)
    )
    split = Split(np.arange(60), np.arange(60, 120), np.arange(120, 300))
    more = Trials(several, [split], PARAMS, 0, 1, None)
    assert more.bank.nodes.size == 120  # several labels are not taught
    assert judged(PARAMS, 0, more.rows(PARAMS), more._problems(0), [], math.inf).value > 0.6


# ---------------------------------------------------------------------- the verdict


def said(right, places=None):
    right = np.array(right)
    return Answers(np.arange(right.size) if places is None else np.array(places), np.ones(right.size, int), right)


def test_labels_that_differ_decide():
    old, new = said([1, 1, 1, 0, 0, 0, 0, 0]), said([1, 1, 0, 1, 1, 1, 0, 0])
    assert compared([old], [new]) == Verdict(3 / 8, 5 / 8, 2, 2.0)  # three gained, one lost


def test_what_splits_say_of_one_node_counts_together():
    """One node gained in each of three splits is one coin that fell once, not three."""
    old, new = [said([0, 1], [4, 7])] * 3, [said([1, 1], [4, 7])] * 3
    assert compared(old, new) == Verdict(0.5, 1.0, 3, 3.0)


def lucky(params, seed, rows, problems):
    """Half of the labels are right; without teaching, all of them, by luck: with seed 0 only."""
    for problem in problems:
        for places in problem.halves:
            true = problem.labels[places]
            right = np.arange(places.size) % 2 == 0
            yield Answers(places, true, np.where(right | (seed == 0 and not params["teach"]), true, -1))


def test_luck_does_not_come_twice(store, splits, tmp_path, monkeypatch):
    for file in (judge, trials_file):
        monkeypatch.setattr(file, "answers", lucky)
    found = tune(store, tmp_path / "out", splits, trials=STARTING, threads=1)
    assert (found.trials[0].value, found.best.value) == (0.5, 1.0)
    assert not found.best.point["teach"]
    assert (found.default_value, found.confirmed_value, found.gain, found.is_better) == (0.5, 0.5, 0, False)
    assert find_preset(str(found.preset)) == found.params
    assert found.params["teach"]  # the preset is the default


def test_a_clearly_better_point_is_found_and_kept(store, splits, tmp_path, monkeypatch):
    """By each node's own features a third of the labels is lost; a bad default is one that looks no further."""
    bad = {**PARAMS, "omega": 0.05, "rho": 0.0}
    monkeypatch.setattr(study_file, "default_params", lambda *args: bad)
    monkeypatch.setattr(trials_file, "neighbours", lambda point, hops: [{**point, "omega": 1.6, "rho": 0.3}])
    found = tune(store, tmp_path / "out", splits, trials=2, threads=1)
    assert found.best.number == 1
    assert found.is_better
    assert found.confirmed_value > found.default_value + 0.15
    assert find_preset(str(found.preset)) == found.params == {**bad, "omega": 1.6, "rho": 0.3}


def test_a_default_that_is_best_is_compared_with_nothing(store, splits, tmp_path, monkeypatch):
    monkeypatch.setattr(Trials, "compare", None)
    found = tune(store, tmp_path / "out", splits, trials=1, threads=1)
    assert found.best == found.trials[0]
    assert (found.gain, found.is_better) == (0, False)


# ---------------------------------------------------------------------- a study


def test_a_study_returns_all_its_trials(tuned):
    assert [trial.number for trial in tuned.trials] == list(range(STARTING + 2))
    assert tuned.best == max((t for t in tuned.trials if not t.given_up), key=lambda trial: trial.value)
    assert json.loads(json.dumps(tuned.to_json()))["is_better"] == tuned.is_better


def test_the_preset_of_the_default_makes_the_default_model(graph, store, splits, tmp_path):
    split = splits[0]
    found = tune(store, tmp_path / "out", splits, trials=1, threads=1)
    default = NIGCN(threads=1).fit(graph, split.train, split.val)
    assert {**found.params, **default.auto_params_, "hops": 0} == {**found.params, "hops": 0}
    model = NIGCN(**find_preset(str(found.preset)), threads=1).fit(graph, split.train, split.val)
    assert np.allclose(model.predict_proba(graph), default.predict_proba(graph), atol=1e-6)


def kept(folder):
    """What the folder of a study says about it."""
    return json.loads((folder / "arguments.json").read_text())["state"]


def test_floors_are_medians_of_trials_that_were_not_given_up(store, splits, tmp_path):
    tune(store, tmp_path / "out", splits, trials=STARTING, threads=1)
    reports = np.array([trial["reports"] for trial in kept(tmp_path / "out")["trials"]])
    assert reports.shape == (STARTING, 4)  # none is given up so early
    trials = [Trial(**trial) for trial in kept(tmp_path / "out")["trials"]]
    assert _floors(trials) == pytest.approx(np.median(reports, axis=0).tolist())


def test_what_is_tried_does_not_depend_on_how_many_at_a_time(store, splits, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "ROSTER", ensemble.ROSTER)  # processes have the whole one
    monkeypatch.setattr(trials_file, "BATCH", 2)
    monkeypatch.setattr(trials_file, "neighbours", lambda point, hops: [])  # Optuna proposes all but the first
    alone, together = (tune(store, tmp_path / f"{n}", splits[:1], trials=3, threads=n) for n in (1, 2))
    assert [(t.point, t.value) for t in alone.trials] == [(t.point, t.value) for t in together.trials]
    assert (alone.gain, alone.standard_error) == (together.gain, together.standard_error)


def test_test_labels_are_not_looked_at(graph, store, splits, tmp_path):
    labels = graph.labels.copy()
    labels[[node for node in range(300) if not any(node in part for s in splits for part in (s.train, s.val))]] = -1
    write_store(graph.replace(labels=labels), tmp_path / "blind")
    blind = tune(str(tmp_path / "blind"), tmp_path / "blind study", splits, trials=3, threads=1)
    seeing = tune(store, tmp_path / "study", splits, trials=3, threads=1)
    assert [t.value for t in blind.trials] == [t.value for t in seeing.trials]


def test_the_same_call_continues_where_the_last_one_stopped(store, splits, tmp_path, monkeypatch):
    first = tune(store, tmp_path / "out", splits, trials=2, threads=1)
    seen = []
    both = tune(store, tmp_path / "out", splits, trials=5, progress=lambda *args: seen.append(args), threads=1)
    assert [t.number for t in both.trials] == [0, 1, 2, 3, 4]
    assert both.trials[:2] == first.trials
    assert [args for args in seen if args[0] == "trials"] == [("trials", n, 5) for n in (2, 3, 4, 5)]
    assert not any(args[0].startswith("default") for args in seen)  # it is known
    monkeypatch.setattr(study_file, "Trials", None)  # nothing is computed any more
    assert tune(store, tmp_path / "out", splits, trials=5, threads=1) == both


@pytest.mark.parametrize("after", [0, 2])
def test_an_interrupted_study_continues(store, splits, tmp_path, after):
    def interrupt(stage, done, total):
        if (stage, done) == ("trials", after):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(store, tmp_path / "out", splits, trials=6, progress=interrupt, threads=1)
    found = tune(store, tmp_path / "out", splits, trials=3, threads=1).trials
    assert len(found) == 3
    default = kept(tmp_path / "out")["default"]
    assert found[0].point == {name: default[name] for name in NAMES}


def test_a_graph_without_features_can_be_tuned(graph, splits, tmp_path):
    write_store(graph.replace(features=None), tmp_path / "bare")
    assert len(tune(str(tmp_path / "bare"), tmp_path / "out", splits, trials=1, threads=1).trials) == 1


def test_large_seeds_are_taken(store, splits, tmp_path):
    assert len(tune(store, tmp_path / "out", splits, trials=2, seed=2**63 - 1, threads=1).trials) == 2


def test_time_runs_out(store, splits, tmp_path):
    assert len(tune(store, tmp_path / "out", splits, trials=10**6, timeout=0.5, threads=1).trials) < 1000


# ---------------------------------------------------------------------- what is refused


def test_another_study_in_the_folder_is_refused(store, splits, tmp_path):
    tune(store, tmp_path / "out", splits, trials=1, threads=1)
    with pytest.raises(StoreError, match="seed is 0 there and 1 here"):
        tune(store, tmp_path / "out", splits, trials=1, seed=1, threads=1)
    with pytest.raises(StoreError, match="splits"):
        tune(store, tmp_path / "out", splits[:1], trials=1)


def test_a_folder_of_something_else_is_left_alone(store, splits, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match=r"thesis\.txt"):
        tune(store, tmp_path, splits, trials=1)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_study_is_named(store, splits, tmp_path):
    tune(store, tmp_path / "out", splits, trials=1, threads=1)
    file = tmp_path / "out" / "arguments.json"
    file.write_text(file.read_text().replace('"value": 0.', '"value": 0.0'))
    with pytest.raises(StoreError, match=r"arguments\.json: .*altered since it was written"):
        tune(store, tmp_path / "out", splits, trials=2, threads=1)


ODD = [None, True, -1, 10**400, float("nan"), "x", [], {"a": 1}, [[1]], 10**9]


def test_only_our_errors_leave_a_study_that_was_altered_anywhere(store, splits, tmp_path):
    """With a checksum that fits, as from someone else."""
    tune(store, tmp_path / "out", splits, trials=2, threads=1)
    file = tmp_path / "out" / "arguments.json"
    whole = file.read_text()

    def altered(seed):
        content, rng = json.loads(whole), random.Random(seed)
        del content["sha256"]
        at = content["state"]
        while True:
            key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
            if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.2:
                at[key] = rng.choice(ODD)
                return {**content, "sha256": run_folder._digest(content)}
            at = at[key]

    for seed in range(60):
        file.write_text(json.dumps(altered(seed)))
        with contextlib.suppress(InputError, StoreError):
            study_file._opened(study_file._optuna(), study_run(file), 0)
    for change in ({"trials": {}}, {"default": {}}, {"verdict": {}}, {"more": 1}):
        content = json.loads(whole)
        del content["sha256"]
        content["state"] |= change
        file.write_text(json.dumps({**content, "sha256": run_folder._digest(content)}))
        with pytest.raises(StoreError, match="cannot be read as a study"):
            tune(store, tmp_path / "out", splits, trials=2, threads=1)


def study_run(file):
    return run_folder.RunFolder(file.parent, "study", json.loads(file.read_text())["identity"])


def test_a_disk_that_fills_up_ends_the_command_with_its_error(run, store, tmp_path, monkeypatch):
    def full(self, text, **how):
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    sizes = ["--per-class", "10", "--val", "40", "--test", "100", "--threads", "1"]
    monkeypatch.setattr("pathlib.Path.write_text", full)
    code, _, err = run("tune", store, "-o", tmp_path / "out", "--trials", "1", *sizes)
    assert code == 2
    assert "No space left on device; free some space" in err


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("at_work", [False, True])
def test_workers_end_with_the_process_that_started_them(tmp_path, at_work):
    """A trial that takes a minute, whose study is killed as its workers start, or later."""
    program = (
        "import os, time, joblib, pathlib\n"
        "from nodewise.tune.trials import _in_processes\n"
        "def trial():\n"
        "    pathlib.Path(str(os.getpid())).touch()\n"
        "    time.sleep(60)\n"
        "_in_processes(2)(joblib.delayed(trial)() for _ in range(2))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        assert eventually(lambda: len(children.read_text().split()) >= 3, 60)  # two, and one that tidies up after them
        assert not at_work or eventually(lambda: len(list(tmp_path.iterdir())) == 2, 60)
        started = children.read_text().split()
    finally:
        parent.kill()
        parent.wait()
    assert eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in started), 10)


def eventually(look, seconds):
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, "trials=0"),
        ({"timeout": 0}, "timeout=0"),
        ({"splits": []}, "splits: none"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": 0}, "threads=0"),
        ({"memory": "much"}, "memory 'much'"),
        ({"splits": [Split(np.zeros(0, int), np.arange(9), np.arange(9, 12))]}, "split 0: train: no training node"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(store, splits, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        tune(store, tmp_path / "out", **{"splits": splits, "trials": 1, **changes})
    assert not (tmp_path / "out").exists()


def test_a_split_without_validation_nodes_is_refused(store, splits, tmp_path):
    bare = Split(splits[0].train, splits[0].val[:1], splits[0].test)
    with pytest.raises(InputError, match="1 validation nodes"):
        tune(store, tmp_path / "out", [bare], trials=1)


def test_without_optuna_the_extra_is_named(store, splits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"nodewise\[tune\]"):
        tune(store, tmp_path / "out", splits, trials=1, threads=1)


def test_without_matplotlib_the_extra_is_named(store, splits, tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(study_file, "draw", draw)
    assert tune(store, tmp_path / "out", splits, trials=1, threads=1).picture is None
    assert "nodewise[tune]" in caplog.text


def test_the_picture_has_every_parameter(tuned, tmp_path):
    labels = {axes.get_xlabel() for axes in make_figure(tuned).axes}
    assert {name.replace("_", " ") for name in NAMES} <= labels
    assert draw(tuned, tmp_path / "trials.png")
    assert (tmp_path / "trials.png").read_bytes().startswith(b"\x89PNG")


# ---------------------------------------------------------------------- presets in files


def test_a_preset_comes_back_as_it_was(tmp_path):
    write_preset(tmp_path / "p.json", "mine", presets["cora"])
    assert read_preset(tmp_path / "p.json") == presets["cora"] == find_preset("cora")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "nodewise-preset", "format_version": 9, "params": {}}'])
def test_a_file_that_is_no_preset_is_named(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(StoreError, match=r"p\.json: cannot be read as a preset"):
        find_preset(str(tmp_path / "p.json"))


def test_an_unknown_preset_is_refused():
    with pytest.raises(InputError, match="neither a file nor one of the presets"):
        find_preset("corra")


# ---------------------------------------------------------------------- the command


def test_what_tune_finds_train_takes(run, store, tmp_path):
    sizes = ["--per-class", "10", "--val", "40", "--test", "100", "--threads", "1"]
    code, out, err = run("tune", store, "-o", tmp_path / "out", "--trials", "2", *sizes)
    assert code == 0
    assert "2 trials" in out
    assert "than the default" in out or "no measurable gain over the default" in out
    assert "--preset" in err
    preset = tmp_path / "out" / "preset.json"
    code, out, _ = run("train", store, "--preset", preset, "-o", tmp_path / "model", "--json", *sizes)
    assert code == 0
    assert json.loads(out)["params"]["omega"] == read_preset(preset)["omega"]
    assert NIGCN.load(tmp_path / "model").score(open_store(store), np.arange(300)) > 0.5


@pytest.mark.parametrize(("gain", "words"), [(9, "better than the default: judged once more, trial 3 has 9 more"),
                                             (0, "no measurable gain over the default: .* as many"),
                                             (-2, "no measurable gain over the default: .* 2 fewer")])  # fmt: skip
def test_the_command_says_whether_it_found_better(tuned, capsys, gain, words):
    from nodewise.cli.tune import _show

    _show(replace(tuned, best=replace(tuned.best, number=3), gain=gain, standard_error=4.0))
    out = capsys.readouterr().out
    assert re.search(words, out)
    assert f"parameters of {'trial 3' if gain == 9 else 'the default'}" in out


def test_a_preset_with_a_parameter_that_is_none_is_refused(run, store, tmp_path):
    write_preset(tmp_path / "p.json", "mine", {"omeg": 1.0})
    code, _, err = run("train", store, "--preset", tmp_path / "p.json", "-o", tmp_path / "model")
    assert code == 2
    assert "'omeg'" in err
