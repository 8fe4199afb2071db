"""The page, the picture and the command: complete, legible, and safe with any name."""

import builtins
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

import nodewise as nw
from models import PLAIN
from nodewise import InputError, StoreError
from nodewise.explaining import picture
from nodewise.explaining.explanation_page import html

EVIL = '<script>alert("x")</script>&'


@pytest.fixture(scope="module")
def graph():
    g = nw.synthetic.dcsbm(300, avg_degree=6, classes=3, features=12, signal=2.0, seed=1)
    names = ["a<b", "Golf & more", EVIL]
    g = g.replace(labels=[names[i] for i in g.labels], node_names=[f"{EVIL}{i}" for i in range(300)])
    return g.replace(features=g.features, feature_names=[f"<i>{i}" for i in range(12)])


@pytest.fixture(scope="module")
def model(graph):
    return nw.NIGCN(**PLAIN, seed=0, engine="exact").fit(graph, train=range(100), val=range(100, 160))


@pytest.fixture(scope="module")
def found(model, graph):
    return nw.explain(model, graph, 200)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_the_page_needs_no_other_file_and_names_cannot_be_code(found):
    text = html(found)
    parser = Tags()
    parser.feed(text)
    assert not {"script", "link", "img", "iframe", "i", "b<"} & set(parser.tags)
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert "&lt;script&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert parser.tags.count("svg") == 1


def test_the_svg_alone_is_xml_that_holds_all_that_is_drawn(found, tmp_path):
    found.save(tmp_path / "why.svg")
    root = ElementTree.parse(tmp_path / "why.svg").getroot()
    titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(found.drawn)
    assert titles[0].startswith(f"{EVIL}200: ")


def hub():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 9, 5001)
    features = (rng.normal(size=(5001, 9)) + 3 * np.eye(9)[labels]).astype(np.float32)
    return nw.Graph.from_edges(np.stack([np.zeros(5000, int), np.arange(1, 5001)]), 5001, features, labels)


def few():
    g = nw.synthetic.dcsbm(300, avg_degree=6, classes=3, features=12, signal=2.0, seed=1)
    star = nw.Graph.from_edges(np.array([[0] * 5, range(1, 6)]), 6, g.features[:6], g.labels[:6])
    return g, star


def test_nodes_of_the_picture_do_not_overlap_with_5_or_5000_neighbours():
    big = hub()
    small, star = few()
    how = {**PLAIN, "seed": 0, "engine": "exact"}
    for graph, trained in ((big, big), (star, small)):
        model = nw.NIGCN(**how).fit(trained, train=range(1, 200))
        explained = nw.explain(model, graph, 0)
        made = picture.picture(explained)
        discs = made.discs[: len(explained.drawn)]
        assert len(discs) == min(61, graph.num_nodes)
        for a, b in combinations(discs, 2):
            assert math.dist((a.x, a.y), (b.x, b.y)) > a.radius + b.radius
        for disc in discs:
            assert disc.radius <= min(disc.x, disc.y, made.width - disc.x, made.width - disc.y)
        words = " ".join(text.words for text in made.texts)
        assert ("4,940 more neighbours not drawn" in words) == (graph is big)


def test_classes_beyond_the_colours_share_one(found):
    many = [replace(v, labels=[f"c{i % 9}"] if i % 10 else []) for i, v in enumerate(found.drawn)]
    made = picture.picture(replace(found, drawn=many))
    words = [text.words for text in made.texts]
    assert {picture.OTHERS, picture.UNKNOWN} <= set(words)
    assert sum(text.startswith("label c") for text in words) == len(picture.COLOURS) - 2  # the others are not drawn


def test_filled_discs_speak_for_the_class_and_hollow_ones_against_it(found):
    made = picture.picture(found)
    assert [disc.filled for disc in made.discs[: len(found.drawn)]] == [v.contribution >= 0 for v in found.drawn]
    assert {True, False} <= {v.contribution >= 0 for v in found.drawn}


def test_lines_join_neighbouring_rings_only(found):
    made = picture.picture(found)
    middle = (made.width / 2, made.width / 2)
    rings = [0.0, *made.rings]
    for line in made.lines:
        a, b = (min(range(len(rings)), key=lambda r: abs(math.dist(p, middle) - rings[r])) for p in line)
        assert abs(a - b) == 1


def test_a_png_is_written_by_matplotlib_or_refused_without(found, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    found.save(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    plain = builtins.__import__

    def without(name, *args, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"a PNG needs it: pip install 'nodewise\[report\]', or write an .svg"):
        found.save(tmp_path / "other.png")


def test_files_are_not_overwritten_unasked_and_need_a_known_ending(found, tmp_path):
    found.save(tmp_path / "why.html")
    with pytest.raises(StoreError, match="already exists"):
        found.save(tmp_path / "why.html")
    found.save(tmp_path / "why.html", overwrite=True)
    with pytest.raises(InputError, match=r"expected a name that ends in .html or .svg or .png"):
        found.save(tmp_path / "why.pdf")


def test_the_command_prints_tables_or_json_and_writes_the_page(run, graph, model, found, tmp_path):
    nw.write_store(graph, tmp_path / "store")
    model.save(tmp_path / "model")
    command = ["explain", tmp_path / "model", tmp_path / "store", f"{EVIL}200"]
    code, out, err = run(*command, "-o", tmp_path / "why.html")
    assert code == 0, err
    assert "(itself)" in out
    assert "what would have to go" in out
    assert "page written to" in err
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")
    code, out, _ = run(*command, "--json", "--top", "5", "--class", "Golf & more")
    said = json.loads(out)
    assert (said["class"], len(said["neighbours"]), len(said["features"])) == ("Golf & more", 5, 5)
    parts = [v["contribution"] for v in said["neighbours"]] + [said["rest"]["contribution"], said["bias"]]
    assert sum(parts) == pytest.approx(said["logit"], abs=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--class", "golf & more"], "--class golf & more: expected a class of the model. Did you mean 'Golf & more'?"),
        (["-o", "why.doc"], "why.doc: expected a name that ends in .html or .svg or .png"),
        (["--top", "0"], "--top 0: expected a whole number of at least 1"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_given(run, graph, model, tmp_path, wrong, message):
    nw.write_store(graph, tmp_path / "store")
    model.save(tmp_path / "model")
    code, _, err = run("explain", tmp_path / "model", tmp_path / "store", f"{EVIL}200", *wrong)
    assert code == 2
    assert message in err
