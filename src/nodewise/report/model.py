"""Describe a saved model: what it learned from, how good it is, what it chose, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodewise._util.errors import InputError
from nodewise.learn import saved
from nodewise.learn.evaluate import held_out_score, votes_of
from nodewise.learn.nigcn import NIGCN
from nodewise.store import is_store

COUNTED = ("graph", "nodes", "edges", "features")  # of what a model learned from


def describe_model(path: str | Path) -> dict[str, Any]:
    """What ``nodewise describe`` shows; facts that a model saved earlier lacks are left out.

    ``scores``: on nodes that had no part in training, see :func:`nodewise.learn.evaluate.held_out_score`.

    >>> import tempfile
    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> folder = Path(tempfile.mkdtemp()) / "model"
    >>> nw.NIGCN().fit(g, train=range(60), val=range(60, 120)).save(folder)
    >>> about = describe_model(folder)
    >>> about["learned_from"]["nodes"], about["learned_from"]["labels"], about["classes"]
    (500, 120, ['0', '1', '2'])
    """
    folder = Path(path)
    if is_store(folder):
        raise InputError(f"{path}: this is a store; nodewise info {path} describes it, and describe a model")
    model, config = NIGCN.load(folder), saved.read_config(folder)
    learned = model.learned_from_
    facts = {
        "model": str(path),
        "kind": config["kind"],
        "written_by": config.get("written_by"),
        "files": {file: (folder / file).stat().st_size for file in (saved.CONFIG, saved.TENSORS)},
        "learned_from": learned and {**{name: getattr(learned, name) for name in COUNTED}, "labels": learned.keys.size},
        "classes": [str(label) for label in model.classes_],
        "several_labels_per_node": model.multilabel_,
        "features": model.n_features_in_,
        "scores": held_out_score(model),
        "engine": model.engine_,
        "chosen": model.auto_params_,
        "votes": votes_of(model),
        "temperature": model.temperature_,
        "threshold": model.threshold_ if model.multilabel_ else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
