"""Models and presets that someone else wrote: every claim is checked, whatever the checksums say."""

import json
import os
import random
import time

import numpy as np
import pytest
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from models import PLAIN
from nodewise import NIGCN, InputError, StoreError, find_preset, write_store
from nodewise.graph import synthetic
from nodewise.learn import saved
from nodewise.learn.presets import write_preset
from nodewise.report.model import describe_model

HUGE = 10**9
ODD = [None, True, -1, 0, 3, HUGE, 2**63 - 1, 1e300, 0.5, "", "auto", "x", [], [1], [[1]], {}, {"a": 1}]


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(200, avg_degree=6, classes=3, features=8, seed=0)


@pytest.fixture(scope="module")
def folder(graph, tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "model"
    NIGCN(**{**PLAIN, "epochs": 3}).fit(graph, np.arange(40), np.arange(40, 90)).save(place)
    return place


def tampered(folder, place, change=None, tensors=None):
    """A copy of the model with another configuration or other tensors, and checksums that fit."""
    config = json.loads((folder / "config.json").read_text())
    numbers = (folder / "model.safetensors").read_bytes()
    if tensors is not None:
        found = tensors_of(numbers)
        tensors(found)
        numbers = bytes_of(found)
        config["tensors_sha256"] = saved.hashlib.sha256(numbers).hexdigest()
    if change is not None:
        change(config)
    config["config_sha256"] = saved._digest(config)
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    (place / "model.safetensors").write_bytes(numbers)
    return place


@pytest.mark.parametrize(
    "shape", [{"count": HUGE}, {"hidden": 30_000}, {"layers": HUGE}, {"inputs": HUGE}, {"outputs": 9}, {"count": -1}]
)
def test_networks_of_shapes_that_the_tensors_do_not_have_are_never_made(folder, tmp_path, shape):
    model = tampered(folder, tmp_path / "m", lambda config: config["fitted"]["shapes"][0].update(shape))
    started = time.monotonic()
    with pytest.raises(StoreError, match="do not fit together"):
        NIGCN.load(model)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("params", {"epsilon": -1}),
        ("params", {"threads": "all"}),
        ("params", {"memory": "9" * 400}),
        ("params", {"diffusion": {"length": "x"}}),
        ("fitted", {"votes": [1.0, 1.0]}),
        ("fitted", {"temperature": 0}),
        ("fitted", {"threshold": "half"}),
        ("fitted", {"classes": [0, 1]}),
        ("fitted", {"classes": [2, 1, 0]}),
        ("fitted", {"label_names": ["a"]}),
        ("fitted", {"engine": "warp"}),
        ("fitted", {"n_features_in": 7}),
        ("fitted", {"feature_names_in": ["a"] * 8}),
        ("fitted", {"learned_from": {"graph": 3}}),
        ("fitted", {"found": None}),
    ],
)
def test_a_claim_that_cannot_be_is_refused(folder, tmp_path, part, change):
    model = tampered(folder, tmp_path / "m", lambda config: config[part].update(change))
    with pytest.raises(StoreError, match="do not fit together"):
        NIGCN.load(model)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("held_out.nodes", lambda t: t - HUGE),
        ("held_out.labels", lambda t: t + 7),
        ("held_out.proba", lambda t: t[:, :1]),
        ("held_out.proba", lambda t: t * float("nan")),
        ("held_out.chose_nothing", lambda t: t.int()),
        ("learned_from", lambda t: t.float()),
        ("networks.groups.0.weights.0", lambda t: t * float("inf")),
        ("networks.groups.0.weights.0", lambda t: t.half()),
    ],
)
def test_arrays_of_another_type_or_content_are_refused(folder, tmp_path, name, change):
    def swap(tensors):
        tensors[name] = change(tensors[name]).contiguous()

    with pytest.raises(StoreError, match="do not fit together"):
        NIGCN.load(tampered(folder, tmp_path / "m", tensors=swap))


def test_only_our_errors_leave_a_model_whose_configuration_was_altered_anywhere(folder, graph, tmp_path):
    """Some changes make another sound model; none makes any other error."""

    def somewhere(config):
        at = config[rng.choice(["params", "fitted"])]
        while isinstance(at, dict | list) and at:
            key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
            if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.3:
                at[key] = rng.choice(ODD)
                return
            at = at[key]

    refused = 0
    for seed in range(150):
        rng = random.Random(seed)
        try:
            place = tampered(folder, tmp_path / "m", somewhere)
            describe_model(place)
            NIGCN.load(place, threads=1).predict(graph, [0, 1])
        except (InputError, StoreError):
            refused += 1
    assert 75 < refused < 150


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(folder, tmp_path):
    model = tampered(folder, tmp_path / "m")
    for file in ("model.safetensors", "config.json"):
        (model / file).unlink()
        os.mkfifo(model / file)
        with pytest.raises(StoreError, match=f"{file}.*not a regular file"):
            NIGCN.load(model)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"a": NaN}', "not a finite number"),
        ('{"a": 1e999}', "not a finite number"),
        ('{"a": 1' + "0" * 400 + "}", "too large a number"),
        ('{"a": "\\ud800"}', "surrogates"),
    ],
)
@pytest.mark.parametrize("kind", ["model", "preset"])
def test_json_that_no_other_program_would_read_is_refused(folder, tmp_path, text, why, kind):
    place = tampered(folder, tmp_path / "m")
    (place / "config.json").write_text(text)
    with pytest.raises(StoreError, match=why):
        NIGCN.load(place) if kind == "model" else find_preset(str(place / "config.json"))


def test_only_our_errors_leave_a_preset_whatever_its_values(tmp_path):
    refused = []
    for name in [*NIGCN().get_params(deep=False), "nothing"]:
        for value in ("x", [], {"length": [2]}):
            write_preset(tmp_path / "p.json", "mine", {name: value})
            try:
                NIGCN(**find_preset(str(tmp_path / "p.json"))).check_params()
            except (InputError, StoreError):
                refused.append((name, value))
    assert len(refused) == 3 * (len(NIGCN().get_params(deep=False)) + 1)


def test_a_preset_that_asks_for_a_network_of_no_reasonable_size_is_refused(graph, tmp_path, run):
    write_store(graph, tmp_path / "store")
    for name in ("hidden", "layers", "members", "epochs", "patience"):
        write_preset(tmp_path / "p.json", "mine", {name: HUGE * HUGE})
        code, _, err = run("train", tmp_path / "store", "-o", tmp_path / "m", "--preset", tmp_path / "p.json")
        assert code == 2
        assert f"{name}=" in err
