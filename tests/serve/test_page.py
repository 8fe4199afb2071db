"""The page in a real browser: what a visitor sees, with keys and mouse, and what never happens.

It needs a browser and its driver: ``apt install chromium`` and ``pip install playwright`` (or, for a browser of
playwright's own, ``playwright install chromium``). Without them the tests are skipped.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time

import numpy as np
import pytest

import nodewise as nw
from models import PLAIN

pytest.importorskip("fastapi")
pytest.importorskip("playwright.sync_api", reason="pip install playwright")
import uvicorn
from playwright.sync_api import Error, expect, sync_playwright

from nodewise.serve.answers import Answers
from nodewise.serve.app import make_app

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)>"
LABELS = [HOSTILE, "a label that is so long that it has to be broken somewhere", "__proto__"]
COMMA, QUOTED = "Doe, Jane", '"quoted" & co'
QUESTIONS = ("/predict", "/explain", "/predict-new")
HUB = 5  # a node with many neighbours, so that click-through has somewhere to go


@pytest.fixture(scope="module")
def graph():
    g = nw.synthetic.dcsbm(300, avg_degree=8, classes=3, features=4, signal=2.0, seed=0)
    names = [f"node {i}" for i in range(300)]
    names[HUB], names[6], names[7] = HOSTILE, COMMA, QUOTED
    return g.replace(node_names=names, label_names=LABELS, feature_names=[HOSTILE, "b", "c=d", "__proto__"])


@pytest.fixture(scope="module")
def answers(graph):
    return Answers(nw.NIGCN(seed=0, **PLAIN).fit(graph, train=range(60), val=range(60, 200)), graph)


@pytest.fixture(scope="module")
def address(answers):
    """A server on a free port, in a thread."""
    server = uvicorn.Server(uvicorn.Config(make_app(answers), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        try:
            found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        except Error as error:
            pytest.skip(f"no browser: apt install chromium ({str(error).splitlines()[0]})")
        yield found
        found.close()


@pytest.fixture
def page(browser, address):
    """A page on which nothing may go wrong unseen: no message of the console, no dialog, no call to another host."""
    made = browser.new_page(base_url=address)
    made.set_default_timeout(5000)
    wrong = []
    made.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    made.on("console", lambda said: None if refused(said) else wrong.append(said.text))
    made.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    made.on("request", lambda sent: None if sent.url.startswith((address, "data:")) else wrong.append(sent.url))
    yield made
    made.close()
    assert wrong == []


def refused(said):
    """A question that the server refused, of which the browser tells as well."""
    return said.text.startswith("Failed to load resource") and said.location["url"].endswith(QUESTIONS)


def shown(page, node):
    """Wait until a node and its reasons are on the page."""
    expect(page.locator("#title")).to_have_text(f"Node {node}")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    page.locator("#neighbours a").first.wait_for()
    expect(page.locator("#message")).to_have_text("")


def test_a_node_is_found_by_the_beginning_of_its_name_with_keys_alone(page, answers):
    page.goto("/")
    shown(page, answers.about().example)  # to begin with
    field = page.get_by_role("combobox", name="Node", exact=True)
    field.fill("")
    field.press_sequentially("NODE 25")
    names = page.locator("#node-names [role=option]")
    expect(names).to_have_text(["node 25", *(f"node {i}" for i in range(250, 257))])
    assert field.get_attribute("aria-expanded") == "true"
    field.press("ArrowDown")
    field.press("ArrowDown")
    assert page.locator("[aria-selected=true]").text_content() == "node 250"
    assert field.get_attribute("aria-activedescendant") == page.locator("[aria-selected=true]").get_attribute("id")
    field.press("Escape")
    expect(names).to_have_count(0)
    field.press("0")
    field.press("ArrowUp")  # nothing is offered yet
    expect(names).to_have_text(["node 250"])
    field.press("ArrowUp")
    field.press("Enter")
    shown(page, "node 250")
    assert page.url.endswith("#node=node+250")
    assert page.evaluate("document.activeElement.id") == "title"


def test_the_numbers_are_those_of_the_answers(page, answers, graph):
    page.goto("/#node=node+250")
    shown(page, "node 250")
    proba = answers.probabilities([250])[0]
    order = np.argsort(-proba)
    bars = page.locator("#bars tr")
    assert [text.replace(" (known)", "") for text in bars.locator("th").all_text_contents()] == [
        LABELS[i] for i in order
    ]
    assert bars.locator(".number").all_text_contents() == [f"{100 * proba[i]:.1f}%" for i in order]
    known = LABELS[graph.labels[250]]
    verdict = "as predicted" if known == LABELS[order[0]] else "not as predicted"
    assert page.locator("#facts div").last.text_content() == f"{known}known label: {verdict}"
    why = answers.explain("node 250", None, 20)
    added = page.locator("#neighbours tbody tr td:nth-child(2)").all_text_contents()
    numbers = [float(text.replace("−", "-")) for text in added]
    assert numbers[:20] == pytest.approx([v["contribution"] for v in why["neighbours"]], abs=5e-4)
    assert sum(numbers) == pytest.approx(why["logit"], abs=0.02)  # with the others and the bias
    assert page.locator("#picture a").count() == len(why["drawn"])
    hidden = why["rest"]["count"] + len(why["neighbours"]) - len(why["drawn"])
    assert f"{hidden} more neighbours not drawn" in page.locator("#drawn").text_content()


def test_a_neighbour_opens_from_the_picture_and_the_table_and_back_returns(page, answers):
    page.goto("/#node=node+250")
    shown(page, "node 250")
    why = answers.explain("node 250", None, 20)
    first = next(v["name"] for v in why["neighbours"] if v["hop"])
    page.locator("#neighbours").get_by_role("link", name=first, exact=True).click()
    shown(page, first)
    page.go_back()
    shown(page, "node 250")
    page.locator("#picture a").first.focus()
    page.keyboard.press("ArrowRight")
    second = why["drawn"][1]["name"]
    assert page.locator("#pointed").text_content().startswith(f"{second}: ")
    page.keyboard.press("Enter")
    shown(page, second)
    page.go_back()
    shown(page, "node 250")
    page.locator("#picture a").nth(2).hover()
    assert page.locator("#pointed").text_content().startswith(f"{why['drawn'][2]['name']}: ")
    page.locator("#picture a").nth(2).click()
    shown(page, why["drawn"][2]["name"])


def test_another_class_is_explained(page, answers):
    page.goto("/#node=node+250")
    shown(page, "node 250")
    other = answers.explain("node 250", None, 20)["runner_up"]
    page.get_by_label("Class to explain").focus()
    page.get_by_label("Class to explain").select_option(other)
    expect(page.locator("#neighbours thead th").nth(1)).to_have_text(f"for {other}")
    assert "class=" in page.url
    assert page.evaluate("document.activeElement.id") == "class"
    flip = answers.explain("node 250", other, 20)["flip"]
    text = page.locator("#flip").text_content()
    assert f"{len(flip['nodes'])} neighbour" in text if flip else "would still not be" in text
    page.reload()
    shown(page, "node 250")
    assert page.get_by_label("Class to explain").input_value() == other


def test_a_new_node_is_predicted_from_names_with_commas_and_odd_features(page, answers):
    from nodewise.serve.questions import NewNode

    page.goto("/")
    field = page.get_by_role("textbox", name="Neighbours")
    field.press_sequentially("node 3, doe")
    page.locator("#new-names [role=option]").click()
    assert field.input_value() == 'node 3, "Doe, Jane", '
    field.press_sequentially('\nnode 4\n"""quoted"" & co"')
    features = page.get_by_role("textbox", name="Features")
    features.fill(f"{HOSTILE}=1.5\nc=d=-2\n__proto__=0.5")
    page.get_by_role("button", name="Predict").click()
    said = {HOSTILE: 1.5, "c=d": -2.0, "__proto__": 0.5}
    expected = answers.predict_new(
        [NewNode(neighbours=["node 3", COMMA, "node 4", QUOTED], features=said)], 3
    )[0]  # fmt: skip
    words = f"Predicted label: {expected.label} ({100 * expected.probability:.1f}%)."
    expect(page.locator("#new-message")).to_have_text(words)
    assert page.locator("#new-bars th").all_text_contents() == [one.label for one in expected.top]
    for wrong, sentence in (
        ("b=x", "Features: 'x' is not a number."),
        ("1, 2", "New node: 2 features; expected 4."),
        ("z=1", "New node: there is no feature 'z'; GET /about lists some of them."),
    ):
        features.fill(wrong)
        page.get_by_role("button", name="Predict").click()
        expect(page.locator("#new-message")).to_have_text(sentence)
        assert page.locator("#new-bars").is_hidden()
    features.fill("1, 2, 3, 4")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#new-message")).to_contain_text("Predicted label")


