"""nodewise tune: one diffusion, many trials."""

import json
import math
import sys
import time

import numpy as np
import pytest

from nodewise import NIGCN, InputError, StoreError, find_preset, open_store, synthetic, write_store
from nodewise.learn.hop_weights import DEEPEST
from nodewise.learn.presets import presets, read_preset, write_preset
from nodewise.splits import Split, random_splits
from nodewise.tuning import study as study_file
from nodewise.tuning import tune
from nodewise.tuning.bank import HopBank
from nodewise.tuning.judge import EARLY, Task, judged
from nodewise.tuning.picture import make_figure
from nodewise.tuning.space import CHOICES, NUMBERS, completed, within
from nodewise.tuning.trials import STARTING, _floors

SIZES = dict(per_class=15, val=60, test=100)


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(400, avg_degree=8, classes=3, features=10, signal=0.8, seed=1)


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
    return tune(store, tmp_path_factory.mktemp("study") / "out", splits, trials=14, threads=2)


# ---------------------------------------------------------------------- the bank


@pytest.mark.parametrize("row_norm", ["l2", "none"])
@pytest.mark.parametrize(("omega", "rho", "tau"), [(1.0, 0.3, 1.0), (0.5, 1.0, 0.3), (1.2, 0.1, 3.0)])
def test_rows_are_those_of_a_model_with_the_same_parameters(graph, omega, rho, tau, row_norm):
    nodes = np.arange(50, 250)
    params = dict(omega=omega, rho=rho, tau=tau, row_norm=row_norm, max_hops=DEEPEST)
    bank = HopBank(graph, [nodes], "l1", epsilon=0.01, hops=None, seed=0, threads=1, memory=None)
    assert bank.engine == "exact"
    asked = np.array([70, 51, 249, 51])
    expected = NIGCN(**params, epsilon=0.01, engine="exact").represent(graph, asked)
    assert np.allclose(bank.rows(asked, params), expected, atol=1e-5)


def test_a_bank_is_as_deep_as_memory_allows(graph):
    def bank(memory):
        return HopBank(graph, [np.arange(100)], "l1", epsilon=0.01, hops=None, seed=0, threads=1, memory=memory)

    assert bank("1GB").hops == DEEPEST
    assert bank(2 * 4 * 100 * 10 * 6).hops == 5
    with pytest.raises(InputError, match="--memory"):
        bank(2 * 4 * 100 * 10 * 2)


# ---------------------------------------------------------------------- the space


@pytest.mark.parametrize("name", presets)
def test_a_preset_lies_within_the_space(graph, name):
    point = within({**NIGCN().get_params(), **presets[name]})
    assert all(low <= point[name] <= high for name, (low, high) in NUMBERS.items())
    assert all(point[name] in values for name, values in CHOICES.items())
    NIGCN(**completed(point, graph, DEEPEST)).check_params()


# ---------------------------------------------------------------------- a study


def test_a_study_tells_of_all_its_trials(tuned):
    assert [trial.number for trial in tuned.trials] == list(range(14))
    whole = [trial for trial in tuned.trials if not trial.given_up]
    assert tuned.best == max(whole, key=lambda trial: trial.value)
    assert tuned.best.value >= tuned.trials[0].value  # where a model without parameters ends
    assert tuned.picture.read_bytes().startswith(b"\x89PNG")


def test_the_value_of_a_trial_is_that_of_labels_that_stopped_no_network(graph, splits, tuned):
    bank = HopBank(graph, [np.arange(400)], "l1", epsilon=0.01, hops=DEEPEST, seed=0, threads=None, memory=None)
    scores = []
    for train, val, _ in splits:
        for stop, judge in ((val[::2], val[1::2]), (val[1::2], val[::2])):
            model = NIGCN(**{**tuned.params, "heads": 1})
            model.fit_rows(graph, [train, stop], [bank.rows(nodes, tuned.params) for nodes in (train, stop)])
            said = model.labels_of_proba(model.proba_of_rows(bank.rows(judge, tuned.params)))
            scores.append(np.mean(said == graph.labels[judge]))
    assert tuned.best.value == pytest.approx(np.mean(scores), abs=0.011)  # a label more or less by rounding


