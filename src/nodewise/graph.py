"""Graph: the adjacency that every engine walks on, and what is known of its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nodewise import adjacency
from nodewise._typing import AnyArray, DoubleArray, Features, IntArray
from nodewise.errors import InputError

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

UNKNOWN = -1  # the label of a node whose label is not known


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph with one loop on every node, and its features, labels and names.

    Make one with :meth:`from_edges`, :meth:`from_scipy`, :meth:`from_networkx`, :meth:`from_pyg` or
    :func:`nodewise.load`; the constructor trusts its arrays.

    >>> import numpy as np
    >>> Graph.from_edges(np.array([[0, 1], [1, 2]]), num_nodes=4)
    Graph(nodes=4, edges=2)
    """

    indptr: IntArray
    indices: AnyArray
    edge_weights: AnyArray | None = None
    features: Features | None = None
    labels: AnyArray | None = None
    node_names: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    splits: Mapping[str, IntArray] = dataclasses.field(default_factory=dict)
    name: str = "graph"

    def __post_init__(self) -> None:
        # Read-only arrays are one type to the compiled kernels, whether they lie in memory or in a file.
        for field in ("indptr", "indices", "edge_weights"):
            array = getattr(self, field)
            if array is not None:
                view = np.asarray(array).view()
                view.flags.writeable = False
                object.__setattr__(self, field, view)

    # ------------------------------------------------------------------ making one

    @classmethod
    def from_edges(
        cls,
        edge_index: AnyArray,
        num_nodes: int | None = None,
        features: Features | None = None,
        labels: AnyArray | None = None,
        *,
        edge_weights: AnyArray | None = None,
        node_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        splits: Mapping[str, AnyArray] | None = None,
        name: str = "graph",
        threads: int | None = None,
    ) -> Graph:
        """A graph from a ``(2, E)`` integer array; direction is ignored, loops and repeats are welcome.

        >>> import numpy as np
        >>> Graph.from_edges(np.array([[0, 0], [1, 1]])).num_edges
        1
        """
        edges = _checked_edges(edge_index)
        if num_nodes is not None and not isinstance(num_nodes, int | np.integer):
            raise InputError(f"num_nodes={num_nodes!r}: expected a whole number")
        if num_nodes is None:
            num_nodes = _implied_num_nodes(edges, features, labels, node_names)
        _check_ids(edges, num_nodes)
        if edge_weights is None:
            adj = adjacency.from_edges(edges[0], edges[1], num_nodes, threads)
        else:
            weights = _checked_edge_weights(edge_weights, edges.shape[1])
            adj = adjacency.from_weighted_edges(edges[0], edges[1], weights, num_nodes)
        return cls(
            adj.indptr,
            adj.indices,
            adj.weights,
            features=checked_features(features, num_nodes),
            labels=checked_labels(labels, num_nodes),
            node_names=node_names,
            label_names=label_names,
            splits=splits or {},
            name=name,
        )._checked()

    @classmethod
    def from_scipy(
        cls, matrix: Any, features: Features | None = None, labels: AnyArray | None = None, **known: Any
    ) -> Graph:
        """A graph from a square sparse matrix; entries other than 0 and 1 are edge weights.

        >>> import scipy.sparse
        >>> Graph.from_scipy(scipy.sparse.csr_matrix([[0, 1], [1, 0]]))
        Graph(nodes=2, edges=1)
        """
        coo = sp.coo_matrix(matrix, copy=True)
        coo.sum_duplicates()
        if coo.shape[0] != coo.shape[1]:
            raise InputError(f"matrix of shape {coo.shape}: an adjacency is square")
        used = coo.data != 0
        edges, values = np.stack([coo.row[used], coo.col[used]]), coo.data[used]
        weighted = bool(np.any(values != 1))
        return cls.from_edges(edges, coo.shape[0], features, labels, edge_weights=values if weighted else None, **known)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        features: Features | None = None,
        labels: AnyArray | None = None,
        weight: str = "weight",
        **known: Any,
    ) -> Graph:
        """A graph from networkx, nodes in its own order, their names kept; ``weight`` names the edge attribute.

        >>> import networkx
        >>> Graph.from_networkx(networkx.path_graph(3))
        Graph(nodes=3, edges=2)
        """
        nodes = list(graph.nodes)
        position = {node: i for i, node in enumerate(nodes)}
        triples = [(position[u], position[v], w) for u, v, w in graph.edges(data=weight, default=None)]
        edges = np.array([(u, v) for u, v, _ in triples], np.int64).reshape(-1, 2).T
        weights = None
        if any(w is not None for _, _, w in triples):
            weights = np.array([1.0 if w is None else w for _, _, w in triples])
        known.setdefault("node_names", [str(node) for node in nodes])
        return cls.from_edges(edges, len(nodes), features, labels, edge_weights=weights, **known)

    @classmethod
    def from_pyg(cls, data: torch_geometric.data.Data, **known: Any) -> Graph:
        """A graph from PyTorch Geometric's ``Data``: ``edge_index``, ``x``, ``y``, ``edge_weight`` and the masks."""

        def array(field: str) -> AnyArray | None:
            value = getattr(data, field, None)
            return None if value is None else np.asarray(value.detach().cpu().numpy())

        edges = array("edge_index")
        if edges is None:
            raise InputError("data.edge_index is missing: expected a (2, E) tensor, as PyTorch Geometric makes it")
        masks = {part: array(f"{part}_mask") for part in ("train", "val", "test")}
        known.setdefault("splits", {p: np.flatnonzero(m) for p, m in masks.items() if m is not None and m.ndim == 1})
        labels = array("y")
        if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return cls.from_edges(edges, data.num_nodes, array("x"), labels, edge_weights=array("edge_weight"), **known)

    def replace(self, **changes: Any) -> Graph:
        """A graph that shares everything with this one but the ``changes``, which are checked."""
        if "features" in changes:
            changes["features"] = checked_features(changes["features"], self.num_nodes)
        if "labels" in changes:
            changes["labels"] = checked_labels(changes["labels"], self.num_nodes)
        return dataclasses.replace(self, **changes)._checked()

    def _checked(self) -> Graph:
        """This graph, if its names and splits fit its nodes and labels."""
        _check_names(self.node_names, self.label_names, self.labels, self.num_nodes)
        splits = {p: checked_nodes(nodes, self.num_nodes, f"splits[{p!r}]") for p, nodes in self.splits.items()}
        return dataclasses.replace(self, splits=splits)

    def subgraph(self, nodes: AnyArray) -> Graph:
        """The graph that ``nodes`` induce, renumbered in the order given."""
        nodes = checked_nodes(nodes, self.num_nodes, "nodes")
        if np.unique(nodes).size != nodes.size:
            raise InputError("nodes: a subgraph takes each node once")
        adj = adjacency.induced(self.indptr, self.indices, self.edge_weights, nodes)
        return dataclasses.replace(
            self,
            indptr=adj.indptr,
            indices=adj.indices,
            edge_weights=adj.weights,
            features=None if self.features is None else self.features[nodes],
            labels=None if self.labels is None else self.labels[nodes],
            node_names=None if self.node_names is None else [self.node_names[i] for i in nodes],
            splits={},
            name=f"{self.name}[{nodes.size:,} nodes]",
        )

    # ------------------------------------------------------------------ what it is

    @property
    def num_nodes(self) -> int:
        return self.indptr.size - 1

    @property
    def num_entries(self) -> int:
        """Stored adjacency entries: each edge twice, each loop once. The paper's ``2m`` where edges have no weights."""
        return int(self.indptr[-1])

    @property
    def num_edges(self) -> int:
        """Undirected edges, loops apart."""
        return (self.num_entries - self.num_nodes) // 2

    @cached_property
    def degrees(self) -> DoubleArray:
        """``d_u``: the number of entries in a node's row, or the sum of their weights. The loop counts."""
        if self.edge_weights is None:
            return np.diff(self.indptr).astype(np.float64)
        return np.add.reduceat(self.edge_weights.astype(np.float64), self.indptr[:-1])

    @cached_property
    def cumulative_weights(self) -> DoubleArray:
        """Running sum of the edge weights within each row, by which walks choose; empty where edges have no weights."""
        if self.edge_weights is None:
            return _frozen(np.zeros(0))
        return _frozen(adjacency.running_sums(self.indptr, self.edge_weights))

    @property
    def num_features(self) -> int:
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def multilabel(self) -> bool:
        return self.labels is not None and self.labels.ndim == 2

    def to_scipy(self) -> sp.csr_matrix:
        """The adjacency with its loops, as float64 CSR."""
        data = np.ones(self.num_entries) if self.edge_weights is None else self.edge_weights.astype(np.float64)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_matrix((data, self.indices.astype(np.int64), self.indptr), shape=shape)

    def __repr__(self) -> str:
        parts = [f"nodes={self.num_nodes:,}", f"edges={self.num_edges:,}"]
        if self.edge_weights is not None:
            parts.append("weighted")
        if self.features is not None:
            kind = "sparse " if sp.issparse(self.features) else ""
            parts.append(f"features={kind}{self.num_features:,}")
        if self.labels is not None:
            parts.append(f"labels={self.labels.shape[1]} per node" if self.multilabel else "labels")
        return f"Graph({', '.join(parts)})"