def test_an_error_is_a_sentence_and_the_page_goes_on(page, monkeypatch):
    page.goto("/#node=node+250")
    shown(page, "node 250")
    message, answer = page.locator("#message"), page.locator("#answer")
    field = page.get_by_role("combobox", name="Node", exact=True)
    field.fill("node 30x")
    field.press("Enter")
    expect(message).to_contain_text("There is no node 'node 30x'; ")
    assert "Did you mean 'node 30'" in message.text_content()
    assert answer.is_hidden()
    assert message.get_attribute("aria-live") == "polite"
    page.goto("/#node=node+250&class=nonsense")
    expect(message).to_have_text("There is no class 'nonsense'; GET /about lists them.")
    assert answer.is_visible()
    assert page.locator("#picture").is_hidden()
    monkeypatch.setattr("nodewise.serve.batching.MOST_WAITING", 0)
    page.goto("/#node=node+251")
    expect(message).to_have_text("Too many questions are waiting; ask again.")
    monkeypatch.undo()
    page.get_by_role("button", name="Ask").click()
    shown(page, "node 251")
    page.route("**/predict", lambda route: route.abort())
    page.get_by_role("button", name="Ask").click()
    expect(message).to_have_text("The server does not answer. Is it still running?")
    page.unroute("**/predict")
    page.get_by_role("button", name="Ask").click()
    shown(page, "node 251")