@pytest.fixture(scope="module")
def tasks(graph, splits):
    return [
        Task(graph.features[nodes], graph.labels[nodes], split.train.size)
        for split in splits
        for nodes in [np.concatenate([split.train, split.val])]
    ]


PARAMS = dict(omega=1.0, rho=0.1, tau=1.0, epsilon=0.1, layers=1, weight_decay=0.01, bias=True, heads=1, threads=1)


def test_trials_below_the_floor_of_any_step_but_the_last_are_given_up(tasks):
    whole = judged(PARAMS, tasks, [], math.inf)
    assert len(whole.reports) == 4  # two of each split
    assert not whole.given_up
    assert whole.value == whole.reports[-1]
    for step in range(4):
        floors = [0.0] * step + [1.1] + [0.0] * (3 - step)
        trial = judged(PARAMS, tasks, floors, math.inf)
        assert trial.given_up == (step < 3)
        assert trial.reports == whole.reports[: step + 1]
        assert trial.value == trial.reports[-1]


def test_a_trial_that_was_good_once_is_not_given_up(tasks, monkeypatch):
    worse_and_worse = iter([0.9, 0.1])

    def value(params, task, after_epoch):
        found = next(worse_and_worse)
        after_epoch(EARLY, found)
        return found

    monkeypatch.setattr("nodewise.tuning.judge._value", value)
    trial = judged(PARAMS, tasks, [0.8] * 4, math.inf)
    assert trial.reports == pytest.approx((0.9, 0.9, 0.5, 0.5))
    assert not trial.given_up


def test_floors_are_medians_of_trials_that_were_not_given_up(store, splits, tmp_path):
    tune(store, tmp_path / "out", splits, trials=STARTING, threads=1)
    study = study_file._opened(study_file._optuna(), tmp_path / "out" / study_file.STUDY, 0)
    reports = np.array([list(trial.intermediate_values.values()) for trial in study.trials])
    assert reports.shape == (STARTING, 4)  # none is given up so early
    assert _floors(study) == pytest.approx(np.median(reports, axis=0).tolist())


def test_no_trial_begins_after_the_deadline(tasks):
    assert judged(PARAMS, tasks, [], time.time() - 1) is None


def test_what_is_tried_does_not_depend_on_how_many_at_a_time(store, splits, tmp_path):
    both = [tune(store, tmp_path / f"{n}", splits[:1], trials=STARTING + 3, threads=n).trials for n in (1, 2)]
    alone, together = ([(t.point, t.value, t.given_up) for t in trials] for trials in both)
    assert alone == together


def test_test_labels_are_not_looked_at(graph, store, splits, tmp_path):
    labels = graph.labels.copy()
    labels[[node for node in range(400) if not any(node in part for s in splits for part in (s.train, s.val))]] = -1
    write_store(graph.replace(labels=labels), tmp_path / "blind")
    blind = tune(str(tmp_path / "blind"), tmp_path / "blind study", splits, trials=3, threads=1)
    seeing = tune(store, tmp_path / "study", splits, trials=3, threads=1)
    assert [t.value for t in blind.trials] == [t.value for t in seeing.trials]


def test_the_preset_is_what_a_model_takes(graph, splits, tuned):
    params = find_preset(str(tuned.preset))
    assert params == tuned.params
    assert NIGCN(**params).fit(graph, splits[0].train, splits[0].val).score(graph, splits[0].test) > 0.5


def test_the_same_call_goes_on(store, splits, tmp_path, monkeypatch):
    first = tune(store, tmp_path / "out", splits, trials=2, threads=1)
    told = []
    both = tune(store, tmp_path / "out", splits, trials=5, progress=told.append, threads=1)
    assert [t.number for t in both.trials] == [0, 1, 2, 3, 4]
    assert both.trials[:2] == first.trials
    assert [len(trials) for trials in told] == [2, 3, 4, 5]  # the bar begins where the study does
    assert told[-1] == both.trials
    monkeypatch.setattr(study_file, "Trials", None)  # nothing is computed any more
    assert tune(store, tmp_path / "out", splits, trials=5, threads=1).trials == both.trials