# ---------------------------------------------------------------------- checks


def checked_nodes(nodes: Any, num_nodes: int, what: str) -> IntArray:
    """Node ids as int64, or an error that names the first that cannot be one. A boolean mask is taken as a mask."""
    array = _as_array(what, nodes)
    if array.dtype == bool:
        if array.shape != (num_nodes,):
            raise InputError(
                f"{what}: a mask of shape {array.shape}; expected one entry for each of {num_nodes:,} nodes"
            )
        return np.flatnonzero(array)
    if array.ndim != 1:
        raise InputError(f"{what}: an array of shape {array.shape}; expected a list of node ids")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{what}: ids of type {array.dtype}; node ids are whole numbers from 0 to {num_nodes - 1:,}")
    wrong = np.flatnonzero((array < 0) | (array >= num_nodes))
    if wrong.size:
        raise InputError(
            f"{what}: entry {wrong[0]:,} is {array[wrong[0]]}; node ids are whole numbers from 0 to {num_nodes - 1:,}"
        )
    return array.astype(np.int64)


def checked_features(features: Any, num_nodes: int) -> Features | None:
    """Features as float32 (or float16) rows, dense or CSR; every value finite, one row a node."""
    if features is None:
        return None
    if sp.issparse(features):
        features = sp.csr_matrix(features, dtype=np.float32)
        if not features.has_canonical_format:
            features = features.copy()  # the caller's matrix stays as it is
            features.sum_duplicates()
        values = features.data
    else:
        if not isinstance(features, np.ndarray):
            features = _as_array("features", features)
        if features.ndim != 2:
            raise InputError(f"features: an array of shape {features.shape}; expected (num_nodes, num_features)")
        if features.dtype.kind not in "fiub":
            raise InputError(f"features: values of type {features.dtype}; expected numbers")
        if features.dtype not in (np.float32, np.float16):
            features = features.astype(np.float32)
        if not features.flags.c_contiguous:
            features = np.ascontiguousarray(features)
        values = features
    if features.shape[0] != num_nodes:
        raise InputError(f"features: {features.shape[0]:,} rows for {num_nodes:,} nodes; expected one row a node")
    _check_finite(values, features)
    return features