def test_hostile_names_are_text(page, graph):
    """The fixture fails on a dialog or an error; nothing of a name may become an element."""
    field = page.get_by_role("combobox", name="Node", exact=True)
    page.goto("/")
    field.fill("<img")
    page.locator("#node-names [role=option]").click()
    shown(page, HOSTILE)
    assert page.locator("#features tbody th", has_text=HOSTILE).count() == 1
    neighbour = int(graph.indices[graph.indptr[HUB]])
    page.goto(f"/#node={graph.node_names[neighbour]}".replace(" ", "+"))
    shown(page, graph.node_names[neighbour])
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_nothing_is_wider_than_the_window(page, path):
    page.goto(path)
    page.locator("#features td, pre").first.wait_for(state="attached")
    for width, scheme in itertools.product((360, 768, 1440, 2560), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_field_has_a_name_and_every_path_a_command(page):
    page.goto("/")
    for field in page.locator("input, textarea, select").all():
        assert page.locator(f"label[for={field.get_attribute('id')}]").count() == 1
    page.goto("/docs")
    titles = page.locator("h2")
    expect(titles).to_have_count(7)
    assert "POST /explain" in titles.all_text_contents()
    commands = page.locator("pre").all_text_contents()
    assert all(command.startswith("curl ") for command in commands)
    assert len(commands) == 7
