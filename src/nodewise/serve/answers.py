"""Answers: what a model says about nodes of a graph, and about nodes that are not in it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.types import FloatArray
from nodewise.explaining.explain import explain
from nodewise.explaining.labelled import known_labels
from nodewise.graph import Graph
from nodewise.graph.names import arrow_strings, expected_name, places_of
from nodewise.learn.calibrate import sets_of
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.task import featured
from nodewise.serve.questions import About, Chance, NewNode, Prediction

MOST_NAMES = 50  # features that the page lists
MOST_LINKS = 50_000  # of the new nodes of one request; one takes some kilobytes


class UnknownNodeError(InputError):
    """A node that the graph does not have."""


class Answers:
    """A model and its graph, ready to be asked."""

    def __init__(self, model: NIGCN, graph: Graph, threads: int | None = None, epsilon: float | None = None) -> None:
        self.model, self.graph, self.seen = model, graph, featured(graph)
        maker = model.maker_on(self.seen)
        changes: dict[str, Any] = {} if epsilon is None else {"epsilon": epsilon}
        changes |= {"threads": threads, "memory": memory_budget(maker.memory)}  # read once, not each time
        self.maker = maker.changed(**changes)
        self.explained = copy(model)  # the same networks, with this server's threads, memory and epsilon
        for name in ("threads", "memory", "epsilon"):
            setattr(self.explained, name, getattr(self.maker.params, name))
        if self.maker.params.engine != "exact" and self.maker.params.epsilon != maker.params.epsilon:
            self.explained.ridge_shares_ = None  # they are of the rows of training
        self._all = None  # probabilities of all nodes
        if self.maker.params.engine == "exact":
            # Exact propagation goes over the whole graph, for one node or for all: so it is done once, for all.
            steps = self.maker.rows_in_steps(self.seen, np.arange(graph.num_nodes))
            self._all = np.concatenate([model.proba_of_rows(rows) for rows in steps])
        self.names = None if graph.node_names is None else arrow_strings(graph.node_names)
        self.classes = [str(label) for label in model.classes_]

    # ------------------------------------------------------------------ nodes

    def places(self, wanted: Sequence[int | str]) -> list[int]:
        """The ids of nodes given by id or name, -1 where there is no such node; names are looked up all at once."""
        texts = [one for one in wanted if isinstance(one, str)]
        if self.names is not None and texts:
            found = iter(places_of(texts, self.names).tolist())
        else:
            found = iter([int(text) if text.isdecimal() and len(text) < 19 else -1 for text in texts])
        ids = [next(found) if isinstance(one, str) else one for one in wanted]
        return [place if place < self.graph.num_nodes else -1 for place in ids]

    def unknown(self, wanted: int | str) -> UnknownNodeError:
        """What to say of a node that the graph does not have."""
        most = self.graph.num_nodes - 1
        if isinstance(wanted, str) and self.names is not None:
            return UnknownNodeError(f"there is no node {wanted!r}; {expected_name(wanted, self.names)}")
        return UnknownNodeError(f"there is no node {wanted!r}; ids go from 0 to {most:,}")

    def nodes(self, wanted: Sequence[int | str]) -> list[int]:
        """The ids of nodes given by id or name; UnknownNodeError where there is none."""
        found = self.places(wanted)
        if -1 in found:
            raise self.unknown(wanted[found.index(-1)])
        return found

    def name(self, node: int) -> str:
        return str(node) if self.names is None else str(self.names[node].as_py())

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Names of nodes that begin with ``prefix``, in any case, up to ``limit``."""
        if self.names is None:
            return [prefix] if self.places([prefix]) != [-1] else []
        found: list[str] = []
        for first in range(0, len(self.names), 1 << 20):
            part = self.names.slice(first, 1 << 20)
            hits = part.filter(pc.starts_with(part, prefix, ignore_case=True))
            found += hits.slice(0, limit - len(found)).to_pylist()
            if len(found) >= limit:
                break
        return found

    # ------------------------------------------------------------------ answers

    def probabilities(self, nodes: Sequence[int]) -> Sequence[FloatArray]:
        """Of each node; one that is asked about twice is computed once."""
        if self._all is not None:
            return list(self._all[nodes])
        distinct, places = np.unique(np.array(nodes, np.int64), return_inverse=True)
        return list(self.model.proba_of_rows(self.maker.rows(self.seen, distinct))[places])

    def prediction(self, node: int, proba: FloatArray, top: int, coverage: float | None) -> Prediction:
        found = self._prediction(self.name(node), proba, top, coverage)
        found.known = self.known(node)
        return found

    def known(self, node: int) -> str | None:
        """The label that the graph gives a node; of several, all."""
        return "; ".join(known_labels(self.graph, np.array([node]))[0]) or None

    def _prediction(self, name: str, proba: FloatArray, top: int, coverage: float | None) -> Prediction:
        order = np.argsort(-proba, kind="stable")
        best = [Chance(label=self.classes[i], probability=float(proba[i])) for i in order[:top]]
        said: str | None = best[0].label
        if self.model.multilabel_:
            chosen = np.flatnonzero(self.model.labels_of_proba(proba[None])[0])
            said = "; ".join(self.classes[i] for i in chosen) or None
        covering = None
        if coverage is not None:
            inside = sets_of(proba[None], self.model.set_threshold(coverage))[0]
            covering = [self.classes[i] for i in order if inside[i]]
        return Prediction(node=name, label=said, probability=best[0].probability, top=best, set=covering)

    def predict_new(self, nodes: Sequence[NewNode], top: int) -> list[Prediction]:
        """Predictions for nodes that are not in the graph, each on its own."""
        links = sum(len(node.neighbours) for node in nodes)
        if links > MOST_LINKS:
            raise InputError(
                f"{links:,} neighbours in all; expected at most {MOST_LINKS:,}. Ask about fewer nodes at a time"
            )
        there = self.nodes([other for node in nodes for other in node.neighbours])
        here = np.repeat(np.arange(len(nodes)), [len(node.neighbours) for node in nodes])
        last = self.seen.num_nodes + len(nodes) - 1  # its loop says how many there are, even if it has no neighbours
        edges = np.stack([np.append(here + self.seen.num_nodes, last), np.append(np.array(there, np.int64), last)])
        rows = None if self.graph.features is None else self._features(nodes)
        weights = None if self.graph.edge_weight is None else np.ones(edges.shape[1])
        names = None if self.names is None else [f"\0{place}" for place in range(len(nodes))]  # of no node
        graph = self.graph.extended(edges, rows, names, weights)
        seen = featured(graph)
        found = self.model.proba_of_rows(self.maker.rows(seen, graph.new_nodes))
        return [self._prediction(node.name, proba, top, None) for node, proba in zip(nodes, found, strict=True)]

    def _features(self, nodes: Sequence[NewNode]) -> sp.csr_matrix | FloatArray:
        width = self.graph.num_features
        places = {name: i for i, name in enumerate(self.graph.feature_names or map(str, range(width)))}
        entries: list[tuple[int, int, float]] = []
        for row, node in enumerate(nodes):
            if isinstance(node.features, list):
                if len(node.features) != width:
                    raise InputError(f"{node.name}: {len(node.features):,} features; expected {width:,}")
                entries += ((row, column, value) for column, value in enumerate(node.features))
                continue
            for name, value in (node.features or {}).items():
                if name not in places:
                    raise InputError(f"{node.name}: there is no feature {name!r}; GET /about lists some of them")
                entries.append((row, places[name], value))
        rows, columns, values = np.array(entries, np.float64).reshape(-1, 3).T
        with np.errstate(over="ignore"):  # what float32 cannot hold is refused below
            numbers = values.astype(np.float32)
        found = sp.csr_matrix((numbers, (rows.astype(int), columns.astype(int))), (len(nodes), width))
        return found if sp.issparse(self.graph.features) else found.toarray()

    def explain(self, node: int | str, class_: str | int | None, top: int) -> dict[str, Any]:
        """Why a node gets its label, with the nodes and edges of a picture."""
        [place] = self.nodes([node])
        if class_ is not None and str(class_) not in self.classes:
            raise InputError(f"there is no class {str(class_)!r}; GET /about lists them")
        found = explain(self.explained, self.seen, place, class_, top)
        return found.to_json() | {"drawn": [asdict(one) for one in found.drawn], "edges": found.edges}

    def about(self) -> About:
        graph = self.graph
        first, last = graph.row_ends(np.arange(min(graph.num_nodes, 1000)))
        return About(
            graph=graph.name,
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            features=graph.num_features,
            named=self.names is not None,
            feature_names=list(graph.feature_names or ())[:MOST_NAMES],
            classes=self.classes,
            several_labels_per_node=self.model.multilabel_,
            example=self.name(int((last - first).argmax())),
        )