def checked_labels(labels: Any, num_nodes: int) -> AnyArray | None:
    """Labels as int64 with -1 for unknown, or a 0/1 matrix (int8) with several labels a node."""
    if labels is None:
        return None
    array = _whole_labels(_as_array("labels", labels))
    if array.ndim not in (1, 2) or array.dtype.kind not in "iub":
        raise InputError(
            f"labels: an array of shape {array.shape} and type {array.dtype}; expected whole numbers, -1 for unknown, "
            f"or a 0/1 matrix with a column a label"
        )
    if array.shape[0] != num_nodes:
        raise InputError(f"labels: {array.shape[0]:,} for {num_nodes:,} nodes; expected one a node, -1 for unknown")
    low, high = (0, 1) if array.ndim == 2 else (UNKNOWN, np.iinfo(np.int64).max)
    wrong = np.argwhere((array < low) | (array > high))
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        expected = "0 or 1" if array.ndim == 2 else "0 or more, or -1 for unknown"
        raise InputError(f"labels: node {where[0]:,} has {array[where]}; expected {expected}")
    return array.astype(np.int8 if array.ndim == 2 else np.int64)


def _as_array(what: str, values: Any) -> AnyArray:
    """An array of anything array-like, a tensor with gradients included."""
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except ValueError as error:
        raise InputError(f"{what}: cannot be made an array ({error}); expected rows of equal length") from error


