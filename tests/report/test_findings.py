"""The numbers of a report, against brute force, and the page that shows them."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import networkx
import numpy as np
import pytest

import nodewise as nw
from nodewise import InputError, StoreError
from nodewise.graph.checks import UNKNOWN
from nodewise.learn.metrics import wilson_interval
from nodewise.report import findings
from nodewise.report.describe import edge_homophily, homophily_counts
from nodewise.report.report_page import page

CLASSES = 3
FLIPPED = (5, 17, 40)


@pytest.fixture(scope="module")
def graph():
    """A graph whose classes are easy to tell; three labels are wrong, and a third of the nodes has none."""
    g = nw.synthetic.dcsbm(600, avg_degree=10, classes=CLASSES, homophily=0.9, features=8, signal=3.0, seed=3)
    labels = np.array(g.labels)
    labels[list(FLIPPED)] = (labels[list(FLIPPED)] + 1) % CLASSES
    labels[400:] = UNKNOWN
    return g.replace(labels=labels, node_names=[f"<n{i}>" for i in range(600)])


@pytest.fixture(scope="module")
def model(graph):
    return nw.NIGCN(seed=0, epochs=30).fit(graph, train=range(200), val=range(200, 400))


@pytest.fixture(scope="module")
def found(model, graph):
    return findings.find(model, graph)


def test_homophily_by_class_is_what_counting_pairs_gives(graph):
    same, known = np.zeros(CLASSES), np.zeros(CLASSES)
    for u, v in zip(*graph.to_scipy().nonzero(), strict=True):
        if u != v and graph.labels[u] >= 0 and graph.labels[v] >= 0:
            known[graph.labels[u]] += 1
            same[graph.labels[u]] += graph.labels[u] == graph.labels[v]
    assert np.array_equal(homophily_counts(graph), [same, known])
    assert edge_homophily(graph) == pytest.approx(same.sum() / known.sum())


def test_hops_to_the_nearest_source_are_those_of_networkx(graph):
    sources = np.zeros(600, bool)
    sources[[3, 77]] = True
    plain = networkx.from_scipy_sparse_array(graph.to_scipy())
    lengths = networkx.multi_source_dijkstra_path_length(plain, {3, 77}, weight=None)
    expected = [min(lengths.get(u, 4), 4) for u in range(600)]
    assert findings.hops_from(graph, sources).tolist() == expected


def test_scores_are_those_of_the_held_out_nodes(found, model):
    held = model.held_out_
    clean = held.chose_nothing
    right = held.proba[clean].argmax(1) == held.labels[clean]
    assert found.micro_f1.value == pytest.approx(right.mean())
    assert found.micro_f1.count == clean.sum()
    assert np.trace(found.confusion) == right.sum()
    assert np.sum(found.confusion) == clean.sum()
    for parts in (found.calibration, found.by_degree, found.by_distance):
        assert sum(part.count for part in parts) == clean.sum()
        assert sum(part.count * part.value for part in parts) == pytest.approx(right.sum())
        assert all(part.low <= part.value <= part.high for part in parts)


def test_wrong_labels_lead_the_list_of_doubtful_ones(found):
    """The classes are so clear that all other labels contradict the three that were changed."""
    assert {one.node for one in found.doubtful[:3]} == {f"<n{i}>" for i in FLIPPED}


def test_nodes_to_label_have_no_label_and_the_least_certain_come_first(found, graph, model):
    places = [int(one.node[2:-1]) for one in found.to_label]
    assert all(graph.labels[place] == UNKNOWN for place in places)
    certainty = [one.probability for one in found.to_label]
    assert certainty == sorted(certainty)
    assert certainty == pytest.approx(model.predict_proba(graph, places).max(1))


@pytest.mark.parametrize("count", [1, 3, 10, 97, 1003])
@pytest.mark.parametrize("hits", [0, 1, -1])
def test_an_interval_holds_its_share(count, hits):
    share = (hits % (count + 1)) / count
    low, high = wilson_interval(share, count)
    assert 0 <= low <= share <= high <= 1


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_no_other_file_and_names_cannot_be_code(found):
    text = page(found)
    parser = Tags()
    parser.feed(text)
    assert not [tag for tag, _ in parser.tags if tag in ("script", "link", "img", "iframe", "n5")]
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert "&lt;n5&gt;" in text
    assert "<n5>" not in text
    assert sum(tag == "svg" for tag, _ in parser.tags) == 5
    assert "#010101" not in text  # colours are the page's, which has two sets of them
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "\"onload='x'", "costs $5 and $x_{", "$\\bad$", "a\x00b\x1b[31m", "\u202etxt.exe",
     "long" * 100_000, "\ud800", "a\nb", "${title}"],
)  # fmt: skip
def test_a_page_shows_any_name_as_plain_short_text(found, name):
    labels = [{**one, "label": name} for one in found.labels]
    classes = [{**one, "label": name} for one in found.classes]
    mistakes = [replace(one, node=name, label=name, predicted=name) for one in found.mistakes]
    text = page(replace(found, name=name, labels=labels, classes=classes, mistakes=mistakes))
    parser = Tags()
    parser.feed(text)
    assert not [tag for tag, attrs in parser.tags if tag == "script" or "onload" in attrs]
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert len(text.encode()) < 2_000_000


def test_the_command_writes_the_page_and_prints_the_numbers(run, graph, model, tmp_path):
    nw.write_store(graph, tmp_path / "store")
    model.save(tmp_path / "model")
    command = ["report", tmp_path / "model", tmp_path / "store", "-o", tmp_path / "report.html"]
    code, out, _ = run(*command, "--json")
    assert code == 0
    assert '"micro_f1"' in out
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    code, _, err = run(*command)
    assert code == 2
    assert "report.html: already exists; pass --overwrite" in err
    assert run(*command, "--overwrite")[0] == 0


def test_labels_are_matched_by_name(graph):
    """With other numbers for the same names, a report is the same."""
    one, two = (graph.replace(label_names=["a", "b", "c"]), graph.replace(label_names=["c", "b", "a"]))
    two = two.replace(labels=np.where(graph.labels < 0, UNKNOWN, 2 - graph.labels))
    model = nw.NIGCN(seed=0, epochs=5, teach=False).fit(one, train=range(200), val=range(200, 400))
    first, second = (findings.find(model, g) for g in (one, two))
    assert first.labels == second.labels
    assert first.doubtful == second.doubtful


def test_what_cannot_be_reported_is_said(model, graph, tmp_path):
    with pytest.raises(InputError, match=r"no labels, so there is nothing to report"):
        findings.find(model, graph.replace(labels=None, label_names=None))
    with pytest.raises(InputError, match=r"has 400 nodes, .* and no label that is new to the model"):
        findings.find(model, graph.subgraph(np.arange(400)))
    with pytest.raises(InputError, match=r"report\.txt: expected a name that ends in \.html"):
        nw.write_report(model, graph, tmp_path / "report.txt")
    (tmp_path / "there.html").write_text("mine")
    with pytest.raises(StoreError, match=r"there\.html: already exists"):
        nw.write_report(model, graph, tmp_path / "there.html")
    assert (tmp_path / "there.html").read_text() == "mine"


def test_labels_that_the_model_has_not_learned_from_are_what_it_is_scored_on(model, graph):
    """Later labels for all nodes: those beyond the 400 that it learned from count, with the label that they have."""
    labels = np.array(graph.labels)
    labels[400:] = np.arange(200) % CLASSES
    found = findings.find(model, graph.replace(labels=labels))
    right = model.predict(graph, np.arange(400, 600)) == labels[400:]
    assert found.micro_f1.value == pytest.approx(right.mean())
    assert (found.micro_f1.count, found.scored_on) == (200, "labelled nodes that it did not learn from")


# ---------------------------------------------------------------------- several labels per node


@pytest.fixture(scope="module")
def several(graph):
    """Each node has its class as a label, and perhaps a fourth label that nothing tells."""
    labels = np.zeros((600, 4), np.int8)
    labels[np.arange(400), graph.labels[:400]] = 1
    labels[:400, 3] = np.arange(400) % 3 == 0
    return graph.replace(labels=labels, label_names=["a", "b", "c", "odd"])


@pytest.fixture(scope="module")
def several_found(several):
    model = nw.NIGCN(seed=0, epochs=30).fit(several, train=range(150), val=range(150, 250))
    return model, findings.find(model, several)


def test_several_labels_are_scored_by_micro_f1(several, several_found):
    model, found = several_found
    rest = np.arange(250, 400)
    truth, said = several.labels[rest] == 1, model.predict(several, rest) == 1
    expected = 2 * (truth & said).sum() / (truth.sum() + said.sum())
    assert found.micro_f1.value == pytest.approx(expected)
    assert found.micro_f1.count == 150
    assert found.confusion == []
    assert [one["support"] for one in found.classes] == truth.sum(0).tolist()
    assert sum(one.count for one in found.calibration) == truth.size
    assert sum(one.count for one in found.by_degree) == 150


def test_homophily_of_several_labels_is_what_counting_pairs_gives(several, several_found):
    same, known = np.zeros(4), np.zeros(4)
    for u, v in zip(*several.to_scipy().nonzero(), strict=True):
        if u != v and several.labels[u].any() and several.labels[v].any():
            known += several.labels[u]
            same += several.labels[u] & several.labels[v]
    assert [one["homophily"] for one in several_found[1].labels] == pytest.approx(same / known)


def test_wrong_ones_of_several_labels_lead_the_list_and_say_what_is_wrong(several_found):
    doubtful = several_found[1].doubtful
    flipped = {(one.node, one.label) for one in doubtful if one.label != "odd" and "odd" not in one.predicted}
    assert {node for node, _ in flipped} >= {f"<n{i}>" for i in FLIPPED}
    assert all(one.predicted in (f"not {one.label}", one.label.removeprefix("not ")) for one in doubtful)


def test_the_page_of_several_labels_has_no_confusion_matrix(several_found):
    text = page(several_found[1])
    assert "labels on average" in text
    assert "Confusion" not in text


def test_one_and_several_labels_do_not_mix(several, model):
    with pytest.raises(InputError, match="has several labels per node, the model was trained with one label per node"):
        findings.find(model, several)