def test_what_an_interrupt_leaves_is_gone_on_from(store, splits, tmp_path):
    def interrupt(trials):
        if len(trials) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(store, tmp_path / "out", splits, trials=6, progress=interrupt, threads=1)
    assert len(tune(store, tmp_path / "out", splits, trials=3, threads=1).trials) == 3


def test_a_study_whose_last_line_is_cut_short_goes_on(store, splits, tmp_path):
    first = tune(store, tmp_path / "out", splits, trials=3, threads=1)
    log = tmp_path / "out" / "study.log"
    log.write_bytes(log.read_bytes()[:-20])
    again = tune(store, tmp_path / "out", splits, trials=4, threads=1).trials
    assert len(again) == 4
    assert again[:2] == first.trials[:2]
    assert tune(store, tmp_path / "out", splits, trials=4, threads=1).trials == again


def test_a_graph_without_features_is_refused_before_anything_is_written(graph, splits, tmp_path):
    write_store(graph.replace(features=None), tmp_path / "bare")
    with pytest.raises(InputError, match="no features"):
        tune(str(tmp_path / "bare"), tmp_path / "out", splits, trials=1)
    assert not (tmp_path / "out").exists()


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
    file = tmp_path / "out" / "study.log"
    file.write_bytes(b"{" + file.read_bytes())
    with pytest.raises(StoreError, match=r"study\.log: cannot be read as a study"):
        tune(store, tmp_path / "out", splits, trials=2, threads=1)


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
    assert tune(store, tmp_path / "out", splits, trials=1, threads=1).picture is None
    assert "nodewise[tune]" in caplog.text


def test_the_picture_has_every_parameter(tuned):
    labels = {axes.get_xlabel() for axes in make_figure(tuned).axes}
    assert {name.replace("_", " ") for name in (*NUMBERS, *CHOICES, "dropout")} <= labels


# ---------------------------------------------------------------------- presets in files


def test_a_preset_comes_back_as_it_was(tmp_path):
    write_preset(tmp_path / "p.json", "mine", presets["cora"])
    assert read_preset(tmp_path / "p.json") == presets["cora"] == find_preset("cora")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "nodewise-preset", "format_version": 9, "params": {}}'])
def test_a_file_that_is_no_preset_is_named(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(StoreError, match=r"p\.json: cannot be read as a preset"):
        find_preset(str(tmp_path / "p.json"))


def test_a_preset_that_is_nowhere_is_told_of():
    with pytest.raises(InputError, match="neither a file nor one of the presets"):
        find_preset("corra")


# ---------------------------------------------------------------------- the command


def test_what_tune_finds_train_takes(run, store, tmp_path):
    sizes = ["--per-class", "15", "--val", "60", "--test", "100"]
    code, out, err = run("tune", store, "-o", tmp_path / "out", "--trials", "2", *sizes)
    assert code == 0
    assert "2 trials" in out
    assert "--preset" in err
    preset = tmp_path / "out" / "preset.json"
    code, out, _ = run("train", store, "--preset", preset, "-o", tmp_path / "model", "--json", *sizes)
    assert code == 0
    assert json.loads(out)["params"]["omega"] == read_preset(preset)["omega"]
    assert NIGCN.load(tmp_path / "model").score(open_store(store), np.arange(400)) > 0.5


def test_a_preset_with_a_parameter_that_is_none_is_refused(run, store, tmp_path):
    write_preset(tmp_path / "p.json", "mine", {"omeg": 1.0})
    code, _, err = run("train", store, "--preset", tmp_path / "p.json", "-o", tmp_path / "model")
    assert code == 2
    assert "'omeg' is no parameter" in err