def _whole_labels(array: AnyArray) -> AnyArray:
    """Labels that came as floats, as they do from PyTorch Geometric: whole numbers, NaN for unknown."""
    if array.dtype.kind != "f":
        return array
    known = ~np.isnan(array)
    whole = np.where(known, array, UNKNOWN)
    if not np.all(whole == np.floor(whole)) or (array.ndim == 2 and not known.all()):
        return array
    return whole.astype(np.int64)


def _checked_edges(edge_index: Any) -> AnyArray:
    edges = _as_array("edge_index", edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = "; pass its transpose" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise InputError(f"edge_index: an array of shape {edges.shape}; expected (2, num_edges){hint}")
    if edges.dtype.kind == "f":
        wrong = np.argwhere(~np.isfinite(edges) | (edges != np.floor(edges)))
        if wrong.size:
            raise InputError(
                f"edge_index: edge {wrong[0][1]:,} names node {edges[tuple(wrong[0])]}; node ids are whole numbers"
            )
        edges = edges.astype(np.int64)
    if edges.dtype.kind not in "iu":
        raise InputError(f"edge_index: ids of type {edges.dtype}; node ids are whole numbers")
    return edges if edges.dtype == np.int32 else edges.astype(np.int64, copy=False)


def _implied_num_nodes(edges: AnyArray, *per_node: Any) -> int:
    for known in per_node:
        if known is not None:
            return int(known.shape[0]) if hasattr(known, "shape") else len(known)
    return int(edges.max()) + 1 if edges.size else 0


def _check_ids(edges: AnyArray, num_nodes: int) -> None:
    if num_nodes < 1:
        raise InputError("the graph is empty: expected at least one node")
    if edges.size == 0:
        return
    if edges.min() < 0 or edges.max() >= num_nodes:
        side, edge = np.argwhere((edges < 0) | (edges >= num_nodes))[0]
        raise InputError(
            f"edge_index: edge {edge:,} names node {edges[side, edge]}; node ids are whole numbers from 0 to "
            f"{num_nodes - 1:,}. Raise num_nodes or drop the edge"
        )


def _checked_edge_weights(weights: Any, num_edges: int) -> DoubleArray:
    array = np.asarray(weights)
    if array.shape != (num_edges,):
        raise InputError(
            f"edge_weights: an array of shape {array.shape}; expected one weight for each of {num_edges:,} edges"
        )
    if array.dtype.kind not in "fiub":
        raise InputError(f"edge_weights: values of type {array.dtype}; expected numbers")
    with np.errstate(over="ignore", under="ignore"):
        stored = array.astype(np.float32)
    wrong = np.flatnonzero(~(np.isfinite(stored) & (stored > 0)))
    if wrong.size:
        raise InputError(f"edge_weights: edge {wrong[0]:,} has weight {array[wrong[0]]}; expected a float32 above 0")
    return array.astype(np.float64)


def _check_names(
    node_names: Sequence[str] | None, label_names: Sequence[str] | None, labels: AnyArray | None, num_nodes: int
) -> None:
    if node_names is not None and len(node_names) != num_nodes:
        raise InputError(f"node_names: {len(node_names):,} names for {num_nodes:,} nodes; expected one a node")
    if label_names is None:
        return
    needed = 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
    if len(label_names) < needed:
        raise InputError(f"label_names: {len(label_names):,}; expected one for each label from 0 to {needed - 1:,}")
    wrong = [name for name in label_names if not isinstance(name, str)]
    if wrong:
        raise InputError(f"label_names: {wrong[0]!r} is not a string; expected a name for each label")


def _check_finite(values: AnyArray, features: Features) -> None:
    """In slices, so that a file larger than memory can be checked."""
    step = max(1, (1 << 24) // max(1, values.shape[1] if values.ndim == 2 else 1))
    for first in range(0, values.shape[0], step):
        finite = np.isfinite(values[first : first + step])
        if not finite.all():
            spot = int(np.flatnonzero(~finite)[0])
            if values.ndim == 2:
                row, column = first + spot // values.shape[1], spot % values.shape[1]
            else:
                row = int(np.searchsorted(features.indptr, first + spot, side="right")) - 1
                column = int(features.indices[first + spot])
            raise InputError(
                f"features: node {row:,} has {float(values[(row, column) if values.ndim == 2 else first + spot])} in "
                f"column {column:,}; expected finite numbers. Fill or drop the missing values first"
            )


def _frozen(array: DoubleArray) -> DoubleArray:
    array.flags.writeable = False
    return array
