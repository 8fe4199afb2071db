"""Whether a graph fits a trained model: by the names and number of its features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import IntArray
from nodewise.graph import Graph

ADVICE = "give the graph that the model belongs to, or train another"


def column_order(graph: Graph, count: int, names: Sequence[str] | None) -> IntArray | None:
    """Where in ``graph`` each of the ``count`` columns is that a model learned from.

    None where each has its own place, or where the graph or the model has no ``names`` of columns. Raises where the
    graph has other columns.
    """
    if graph.num_features != count:
        raise InputError(
            f"{graph.name} has {graph.num_features:,} features; this model was trained on {count:,}: {ADVICE}"
        )
    if names is None or graph.feature_names is None or list(names) == list(graph.feature_names):
        return None
    places = {name: place for place, name in enumerate(graph.feature_names)}
    missing = [name for name in names if name not in places]
    if missing:
        known = set(names)
        other = next(name for name in places if name not in known)
        raise InputError(
            f"{graph.name} has other features than this model was trained on: {len(missing):,} of {count:,} differ, "
            f"the first is {other!r} in the graph and {missing[0]!r} in the model; rename the columns, or {ADVICE}"
        )
    return np.array([places[name] for name in names])
