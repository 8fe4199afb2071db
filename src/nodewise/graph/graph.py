"""Graph: the adjacency, features, labels and names of a graph, made from edges, SciPy, networkx, PyG or DGL."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError, StoreError
from nodewise._util.pagecache import check_mapped
from nodewise._util.types import AnyArray, DoubleArray, Features, IntArray
from nodewise.graph import adjacency, checks
from nodewise.graph.features import Quantized, dense_rows
from nodewise.graph.names import named_nodes
from nodewise.graph.unchecked import CheckedOnUse, Unchecked, csr_parts, damaged

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

    from nodewise.graph.extended import ExtendedGraph

ADJACENCY_FACTS = ("degrees", "total_degree", "least_degree", "cumulative_weights")  # made once, on first use
MASKS = ("train_mask", "val_mask", "test_mask")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph with one loop on every node, and its features, labels and names.

    Make one with :meth:`from_edges`, :meth:`from_scipy`, :meth:`from_networkx`, :meth:`from_pyg`, :meth:`from_dgl` or
    :func:`nodewise.load`; the constructor trusts its arrays.

    >>> import numpy as np
    >>> Graph.from_edges(np.array([[0, 1], [1, 2]]), num_nodes=4)
    Graph(nodes=4, edges=2)
    """

    indptr: CheckedOnUse[IntArray] = CheckedOnUse()
    indices: CheckedOnUse[AnyArray] = CheckedOnUse()
    edge_weight: CheckedOnUse[AnyArray | None] = CheckedOnUse(None)
    features: Features | None = None
    labels: CheckedOnUse[AnyArray | None] = CheckedOnUse(None)
    node_names: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    splits: CheckedOnUse[Mapping[str, IntArray]] = CheckedOnUse(None)
    name: str = "graph"
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.__dict__["splits"] = self.__dict__["splits"] or {}
        # Read-only arrays are one type to the compiled kernels, whether they lie in memory or in a file.
        for field in ("indptr", "indices", "edge_weight"):
            array, held = self.unchecked(field), self.__dict__[field]
            if array is not None:
                view = np.asarray(array).view()
                view.flags.writeable = False
                self.__dict__[field] = held._replace(value=view) if isinstance(held, Unchecked) else view

    # ------------------------------------------------------------------ making one

    @classmethod
    def from_edges(
        cls,
        edge_index: AnyArray,
        num_nodes: int | None = None,
        features: Features | None = None,
        labels: AnyArray | None = None,
        *,
        edge_weight: AnyArray | None = None,
        node_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        splits: Mapping[str, AnyArray] | None = None,
        name: str = "graph",
        feature_names: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> Graph:
        """A graph from a ``(2, E)`` integer array; direction is ignored, loops and repeats are allowed.

        ``labels``: numbers, -1 for unknown; or strings, None for unknown, which become numbers and ``label_names``; or
        a 0/1 matrix. ``feature_names``: of the columns of ``features``; a trained model then finds its columns by name.

        >>> import numpy as np
        >>> Graph.from_edges(np.array([[0, 0], [1, 1]])).num_edges
        1
        >>> g = Graph.from_edges([[0, 1], [1, 2]], labels=["red", None, "blue"])
        >>> g.labels.tolist(), g.label_names
        ([1, -1, 0], ['blue', 'red'])
        """
        labels, label_names = checks.encoded_labels(labels, label_names)
        edges = checks.checked_edges(edge_index)
        if num_nodes is not None and not isinstance(num_nodes, int | np.integer):
            raise InputError(f"num_nodes={num_nodes!r}: expected a whole number")
        if num_nodes is None:
            num_nodes = checks.implied_num_nodes(edges, features, labels, node_names)
        checks.check_ids(edges, num_nodes)
        weights = None if edge_weight is None else checks.checked_edge_weight(edge_weight, edges)
        if node_names is not None:
            checks.check_distinct("node_names", node_names, "nodes")
        adj = adjacency.from_edges(edges[0], edges[1], num_nodes, threads, weights)
        return cls(
            adj.indptr,
            adj.indices,
            adj.weights,
            features=checks.checked_features(features, num_nodes),
            labels=checks.checked_labels(labels, num_nodes),
            node_names=node_names,
            label_names=label_names,
            splits=splits or {},
            name=name,
            feature_names=feature_names,
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
        checks.check_sparse("matrix", matrix)
        coo = sp.coo_matrix(matrix, copy=True)
        coo.sum_duplicates()
        if coo.shape[0] != coo.shape[1]:
            raise InputError(f"matrix of shape {coo.shape}: an adjacency is square")
        used = coo.data != 0
        edges, values = np.stack([coo.row[used], coo.col[used]]), coo.data[used]
        weighted = bool(np.any(values != 1))
        return cls.from_edges(edges, coo.shape[0], features, labels, edge_weight=values if weighted else None, **known)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        features: Features | None = None,
        labels: AnyArray | None = None,
        weight: str = "weight",
        **known: Any,
    ) -> Graph:
        """A graph from networkx, nodes in its own order; ``weight`` names the edge attribute.

        Nodes are named by ``str(node)``, unless ``node_names`` are given; names must differ.

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
        return cls.from_edges(edges, len(nodes), features, labels, edge_weight=weights, **known)

    @classmethod
    def from_pyg(cls, data: torch_geometric.data.Data, **known: Any) -> Graph:
        """A graph from PyTorch Geometric's ``Data``: ``edge_index``, ``x``, ``y``, ``edge_weight`` and the masks.

        >>> Graph.from_pyg(Graph.from_edges([[0, 1], [1, 2]]).to_pyg())
        Graph(nodes=3, edges=2)
        """
        if hasattr(data, "node_types"):
            raise InputError("data: a HeteroData; expected one kind of node and edge, as data.to_homogeneous() makes")
        fields = {field: getattr(data, field, None) for field in ("edge_index", "x", "y", "edge_weight", *MASKS)}
        arrays = {field: checks.as_array(field, value) for field, value in fields.items() if value is not None}
        if "edge_index" not in arrays:
            raise InputError("data.edge_index is missing: expected a (2, E) tensor, as PyTorch Geometric makes it")
        known = {"edge_weight": arrays.get("edge_weight"), "splits": _splits(arrays), **known}
        return cls.from_edges(
            arrays["edge_index"], data.num_nodes, arrays.get("x"), one_column(arrays.get("y")), **known
        )

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        features: str | None = "feat",
        labels: str | None = "label",
        weight: str | None = None,
        **known: Any,
    ) -> Graph:
        """A graph from DGL's ``DGLGraph``, with the masks ``train_mask``, ``val_mask`` and ``test_mask`` as splits.

        ``features`` and ``labels`` name columns of ``graph.ndata``, ``weight`` one of ``graph.edata``; None: there is
        none.

        >>> Graph.from_dgl(dgl_graph, labels=None)  # doctest: +SKIP
        Graph(nodes=2708, edges=5278, features=1433)
        """
        if not graph.is_homogeneous:
            raise InputError(
                "graph: a DGL graph with several kinds of nodes or edges; expected one kind of each, as "
                "dgl.to_homogeneous(graph, ndata=['feat', 'label']) makes"
            )
        edges = np.stack([checks.as_array("graph.edges()", ends) for ends in graph.edges()])
        masks = {field: checks.as_array(field, graph.ndata[field]) for field in MASKS if field in graph.ndata}
        known = {"edge_weight": _dgl_column(graph, "edata", "weight", weight), "splits": _splits(masks), **known}
        x, y = _dgl_column(graph, "ndata", "features", features), _dgl_column(graph, "ndata", "labels", labels)
        return cls.from_edges(edges, graph.num_nodes(), x, one_column(y), **known)

    @classmethod
    def from_frames(cls, edges: Any, nodes: Any | None = None, **options: Any) -> Graph:
        """A graph from frames of pandas, polars, or anything that speaks Arrow, which are read as files are.

        ``edges`` has the columns source and target, and perhaps weight; ``nodes`` one row per node, with a column
        ``node``, features, and perhaps a column ``label``. ``options`` are those of :func:`nodewise.import_graph`, such
        as ``label="subject"``, ``text="abstract"`` or ``impute="mean"``.

        >>> import pyarrow as pa
        >>> edges = pa.table({"source": ["ann", "bob"], "target": ["bob", "cy"]})
        >>> Graph.from_frames(edges, pa.table({"node": ["ann", "bob", "cy"], "age": [31, 40, 25]}))
        Graph(nodes=3, edges=2, features=1)
        """
        from nodewise.importing.importer import graph_from_frames

        return graph_from_frames(edges, nodes, **options)

    from_arrow = from_frames

    def replace(self, **changes: Any) -> Graph:
        """A graph that shares everything with this one but the ``changes``, which are checked.

        New ``features`` have no ``feature_names`` unless these are given too.

        >>> Graph.from_edges([[0, 1], [1, 2]]).replace(labels=[0, 1, -1])
        Graph(nodes=3, edges=2, labels)
        """
        if "features" in changes:
            changes["features"] = checks.checked_features(changes["features"], self.num_nodes)
            changes.setdefault("feature_names", None)
        if "labels" in changes:
            labels, names = checks.encoded_labels(changes["labels"], changes.get("label_names"))
            changes["labels"] = checks.checked_labels(labels, self.num_nodes)
            changes |= {} if names is None else {"label_names": names}
        if changes.get("node_names") is not None:  # not those of a store, which are read when they are needed
            checks.check_distinct("node_names", changes["node_names"], "nodes")
        changed = self._changed(**changes)._checked()
        if not changes.keys() & {"indptr", "indices", "edge_weight"}:  # what is known of the adjacency stays true
            changed._cache(**{name: self.__dict__[name] for name in ADJACENCY_FACTS if name in self.__dict__})
        return changed

    def __deepcopy__(self, memo: Any) -> Graph:
        """Itself: a graph does not change, and scikit-learn's ``clone`` copies what it does not know."""
        return self

    def _cache(self, **facts: Any) -> None:
        """Keep facts about the adjacency that are known already, so that they are not computed on first use."""
        self.__dict__.update(facts)

    def _checked(self) -> Graph:
        """This graph, if its names and splits fit its nodes, labels and features."""
        checks.check_names(self.node_names, self.label_names, self.labels, self.num_nodes)
        checks.check_feature_names(self.feature_names, self.num_features)
        splits = {part: self.nodes(nodes, f"splits[{part!r}]") for part, nodes in self.splits.items()}
        return self._changed(splits=splits)

    def _changed(self, **changes: Any) -> Self:
        """A copy with ``changes``; what nobody has checked yet stays so."""
        return type(self)(**{field.name: self.__dict__[field.name] for field in dataclasses.fields(self)} | changes)

    def subgraph(self, nodes: AnyArray) -> Graph:
        """The graph that ``nodes`` induce, renumbered in the order given.

        >>> Graph.from_edges([[0, 1, 2], [1, 2, 3]]).subgraph([3, 2])
        Graph(nodes=2, edges=1)
        """
        nodes = self.nodes(nodes)
        if np.unique(nodes).size != nodes.size:
            raise InputError("nodes: a subgraph takes each node once")
        adj = adjacency.induced(self.indptr, self.indices, self.edge_weight, nodes)
        if nodes.size and np.diff(adj.indptr).min() < 1:  # every node has its loop
            raise self.damaged()
        return self._changed(
            indptr=adj.indptr,
            indices=adj.indices,
            edge_weight=adj.weights,
            features=_rows(self.features, nodes),
            labels=None if self.labels is None else self.labels[nodes],
            node_names=None if self.node_names is None else [self.node_names[i] for i in nodes],
            splits={},
            name=f"{self.name}[{nodes.size:,} nodes]",
        )

    def extended(
        self,
        edges: AnyArray,
        features: Features | None = None,
        names: Sequence[str] | None = None,
        edge_weight: AnyArray | None = None,
    ) -> ExtendedGraph:
        """New nodes laid over this graph, which is not copied and does not see them: a model labels them at once.

        ``edges``: ``(2, E)``, by id or by name. New nodes have the ids after the last one of the graph, in the order of
        ``features`` (a row per new node, with the columns of the graph) and ``names``.

        >>> g = Graph.from_edges([[0, 1], [1, 2]])
        >>> more = g.extended([[3, 3, 4], [0, 2, 3]])
        >>> more.num_nodes, more.new_nodes
        (5, array([3, 4]))
        """
        from nodewise.graph.extended import extended

        return extended(self, edges, features, names, edge_weight)

    # ------------------------------------------------------------------ what it is

    @property
    def base(self) -> Graph:
        """The graph below new nodes; itself, if there are none."""
        return self

    def nodes(self, nodes: AnyArray, what: str = "nodes") -> IntArray:
        """The ids of nodes that are given as ids, by name, or as a mask; an error for the first that does not exist.

        Every function that takes nodes takes them in these three ways. ``what`` begins the error.

        >>> g = Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "eve"])
        >>> g.nodes(["eve", "ann"]), g.nodes([2, 0]), g.nodes([True, False, True])
        (array([2, 0]), array([2, 0]), array([0, 2]))
        """
        words = checks.strings(what, nodes)
        if words is not None:
            return named_nodes(words, self.node_names, what)
        return checks.checked_nodes(nodes, self.num_nodes, what)

    @property
    def num_nodes(self) -> int:
        """Nodes, those without edges included."""
        return int(self.unchecked("indptr").size) - 1

    @property
    def num_entries(self) -> int:
        """Stored adjacency entries: each edge twice, each loop once. The paper's ``2m`` where edges have no weights."""
        return int(self.unchecked("indices").size)

    @property
    def num_edges(self) -> int:
        """Undirected edges, without loops."""
        return (self.num_entries - self.num_nodes) // 2

    @cached_property
    def degrees(self) -> DoubleArray:
        """``d_u``: the number of entries in a node's row, or the sum of their weights. The loop counts."""
        if self.edge_weight is None:
            return np.diff(self.indptr).astype(np.float64)
        return self._checked_degrees(np.add.reduceat(self.edge_weight.astype(np.float64), self.indptr[:-1]))

    def degrees_of(self, nodes: IntArray) -> DoubleArray:
        """``d_u`` of some nodes, without a look at the others."""
        if "degrees" in self.__dict__:
            return self.degrees[nodes]
        first, last = self.row_ends(nodes)
        if self.edge_weight is None:
            return np.asarray(last - first, np.float64)
        rows = zip(first.tolist(), last.tolist(), strict=True)
        return self._checked_degrees(np.array([self.edge_weight[a:b].sum(dtype=np.float64) for a, b in rows]))

    def _checked_degrees(self, degrees: DoubleArray) -> DoubleArray:
        """Raise if a degree is too small to divide by, as in a store that was altered."""
        if degrees.min(initial=np.inf) < checks.LEAST_LOOP / 2:
            raise damaged(self.unchecked("edge_weight"), self.name, f"a node has a degree below {checks.LEAST_LOOP:g}")
        return degrees

    def row_ends(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Where the rows of some nodes begin and end in ``indices``, without a look at the others."""
        indptr = self.unchecked("indptr")
        first, last = indptr[nodes], indptr[nodes + 1]
        if nodes.size and (first.min() < 0 or (last - first).min() < 1 or last.max() > self.num_entries):
            raise self.damaged()
        return first, last

    def damaged(self) -> StoreError:
        """The error for rows that point outside the adjacency, or entries that point outside the graph."""
        return damaged(self.unchecked("indices"), self.name, "this or indptr.npy points outside the graph")

    @property
    def kernel_weights(self) -> AnyArray:
        """The edge weights as kernels take them: read-only, and empty where edges have none."""
        return _frozen(np.zeros(0, np.float32)) if self.edge_weight is None else self.edge_weight

    @property
    def kernel_adjacency(self) -> tuple[AnyArray, ...]:
        """What kernels over the adjacency take first; without edge weights a row's length is its degree."""
        degrees = np.zeros(0) if self.edge_weight is None else self.degrees
        return self.indptr, self.indices, self.kernel_weights, degrees

    @cached_property
    def total_degree(self) -> float:
        """The paper's ``2m``."""
        return float(self.num_entries if self.edge_weight is None else self.degrees.sum())

    @cached_property
    def least_degree(self) -> float:
        if self.edge_weight is not None:
            return float(self.degrees.min())
        step = 1 << 20  # of a graph larger than memory, a part at a time
        starts = range(0, self.num_nodes, step)
        return float(min(int(np.diff(self.indptr[i : i + step + 1]).min()) for i in starts))

    @cached_property
    def cumulative_weights(self) -> DoubleArray:
        """Running sum of the edge weights within each row, by which walks choose; empty where edges have no weights."""
        if self.edge_weight is None:
            return _frozen(np.zeros(0))
        return _frozen(adjacency.running_sums(self.indptr, self.edge_weight))

    @property
    def num_features(self) -> int:
        """Columns of the features; 0 where there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @cached_property
    def present_labels(self) -> IntArray:
        """The labels that occur, in order; columns, where nodes have several labels."""
        if self.labels is None:
            return np.zeros(0, np.int64)
        return np.arange(self.labels.shape[1]) if self.multilabel else checks.present_labels(self.labels)

    @property
    def multilabel(self) -> bool:
        """Whether labels are a 0/1 matrix, with several per node."""
        labels = self.unchecked("labels")
        return labels is not None and labels.ndim == 2

    # ------------------------------------------------------------------ a store that was not verified

    def unchecked(self, field: str) -> Any:
        """A field as it is, even if it is an array of a store that nobody has checked: for code that bounds itself."""
        held = self.__dict__[field]
        return held.value if isinstance(held, Unchecked) else held

    def check_files(self) -> None:
        """Raise if a file that an array lies in was truncated: to touch a page that is missing ends the process."""
        arrays = [self.unchecked(field) for field in ("indptr", "indices", "edge_weight", "labels", "features")]
        arrays += [*self.unchecked("splits").values()]
        for array in arrays:
            check_mapped(*(csr_parts(array) if sp.issparse(array) else [getattr(array, "codes", array)]))

    def to_scipy(self) -> sp.csr_matrix:
        """The adjacency with its loops, as float64 CSR.

        >>> Graph.from_edges([[0], [1]]).to_scipy().toarray()
        array([[1., 1.],
               [1., 1.]])
        """
        data = np.ones(self.num_entries) if self.edge_weight is None else self.edge_weight.astype(np.float64)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_matrix((data, self.indices.astype(np.int64), self.indptr), shape=shape)

    def to_pyg(self) -> torch_geometric.data.Data:
        """A ``Data`` of PyTorch Geometric: ``edge_index`` without loops, dense ``x``, ``y``, ``edge_weight``, masks.

        >>> data = Graph.from_edges([[0, 1], [1, 2]], labels=[0, 1, 0]).to_pyg()
        >>> data.num_edges, data.y.tolist()
        (4, [0, 1, 0])
        """
        try:
            import torch
            from torch_geometric.data import Data
        except ImportError as error:
            raise InputError(f"to_pyg needs PyTorch Geometric ({error}); pip install 'nodewise[baselines]'") from error
        sources = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        kept = sources != self.indices
        if self.edge_weight is not None:
            kept |= self.edge_weight != 1  # a loop that is not the one that every node gets
        arrays: dict[str, AnyArray | None] = {
            "edge_index": np.stack([sources[kept], self.indices[kept].astype(np.int64)]),
            "edge_weight": None if self.edge_weight is None else self.edge_weight[kept],
            "x": None if self.features is None else dense_rows(self.features, np.arange(self.num_nodes), "none"),
            "y": self.labels,
        }
        for part, nodes in self.splits.items():
            arrays[f"{part}_mask"] = np.isin(np.arange(self.num_nodes), nodes)
        tensors = {name: torch.tensor(array) for name, array in arrays.items() if array is not None}
        return Data(num_nodes=self.num_nodes, **tensors)

    def __repr__(self) -> str:
        parts = [f"nodes={self.num_nodes:,}", f"edges={self.num_edges:,}"]
        if self.edge_weight is not None:
            parts.append("weighted")
        if self.features is not None:
            kind = "sparse " if sp.issparse(self.features) else ""
            parts.append(f"features={kind}{self.num_features:,}")
        if self.labels is not None:
            parts.append(f"labels={self.labels.shape[1]}, several per node" if self.multilabel else "labels")
        return f"Graph({', '.join(parts)})"


def _rows(features: Features | None, nodes: IntArray) -> Features | None:
    if features is None:
        return None
    return features.take(nodes) if isinstance(features, Quantized) else features[nodes]


def _splits(masks: Mapping[str, AnyArray]) -> dict[str, IntArray]:
    """The splits of PyTorch Geometric and DGL; a mask with several columns is none."""
    found = {name: masks[name] for name in MASKS if name in masks}
    return {name.removesuffix("_mask"): np.flatnonzero(mask) for name, mask in found.items() if mask.ndim == 1}


def one_column(labels: AnyArray | None) -> AnyArray | None:
    """A matrix of one column is a list of labels."""
    return labels[:, 0] if labels is not None and labels.ndim == 2 and labels.shape[1] == 1 else labels


def _dgl_column(graph: Any, frame: str, what: str, name: str | None) -> AnyArray | None:
    columns = getattr(graph, frame)
    if name is None:
        return None
    if name not in columns:
        there = ", ".join(map(repr, columns)) or "nothing"
        raise InputError(f"{what}={name!r}: not in graph.{frame}, which has {there}; expected one of these, or None")
    return checks.as_array(f"{what}={name!r}", columns[name])


def _frozen(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array
