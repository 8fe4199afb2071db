"""Whether a graph fits a trained model: by the names and number of its features or, without features, by its nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph import Graph

ADVICE = "give the graph that the model belongs to, or train another"


class NodeSet(NamedTuple):
    """What identifies the nodes of a graph: their names, in any order, or without names their numbers of neighbours."""

    named: bool
    num_nodes: int
    sha256: str

    @classmethod
    def of(cls, graph: Graph, keys: AnyArray | None) -> NodeSet:
        """``keys``: a whole number for each node's name, or None without names."""
        content = np.ascontiguousarray(graph.indptr, "<i8") if keys is None else np.sort(keys).astype("<u8")
        return cls(keys is not None, graph.num_nodes, hashlib.sha256(content.data).hexdigest())


def check_nodes(graph: Graph, found: NodeSet | None, trained: NodeSet | None) -> None:
    """Raise unless a graph without features has the nodes that a model was trained on; None: with features."""
    if found == trained:
        return
    if trained is None or found is None:
        these, those = ("no ", "") if trained is None else ("", "no ")
        raise InputError(
            f"{graph.name} has {these}features; this model was trained on a graph with {those}features: {ADVICE}"
        )
    if found.named != trained.named:
        these, those = ("names", "none") if found.named else ("no names", "names")
        differs = f"its nodes have {these}, those of training had {those}"
    elif found.num_nodes != trained.num_nodes:
        differs = f"it has {found.num_nodes:,} nodes, that of training had {trained.num_nodes:,}"
    else:
        differs = "its nodes have other names" if found.named else "its nodes have other numbers of neighbours"
    raise InputError(
        f"{graph.name} is not the graph that this model was trained on, which had no features: {differs}. Such a model "
        f"knows its nodes {'by name' if trained.named else 'by number'}: {ADVICE}"
    )


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
