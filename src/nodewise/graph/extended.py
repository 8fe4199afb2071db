"""ExtendedGraph: new nodes laid over a graph, in memory or in a store, without a copy of it.

New nodes see the graph, the graph does not see them: a walk from a new node starts in its own list of neighbours and
goes on in the graph, from where it never returns. So nothing changes for the nodes that were there before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, DoubleArray, Features, IntArray
from nodewise.graph import checks
from nodewise.graph.graph import Graph
from nodewise.graph.names import Names, arrow_strings, expected_name, places_of
from nodewise.graph.unchecked import Unchecked

EDGES = "expected (2, E): of each edge one end is new, the other one new or in the graph"


class JoinedRows:
    """Rows (or numbers) of one array, then those of another, without a copy: ``joined[nodes]`` takes some of them."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self.shape, self.ndim = (first.shape[0] + second.shape[0], *first.shape[1:]), first.ndim
        self.dtype, self.size = first.dtype, int(np.prod(self.shape))

    def __getitem__(self, nodes: Any) -> Any:
        if not (isinstance(nodes, np.ndarray) and nodes.dtype.kind in "iu"):
            nodes = np.arange(self.shape[0])[nodes]  # a slice or a mask
        later = nodes >= self.first.shape[0]
        parts = [self.first[nodes[~later]], self.second[nodes[later] - self.first.shape[0]]]
        back = np.argsort(np.argsort(later, kind="stable"), kind="stable")
        joined = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
        return joined[back]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ExtendedGraph(Graph):
    """What :meth:`Graph.extended` makes. New nodes have the ids after those of the graph, in the order given.

    ``links``: the weights of the edges of new nodes, ``(new nodes, all nodes)``, each with its own loop.
    """

    links: Any = None
    under: Any = None  # the graph

    @property
    def base(self) -> Graph:
        graph: Graph = self.under
        return graph

    @property
    def num_nodes(self) -> int:
        return self.base.num_nodes + int(self.links.shape[0])

    @property
    def num_edges(self) -> int:
        """Edges between two new nodes have an entry at both."""
        among = int(self.links[:, self.base.num_nodes :].nnz) - self.links.shape[0]
        return int(self.base.num_edges + self.links[:, : self.base.num_nodes].nnz + among // 2)

    @property
    def new_nodes(self) -> IntArray:
        """The ids of the new nodes."""
        return np.arange(self.base.num_nodes, self.num_nodes)

    def degrees_of(self, nodes: IntArray) -> DoubleArray:
        later = nodes >= self.base.num_nodes
        degrees = np.empty(nodes.size)
        degrees[~later] = self.base.degrees_of(nodes[~later])
        degrees[later] = np.asarray(self.links[nodes[later] - self.base.num_nodes].sum(1)).ravel()
        return degrees

    def over(self, base: Graph, features: Features) -> ExtendedGraph:
        """The same new nodes over the same graph, of which both now have features."""
        return self._changed(features=JoinedRows(base.features, features), under=base)

    def replace(self, **changes: Any) -> Graph:
        raise InputError(
            f"{self.name}: has new nodes laid over it, and cannot be changed; change the graph below first"
        )


def extended(
    graph: Graph,
    edges: AnyArray,
    features: Features | None = None,
    names: Sequence[str] | None = None,
    edge_weight: AnyArray | None = None,
) -> ExtendedGraph:
    """:meth:`Graph.extended`."""
    if isinstance(graph, ExtendedGraph):
        raise InputError(f"{graph.name}: has new nodes laid over it already; extend the graph below by all of them")
    names = _checked_names(graph, names)
    ends = _ends(graph, edges, names)
    count = _count(graph, ends, features, names)
    if features is None and graph.features is not None:
        raise InputError(f"features: none, and {graph.name} has {graph.num_features:,}; expected a row per new node")
    if features is not None and (graph.features is None or features.shape[1] != graph.num_features):
        raise InputError(
            f"features: {features.shape[1]:,} columns, {graph.name} has {graph.num_features:,}; expected the same ones"
        )
    joined = None
    if features is not None:
        rows: Any = checks.checked_features(features, count)
        if sp.issparse(graph.features) != sp.issparse(rows):
            rows = rows.toarray() if sp.issparse(rows) else sp.csr_matrix(rows)
        joined = JoinedRows(graph.features, rows)
    labels, known = None, graph.unchecked("labels")
    if known is not None:
        unknown = np.full((count, *known.shape[1:]), 0 if graph.multilabel else checks.UNKNOWN)
        labels = Unchecked(JoinedRows(known, unknown), partial(_check_labels, graph))
    own = {name: graph.__dict__[name] for name in ("indptr", "indices", "edge_weight", "name", "feature_names")}
    found = ExtendedGraph(
        **own,
        features=joined,
        labels=labels,  # type: ignore[arg-type]
        node_names=names,
        label_names=graph.label_names,
        links=_links(graph, ends, count, edge_weight),
        under=graph,
    )
    found._cache(total_degree=graph.total_degree, least_degree=graph.least_degree, present_labels=graph.present_labels)
    return found


def _joined_names(graph: Graph, new: list[str]) -> Any:
    """A column of the names of the graph, then of new nodes."""
    import pyarrow as pa

    return pa.chunked_array([*arrow_strings(graph.node_names).chunks, *arrow_strings(new).chunks])


def _check_labels(graph: Graph, joined: JoinedRows) -> None:
    """Check the labels of the graph below, unless that was done."""
    joined.first = graph.labels


def _checked_names(graph: Graph, names: Sequence[str] | None) -> Names | None:
    """The names of all nodes, those of new ones last."""
    if names is None:
        if graph.node_names is not None:
            raise InputError(f"names: none, and the nodes of {graph.name} have names; expected one for each new node")
        return None
    if graph.node_names is None:
        raise InputError(f"names: the nodes of {graph.name} have none; leave names out, new nodes are numbered on")
    words = [str(name) for name in names]
    checks.check_distinct("names", words, "new nodes")
    there = places_of(words, graph.node_names)
    if (there >= 0).any():
        again = int(np.argmax(there >= 0))
        raise InputError(
            f"names: {words[again]!r} is a node of {graph.name} already; give new nodes names of their own"
        )
    return Names(partial(_joined_names, graph, words), graph.num_nodes + len(words))


def _ends(graph: Graph, edges: AnyArray, names: Names | None) -> IntArray:
    """The ends of the edges as ids, those of new nodes after those of the graph."""
    array = np.asarray(edges)
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(f"edges: an array of shape {array.shape}; {EDGES}")
    if array.dtype.kind not in "UO" or array.size == 0:
        return checks.checked_edges(array if array.size else np.zeros((2, 0), np.int64)).astype(np.int64)
    if graph.node_names is None or names is None:
        raise InputError(f"edges: {str(array[0, 0])!r} is a name, and the nodes of {graph.name} have none; {EDGES}")
    words = [str(word) for word in array.ravel()]
    ids = places_of(words, names)
    if (ids < 0).any():
        word = words[int(np.argmax(ids < 0))]
        raise InputError(
            f"edges: {word!r} is neither a new node nor one of {graph.name}; {expected_name(word, graph.node_names)}"
        )
    return ids.reshape(array.shape)


def _count(graph: Graph, ends: IntArray, features: Features | None, names: Names | None) -> int:
    """The number of new nodes: by names or features, else by the largest id."""
    if names is not None:
        count = len(names) - graph.num_nodes
    elif features is not None:
        count = int(features.shape[0])
    else:
        count = max(0, int(ends.max(initial=-1)) + 1 - graph.num_nodes)
    if count == 0:
        raise InputError("edges: no new node; expected at least one, with an id after the last one of the graph")
    if ends.size and (ends.min() < 0 or ends.max() >= graph.num_nodes + count):
        wrong = int(ends.min() if ends.min() < 0 else ends.max())
        raise InputError(
            f"edges: node {wrong}; the graph has {graph.num_nodes:,} nodes and {count:,} are new, so ids go from 0 to "
            f"{graph.num_nodes + count - 1:,}"
        )
    old = np.flatnonzero((ends < graph.num_nodes).all(0))
    if old.size:
        a, b = ends[:, old[0]].tolist() if graph.node_names is None else (graph.node_names[i] for i in ends[:, old[0]])
        raise InputError(
            f"edges: edge {old[0]:,} joins nodes {a} and {b}, which are both in {graph.name}; the graph below does not "
            f"change. Append such edges to its store: nodewise append"
        )
    return count


def _links(graph: Graph, ends: IntArray, count: int, weights: AnyArray | None) -> sp.csr_matrix:
    """Each new node's neighbours and their weights, repeats merged as in any graph, and its loop."""
    if (weights is None) != (graph.unchecked("edge_weight") is None):
        these, those = ("none", "them") if weights is None else ("given", "none")
        raise InputError(f"edge_weight: {these}, and the edges of {graph.name} have {those}; expected the same kind")
    values = np.ones(ends.shape[1]) if weights is None else checks.checked_edge_weight(weights, ends)
    first = graph.num_nodes
    rows = [np.concatenate(side) for side in ((ends[0], ends[1]), (ends[1], ends[0]))]
    mine = (rows[0] >= first) & (rows[0] != rows[1])
    shape = (count, first + count)
    links = sp.csr_matrix((np.tile(values, 2)[mine], (rows[0][mine] - first, rows[1][mine])), shape)
    links.sum_duplicates()
    if weights is None:
        links.data[:] = 1.0
    loops = ends[0] == ends[1]
    own = np.bincount(ends[0][loops] - first, values[loops], count) if weights is not None else np.zeros(count)
    diagonal = np.where(own > 0, own, 1.0)  # a loop of weight 1 where none was given
    return sp.csr_matrix(links + sp.csr_matrix((diagonal, (np.arange(count), first + np.arange(count))), shape))
