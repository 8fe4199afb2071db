"""The experiments at tiny sizes: what they write, what they say, and what they do when called again."""

import dataclasses
import json
from html.parser import HTMLParser

import numpy as np
import pytest

from nodewise import NIGCN, InputError, StoreError
from nodewise.datasets import load
from nodewise.graph import synthetic
from nodewise.lab.compare import Comparison, FinishedSplit, MethodRow, Step
from nodewise.lab.paper import (
    EXPERIMENTS,
    Column,
    Context,
    Figure,
    Result,
    Table,
    complexity,
    plotting,
    reproduce,
    subjects,
    variants,
)
from nodewise.lab.paper.complexity import slope
from nodewise.lab.paper.experiments import Experiment, experiments_named
from nodewise.lab.paper.f1_and_time import f1_table, shortfalls, table_run
from nodewise.lab.paper.neighbour_weights import share_of_neighbours
from nodewise.lab.paper.page import html_page, markdown_lines
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Record, shown
from nodewise.lab.paper.runs import compared
from nodewise.lab.paper.variants import effect
from nodewise.lab.rivals import METHODS, method
from nodewise.lab.rivals import settings as preset
from nodewise.learn.evaluate import evaluate

TINY = subjects.Shape(2_200, 2_200, homophily=0.5, signal=4.0)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A context with stand-ins of a few nodes and no data set."""
    monkeypatch.delenv("NODEWISE_DATA", raising=False)
    monkeypatch.setenv("NODEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subjects, "SHAPES", dict.fromkeys(facts("datasets")["rows"], TINY))
    monkeypatch.setattr(subjects, "SMALL", ())
    rows = {name: [nodes, 6 * nodes, 8, 4] for name, (nodes, *_) in facts("datasets")["rows"].items()}
    monkeypatch.setitem(facts("datasets"), "rows", rows)
    monkeypatch.setattr(subjects, "VAL", 60)
    monkeypatch.setattr(subjects, "TEST", 100)
    return Context(tmp_path / "out", quick=True, splits=2, threads=1)


@pytest.fixture
def toy(monkeypatch):
    """An experiment that counts how often it is run."""
    calls = []

    def run(context):
        calls.append(context)
        png = plotting.picture(lambda axis: axis.plot([0, 1], [1, 0]))
        columns = [Column("method"), Column("paper", ".1f", "cora"), Column("here", ".1f", "cora", best="max")]
        table = Table("a <table>", columns, [["NIGCN", [80.0, 1.0], [81.0, 2.0]], ["SGC", None, "out of memory"]])
        return Result(["It is 5 < 6."], [table], [Figure("toy", png, "a & b")], ["nothing"])

    monkeypatch.setattr(Experiment, "run", lambda _, context: run(context))
    return calls


# ---------------------------------------------------------------------- the paper's numbers


def test_every_method_has_a_score_in_the_paper():
    assert {*facts("transductive_f1")["rows"], *facts("inductive_f1")["rows"]} == set(METHODS)


@pytest.mark.parametrize(
    "name", ["transductive_f1", "inductive_f1", "seconds_small", "seconds_large", "labels", "labels_seconds",
             "sensitivity", "hyperparameters", "head", "datasets", "complexity", "ghd"]
)  # fmt: skip
def test_every_row_of_the_paper_has_one_number_per_column(name):
    table = facts(name)
    assert table["source"]
    assert {len(row) for row in table["rows"].values()} == {len(table["columns"])}


def test_scores_of_the_paper_are_percent_with_a_deviation():
    scores = [
        cell for t in ("transductive_f1", "inductive_f1", "labels") for row in facts(t)["rows"].values() for cell in row
    ]
    assert all(0 < mean < 100 and 0 < spread < 5 for mean, spread in filter(None, scores))


def test_a_fact_is_read_by_row_and_column():
    assert reported("inductive_f1", "NIGCN", "amazon") == [63.45, 0.70]
    assert reported("inductive_f1", "FastGCN", "amazon") is None
    assert reported("inductive_f1", "GRAND+", "amazon") is None


def test_the_paper_and_the_ablation_agree_on_nigcn():
    assert facts("ablation")["rows"]["NIGCN"] == reported("inductive_f1", "NIGCN", "amazon")
    assert reported("sensitivity", "tau", 1) == facts("ablation")["rows"]["NIGCN"][0]


# ---------------------------------------------------------------------- keeping and resuming


def test_a_finished_experiment_is_read_from_its_file_and_run_again_only_with_other_arguments(toy, tmp_path):
    context = Context(tmp_path / "out")
    first = reproduce(["ghd"], context)
    assert reproduce(["ghd"], context) == first
    assert len(toy) == 1
    reproduce(["ghd"], dataclasses.replace(context, seed=1))
    assert len(toy) == 2


@pytest.mark.parametrize("damage", ["no picture", "half a file", "another form"])
def test_a_damaged_record_is_made_again(toy, tmp_path, damage):
    context = Context(tmp_path / "out")
    reproduce(["ghd"], context)
    if damage == "no picture":
        (tmp_path / "out" / "toy.png").unlink()
    else:
        text = (tmp_path / "out" / "ghd.json").read_text()
        (tmp_path / "out" / "ghd.json").write_text(text[: len(text) // 2] if damage == "half a file" else "{}")
    reproduce(["ghd"], context)
    assert len(toy) == 2
    assert json.loads((tmp_path / "out" / "ghd.json").read_text())["name"] == "ghd"


@pytest.mark.parametrize(
    "change",
    [{"figures": [["../secret.png", "x"]]}, {"name": "table2"}, {"made": {}}, {"sentences": [1]}, {"tables": [{}]},
     {"tables": [{"title": "t", "columns": [{"name": "c", "format": "999999999"}], "rows": [[1.0]]}]},
     {"tables": [{"title": "t", "columns": [{"name": "c"}], "rows": [[1.0, 2.0]]}]},
     {"tables": [{"title": "t", "columns": [{"name": "c", "format": ".1f"}], "rows": [[[1.0]]]}]}],
)  # fmt: skip
def test_a_record_that_no_experiment_writes_is_made_again(toy, tmp_path, change):
    context, file = Context(tmp_path / "out"), tmp_path / "out" / "ghd.json"
    reproduce(["ghd"], context)
    (tmp_path / "secret.png").write_text("of another folder")
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    reproduce(["ghd"], context)
    assert len(toy) == 2
    assert json.loads(file.read_text())["name"] == "ghd"


def test_an_experiment_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    def run(self, context):
        if self.name == "ghd":
            raise InputError("no such graph")
        return Result(["done"])

    monkeypatch.setattr(Experiment, "run", run)
    with pytest.raises(InputError, match="ghd did not finish; ghd: no such graph"):
        reproduce(["ghd", "weights"], Context(tmp_path / "out"))
    assert (tmp_path / "out" / "weights.json").is_file()
    assert not (tmp_path / "out" / "ghd.json").exists()


def test_matplotlib_is_asked_for_before_anything_is_run(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"nodewise\[baselines\]"):
        reproduce(["ghd"], Context(tmp_path / "out"))
    assert toy == []


def test_wrong_arguments_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    for context, error, message in (
        (Context(tmp_path / "file"), StoreError, "this is a file"),
        (Context(tmp_path, splits=0), InputError, "splits=0"),
        (Context(tmp_path, budget=-1.0), InputError, "budget=-1.0"),
        (Context(tmp_path, splits_dir=tmp_path / "none"), InputError, "none: not a folder"),
    ):
        with pytest.raises(error, match=message):
            reproduce(["ghd"], context)
    with pytest.raises(InputError, match="table9: no such experiment; there are table2"):
        experiments_named(["table9"])


def test_all_means_every_experiment():
    assert [experiment.name for experiment in experiments_named(["all"])] == list(EXPERIMENTS)


# ---------------------------------------------------------------------- the page


class Page(HTMLParser):
    """The links, unclosed tags and text of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.open, self.text = [], [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        self.links += [(tag, value) for name, value in attrs if name in ("src", "href", "srcset", "data", "poster")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_no_other_file(toy, tmp_path):
    reproduce(["ghd"], Context(tmp_path / "out"))
    page = Page(tmp_path / "out" / "index.html")
    assert page.open == []
    assert {tag for tag, _ in page.links} == {"a", "img"}
    assert all(link.startswith(("data:image/png;base64,", "#")) for _, link in page.links)
    assert not any(word in "".join(page.text) for word in ("@import", "url("))  # the style is text too


def test_what_an_experiment_says_is_text_on_the_page_not_markup(toy, tmp_path):
    reproduce(["ghd"], Context(tmp_path / "out"))
    text = "".join(Page(tmp_path / "out" / "index.html").text)
    assert "It is 5 < 6." in text
    assert "a <table>" in text


def test_page_and_report_say_how_it_was_run(toy, tmp_path):
    reproduce(["ghd"], Context(tmp_path / "out", quick=True, seed=3))
    page, report = ((tmp_path / "out" / name).read_text() for name in ("index.html", "report.md"))
    for text in (page, report):
        assert "nodewise reproduce ghd -o out --quick --seed 3" in text
        assert "UTC" in text
    assert "numpy" in page
    assert "cores of" in page or "core of" in page


def test_the_best_of_a_column_stands_out():
    columns = [Column("method"), Column("F1", ".1f", best="max"), Column("seconds", ".1f", best="min")]
    table = Table("t", columns, [["a", [80.0, 1.0], 2.0], ["b", [81.0, 1.0], 3.0], ["c", "out of memory", None]])
    assert markdown_lines(table)[2:] == [
        "| a | 80.0 ± 1.0 | **2.0** |",
        "| b | **81.0 ± 1.0** | 3.0 |",
        "| c | out of memory | – |",
    ]


def test_differences_far_from_the_paper_are_coloured(tmp_path):
    made = {"command": "c", "date": "d", "seconds": 1.0, "versions": {"nodewise": "0"},
            "machine": {"cores": 1, "memory": None, "processor": "p", "system": "s"}}  # fmt: skip
    table = Table("t", [Column("method"), Column("difference", "+.1f")], [["a", -2.5], ["b", 2.5], ["c", 0.5]])
    page = html_page([Record("ghd", {}, made, [], [], [table], [])], tmp_path)
    assert '<td class="number low">−2.5</td>' in page
    assert '<td class="number high">+2.5</td>' in page
    assert '<td class="number">+0.5</td>' in page


def test_numbers_are_shown_as_asked():
    assert shown(1234.5, ",.0f") == "1,234"
    assert shown("budget", ".2f") == "budget"


# ---------------------------------------------------------------------- words and numbers


def test_an_effect_is_told_from_the_differences_on_the_same_splits():
    """Scores that vary by ten points from split to split, always one point apart: an effect, though small."""
    base = [50.0, 60.0, 70.0]
    assert "an effect is seen" in effect("a", [score - 1 for score in base], "b", base)
    assert "no effect is seen" in effect("a", [51.0, 60.0, 69.0], "b", base)
    assert "too few to tell" in effect("a", [51.0], "b", [50.0])


def test_the_slope_is_the_exponent_of_a_power_law():
    assert slope([(n, 3e-6 * n**0.7) for n in (10**5, 10**6, 10**7)]) == pytest.approx(0.7)
    assert slope([(10**5, 2.0), (10**6, 2.0), (10**7, None)]) == pytest.approx(0.0)
    assert slope([(10**5, 2.0), (10**6, None)]) is None


def test_the_share_of_neighbours_counts_the_one_that_crosses():
    weights = np.array([0.5, 0.3, 0.1, 0.1])
    assert share_of_neighbours(weights, 0.8) == 0.5
    assert share_of_neighbours(weights, 0.81) == 0.75
    assert share_of_neighbours(weights, 1.0) == 1.0


# ---------------------------------------------------------------------- subjects and splits


def test_without_data_a_stand_in_says_that_it_is_one(tiny):
    subject = subjects.find_subject("amazon", tiny)
    graph = subjects.open_subject(subject, tiny)
    assert not subject.is_original
    assert "synthetic stand-in of 2,200 nodes" in subject.ran_on
    assert (graph.num_nodes, graph.num_features, graph.present_labels.size) == (2_200, 8, 4)
    parts = np.concatenate([graph.splits[part] for part in ("train", "val", "test")])
    assert np.array_equal(np.sort(parts), np.arange(2_200))


def test_inductive_splits_stay_within_the_official_parts(tiny):
    graph = subjects.open_subject(subjects.find_subject("reddit", tiny), tiny)
    splits = subjects.part_splits(graph, 3, seed=0)
    for split in splits:
        for part, nodes in zip(("train", "val", "test"), split, strict=True):
            assert np.isin(nodes, graph.splits[part]).all()
        assert np.array_equal(np.bincount(graph.labels[split.train]), [20] * 4)
    assert not np.array_equal(splits[0].train, splits[1].train)
    assert subjects.part_splits(graph, 1, seed=0, train=37)[0].train.size == 37


def test_splits_come_from_a_file_where_there_is_one(tiny, tmp_path, monkeypatch):
    graph = synthetic.dcsbm(300, classes=3, features=4, seed=0)
    parts = np.random.default_rng(0).permutation(300).reshape(3, 100)[:, None]
    (tmp_path / "splits").mkdir()
    np.savez(tmp_path / "splits" / "cora.npz", train=parts[0], val=parts[1], test=parts[2])
    subject = subjects.Subject("cora", "cora", "", is_original=True)
    context = dataclasses.replace(tiny, splits=1, splits_dir=tmp_path / "splits")
    splits, source = subjects.splits_of(subject, graph, context)
    assert np.array_equal(splits[0].train, parts[0, 0])
    assert "cora.npz" in source
    monkeypatch.setenv("NODEWISE_DATA", str(tmp_path))
    assert subjects.splits_of(subject, graph, dataclasses.replace(tiny, splits=1))[1] == source
    with pytest.raises(InputError, match=r"holds 1 splits, expected at least 2; pass --splits 1"):
        subjects.splits_of(subject, graph, dataclasses.replace(context, splits=2))


def test_without_a_file_splits_are_drawn_and_said_to_be(tiny):
    graph = synthetic.dcsbm(400, classes=3, features=4, seed=0)
    subject = subjects.Subject("cora", "cora", "", is_original=True)
    splits, source = subjects.splits_of(subject, graph, tiny)
    assert [part.size for part in splits[0]] == [60, 60, 100]
    assert source.startswith("2 random splits: 20 per class")


# ---------------------------------------------------------------------- the experiments


def test_ghd_and_weights(tiny, monkeypatch):
    monkeypatch.setattr("nodewise.lab.paper.neighbour_weights.QUICK_TARGETS", 3)
    records = {record.name: record for record in reproduce(["ghd", "weights"], tiny)}
    curves = {row[0]: row for row in records["ghd"].tables[0].rows}
    assert curves["HKPR"][3] in (4, 5)  # a Poisson distribution of mean 5
    assert curves["PPR"][-1] == pytest.approx(0.5)
    table = {row[1]: row for row in records["weights"].tables[0].rows}
    assert table["exact"][5] == 0
    assert 0 < table["stratified"][5] < 1
    assert table["walks"][3] == pytest.approx(10.6)


def test_every_variant_differs_from_nigcn_in_one_thing(tiny):
    """With two things changed at once the ablation would not tell which of them matters."""
    (setup,) = variants.setups(tiny)
    made = {name: NIGCN(**{**setup.settings, **changes}) for name, changes in variants.variants(setup, "theta").items()}
    params = {name: dataclasses.asdict(model.row_maker.params) for name, model in made.items()}
    base = params.pop("NIGCN")
    differ = {name: {key: own[key] for key in own if own[key] != base[key]} for name, own in params.items()}
    length = differ["UDL"].pop("length")
    assert differ == {"HKPR": {"rho": 1.0}, "UDL": {}, "NFK": {"first_k": False}}
    assert base["length"] is None
    assert length >= 1
    assert base["mass"] == "theta"
    assert {own["mass"] for own in params.values()} == {"theta"}


@pytest.mark.parametrize("name", list(facts("hyperparameters")["rows"]))
def test_nigcn_in_the_tables_is_the_papers(tiny, name):
    """Anything found by a search, or voted for by an ensemble, would not be the paper's method."""
    for source in (name, "amazon-photo", "no such data set"):
        subject = subjects.Subject(name, source, "", is_original=True)
        settings = {**preset("NIGCN", source), **subjects.chosen_settings(subject, ("NIGCN",)).get("NIGCN", {})}
        model = NIGCN(**settings)
        model.check_params()
        assert not model.teach
        assert "auto" not in {
            model.omega, model.rho, model.tau, model.epsilon, model.feature_norm, model.layers, model.weight_decay
        }  # fmt: skip


def test_ablation_and_sensitivity(tiny, monkeypatch):
    monkeypatch.setattr(variants, "MASSES", {"theta": "as in Algorithm 2"})
    monkeypatch.setitem(facts("sensitivity"), "columns", [0.5, 1])
    monkeypatch.setitem(facts("sensitivity"), "rows", {"tau": [61.89, 63.45], "epsilon": [62.46, 63.45]})
    setups = variants.setups

    def quick(context):
        return [dataclasses.replace(setup, settings={**setup.settings, "epochs": 5}) for setup in setups(context)]

    monkeypatch.setattr(variants, "setups", quick)
    ablated, sensitive = reproduce(["ablation", "sensitivity"], tiny)
    assert [row[0] for row in ablated.tables[0].rows] == ["HKPR", "UDL", "NFK", "NIGCN"]
    kept = {row[0]: row[-1] for row in ablated.tables[0].rows}
    assert kept["NFK"] > kept["NIGCN"]  # without first-K more neighbours are kept
    assert [row[4:6] for row in ablated.tables[0].rows if row[0] == "NIGCN"] == [[0.0, 0.0]]
    assert len(ablated.sentences) == 3
    assert [row[1] for row in sensitive.tables[0].rows] == [0.5, 1, 0.5, 1]
    assert "stand-in" in ablated.ran_on[0]


@pytest.fixture
def in_process(monkeypatch):
    """Comparisons run in this process, for three epochs, of two methods in the tables; returns what was asked for."""
    asked = []

    def compare(source, folder, methods, splits, *, settings, split_source, inductive, seed, progress, **_):
        asked.append((folder.name.rpartition("-")[0], tuple(methods), splits[0].train.size, inductive))
        graph, rows = load(source), []
        for name in methods:
            params = {**(settings or {}).get(name, {}), "seed": seed, "epochs": 3}
            found = evaluate(method(name)(**params), graph, list(splits), inductive=inductive)
            finished = [FinishedSplit(**dataclasses.asdict(split), peak_memory=10**9) for split in found.splits]
            rows.append(MethodRow(name, params, finished, len(splits), None, 10**9))
            progress(Step(name, len(splits), len(splits), None, rows[-1]))
        return Comparison(graph.name, source, {}, len(splits), split_source, inductive, None, seed, 1, {}, {}, rows)

    monkeypatch.setattr("nodewise.lab.paper.runs.compare", compare)
    for table in ("transductive_f1", "inductive_f1", "seconds_small", "seconds_large"):
        rows = facts(table)["rows"]
        monkeypatch.setitem(facts(table), "rows", {name: rows[name] for name in ("SGC", "NIGCN")})
    return asked


@pytest.fixture
def cora(tiny, in_process):
    """Two methods compared on the stand-in of Cora."""
    return table_run("transductive_f1", "cora", tiny)


def test_tables_and_times_set_the_paper_beside_what_is_found(tiny, in_process):
    inductive, times = reproduce(["table3", "runtime"], tiny)
    assert [column.group for column in inductive.tables[0].columns if column.name == "paper"] == [
        "ogbn-arxiv (stand-in)", "reddit (stand-in)", "amazon (stand-in)"
    ]  # fmt: skip
    nigcn = inductive.tables[0].rows[-1]
    assert nigcn[1::2] == facts("inductive_f1")["rows"]["NIGCN"]
    assert all(0 <= here[0] <= 100 for here in nigcn[2::2])
    assert all(asked[3] == (asked[0] in facts("inductive_f1")["columns"]) for asked in in_process)
    assert times.tables[0].rows[0][1] == reported("seconds_small", "SGC", "cora")
    assert all(isinstance(cell, float) for cell in times.tables[1].rows[0][2::2])
    assert facts("seconds_small")["machine"] in times.sentences[0]
    assert len(times.figures) == 2


def test_a_score_is_compared_with_the_paper_only_on_the_data_set_itself(tiny, cora):
    original = dataclasses.replace(cora[0], is_original=True)
    table = f1_table("transductive_f1", "t", [(original, cora[1]), table_run("transductive_f1", "pubmed", tiny)])
    assert [column.name for column in table.columns] == ["method", "paper", "here", "difference", "paper", "here"]
    row = table.rows[1]
    assert row[3] == pytest.approx(row[2][0] - 82.13)


def test_after_an_upgrade_a_comparison_has_another_folder(tiny, monkeypatch):
    """In the old folder it would be refused: the results there are those of another version."""
    folders = []
    monkeypatch.setattr("nodewise.lab.paper.runs.compare", lambda source, folder, *_, **__: folders.append(folder))
    for number in ("2.0", "2.0", "2.1"):
        monkeypatch.setattr("nodewise.lab.paper.runs.versions", lambda number=number: {"torch": number})
        compared("cora", "cora", ["SGC"], [], tiny, settings={})
    assert folders[0] == folders[1]
    assert folders[0] != folders[2]


def test_a_method_that_failed_is_a_word_in_the_table(cora):
    subject, found = cora
    failed = MethodRow("SGC", {}, [], 2, "out of memory")
    broken = dataclasses.replace(found, rows=[failed, found.rows[1]])
    table = f1_table("transductive_f1", "t", [(subject, broken)])
    assert table.rows[0][2] == "out of memory"
    assert shortfalls([(subject, broken)]) == ["SGC on cora: out of memory."]


def test_a_method_that_did_not_finish_is_neither_best_nor_ranked(cora):
    subject, found = cora
    first = dataclasses.replace(found.rows[0], splits=found.rows[0].splits[:1], asked=2, problem="too slow")
    table = f1_table("transductive_f1", "t", [(subject, dataclasses.replace(found, rows=[first, found.rows[1]]))])
    assert table.rows[0][2].endswith("± 0.00 (1 of 2)")
    assert isinstance(table.rows[1][2], list)


@pytest.mark.filterwarnings("ignore:.*no training node")
def test_labels_are_a_share_of_all_nodes(tiny, in_process, monkeypatch):
    for name in ("labels", "labels_seconds"):
        monkeypatch.setitem(facts(name), "rows", {"NIGCN": facts(name)["rows"]["NIGCN"]})
    (record,) = reproduce(["labels"], tiny)
    assert [asked[2] for asked in in_process] == [round(f * 2_200) for f in (0.004, 0.008, 0.01, 0.02, 0.05)]
    assert record.tables[0].rows[0][1] == [67.24, 0.60]
    assert all(isinstance(cell, float) for cell in record.tables[1].rows[0][2::2])


def test_complexity_times_the_same_targets_on_growing_graphs(tiny, in_process, monkeypatch):
    small = {"SIZES": (1_000, 2_000, 4_000), "QUICK_MOST": 2_000, "METHODS": ("SGC", "NIGCN"), "VAL": 50, "TEST": 100}
    for name, value in small.items():
        monkeypatch.setattr(complexity, name, value)
    (record,) = reproduce(["complexity"], tiny)
    assert [asked[:3] for asked in in_process] == [(f"growth-{n}", ("SGC", "NIGCN"), 200) for n in (1_000, 2_000)]
    assert [row[0] for row in record.tables[0].rows] == ["SGC", "NIGCN"]
    assert all(isinstance(cell, float) for row in record.tables[0].rows for cell in row[1:])
    assert record.tables[1].rows[0][1:] == [1.0, 1.0]
    assert not list((tiny.output / "graphs").glob("growth-*"))  # the largest would take gigabytes
