"""NIGCN: rows by node-wise diffusion, then a small network.

Huang et al., "Node-wise Diffusion for Scalable Graph Learning", WWW 2023.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.diffusion.diffuse import Diffusion, Params, diffuse, plan_diffusion
from nodewise.diffusion.length import Convention
from nodewise.diffusion.plan import ENTRY_BYTES, Engine
from nodewise.diffusion.walks import Mass
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.learn.classifier import (
    AUTO,
    check_whole,
    known_labels,
    nodes_or_all,
    training_part,
    training_subgraph,
)
from nodewise.learn.consistency import Consistency
from nodewise.learn.decoupled import DecoupledClassifier, Free
from nodewise.learn.head import Head
from nodewise.learn.recipes import RECIPES, RecipeName
from nodewise.learn.self_training import PseudoLabels, confident
from nodewise.learn.self_tuning import UNTUNED, Found, Labelled, deepest, find
from nodewise.learn.trainer import ExtraLoss, Recipe, Rows, Score, score_of, score_of_rows
from nodewise.learn.trainer import train as train_head
from nodewise.memory import memory_budget


class Network(NamedTuple):
    """What of the network depends on the graph."""

    layers: int
    weight_decay: float
    bias: bool


# Sparse graphs with few labels want more weight decay than dense ones, and now and then a linear network.
NETWORKS = (Network(2, 0.003, True), Network(2, 0.001, True), Network(2, 0.01, True), Network(1, 0.01, False))
CONTEST_ROWS = 4096  # that they learn from when they are compared
DRAWS, DRAW_EPSILON = 6, 0.05  # of walks that consistency compares


@dataclass(eq=False, repr=False)
class NIGCN(DecoupledClassifier):
    """A classifier of nodes that computes rows for the nodes asked about and for no others.

    *Diffusion*, as in :func:`nodewise.diffuse`: ``omega``, ``rho``, ``tau``, ``epsilon``, ``engine``, ``convention``,
    ``mass``, ``length``, ``max_hops``, ``first_k``. Where the first four are ``"auto"``, ``fit`` finds ``omega`` and
    ``rho`` by the loss on ``val`` (without ``val``, on training nodes held back in turn) and ``tau`` by where their
    weight ends. ``engine="auto"`` chooses in ``fit`` and keeps its choice (``engine_``), so that a node's prediction
    does not depend on what else is asked.

    *Network*: ``hidden``, ``layers``, ``bias``, ``dropout``, ``lr``, ``weight_decay``, ``epochs``, ``patience``,
    ``batch_size``. Where ``layers``, ``weight_decay`` or ``bias`` is ``"auto"``, a few networks are compared on
    ``val``. ``found`` says what came out. ``feature_norm`` and ``row_norm`` ("none", "l1", "l2") scale the features
    before the diffusion and the rows after it. ``heads``: so many networks learn from different starts, and their
    probabilities are averaged.

    *Beyond the paper*: ``recipe="full"`` adds parts, each kept if the validation nodes get better by it (``kept_``),
    and each an option of its own. ``consistency``: the weight of agreement between two draws of walks.
    ``self_training``: the most rounds of learning from the surest predictions. Both learn from at most ``unlabelled``
    other nodes.

    ``memory`` ("4GB"; by default a quarter of what is available) bounds what a diffusion holds; rows that do not fit go
    to a temporary file. ``phases_`` says how many seconds of the diffusion went into what.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> m.score(g, range(120, 500)) > 0.6
    True
    """

    OPEN: ClassVar[tuple[str, ...]] = ("omega", "rho", "tau", "epsilon", "layers", "weight_decay", "bias")

    omega: float | str = AUTO
    rho: float | str = AUTO
    tau: float | str = AUTO
    epsilon: float | str = AUTO
    _: KW_ONLY
    layers: int | str = AUTO  # type: ignore[assignment]
    weight_decay: float | str = AUTO  # type: ignore[assignment]
    bias: bool | str = AUTO  # type: ignore[assignment]
    dropout: float = 0.4
    lr: float = 0.03
    feature_norm: str = "l1"
    engine: Engine = "auto"
    convention: Convention = "paper"
    mass: Mass = "theta"
    length: int | None = None
    max_hops: int | None = None
    first_k: bool = True
    eta: float = 2.0
    delta: float = 0.01
    row_norm: str = "l2"
    recipe: RecipeName = "paper"
    consistency: float | None = None
    self_training: int | None = None
    unlabelled: int = 2048

    def _settle(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> None:
        self.found_, self.network_ = None, self._open_networks()[0]  # whatever an earlier fit found
        if AUTO not in (self.omega, self.rho, self.tau, self.epsilon):
            return
        seen = training_subgraph(graph, nodes[0], part) if inductive else (graph, nodes[0])
        labels = [self._encoded(known_labels(graph, n, "train")) for n in nodes]
        train = Labelled(*seen, labels[0])
        val = Labelled(graph, nodes[1], labels[1]) if len(nodes) > 1 else None
        norms = (self.feature_norm, self.row_norm)
        self.found_ = find(train, val, self._open_diffusion(), self._head_of_width, norms, self.seed)

    def _choose_network(self, train: Rows, val: Rows | None) -> None:
        """Of the networks that are open, the one with the best score on ``val`` after learning from some rows."""
        options = self._open_networks()
        self.network_ = options[0]
        if len(options) == 1 or val is None:
            return
        some, few = self._some_rows(train), self._some_rows(val)
        scores = []
        for option in options:
            self.network_ = option
            head, _ = train_head(self._make_head, some, few, self._recipe(self.seed))
            scores.append(score_of_rows(head, few))
        self.network_ = options[scores.index(max(scores))]

    def _some_rows(self, rows: Rows) -> Rows:
        """At most :data:`CONTEST_ROWS` of them, from anywhere: training nodes may come class by class."""
        if rows[0].shape[0] <= CONTEST_ROWS:
            return rows
        rng = np.random.default_rng(self.seed)
        chosen = torch.from_numpy(np.sort(rng.choice(rows[0].shape[0], CONTEST_ROWS, replace=False)))
        return rows[0][chosen], rows[1][chosen]

    def _open_networks(self) -> list[Network]:
        """What layers, weight decay and bias may be; first what they are where nothing can be compared."""
        return list(
            dict.fromkeys(
                Network(
                    open_.layers if self.layers == AUTO else int(self.layers),
                    open_.weight_decay if self.weight_decay == AUTO else float(self.weight_decay),
                    open_.bias if self.bias == AUTO else bool(self.bias),
                )
                for open_ in NETWORKS
            )
        )

    def _make_head(self) -> Head:
        return self._head_of_width(self.row_width_)

    def _head_of_width(self, width: int) -> Head:
        network = self.network_
        return Head(width, self.classes_.size, self.hidden, network.layers, self.dropout, network.bias)

    def _recipe(self, seed: int) -> Recipe:
        return replace(super()._recipe(seed), weight_decay=self.network_.weight_decay)

    def _check_params(self) -> None:
        for name in self.OPEN:
            value = getattr(self, name)
            if value != AUTO and (isinstance(value, str) or not isinstance(value, Real)):
                raise InputError(f"{name}={value!r}: expected a number, or {AUTO!r}")
        super()._check_params()
        if self.recipe not in RECIPES:
            raise InputError(f"recipe={self.recipe!r}: expected one of {', '.join(map(repr, RECIPES))}")
        if not self._part("consistency") >= 0:
            raise InputError(f"consistency={self.consistency}: expected a number of at least 0")
        check_whole("self_training", self._part("self_training"), 0)
        check_whole("unlabelled", self.unlabelled, 0)

    # ------------------------------------------------------------------ beyond the paper

    def _part(self, name: str) -> Any:
        """An option of its own, or what the recipe says."""
        given = getattr(self, name)
        return getattr(RECIPES[self.recipe], name) if given is None else given

    def _unlabelled(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> IntArray:
        if not (self._part("consistency") or self._part("self_training")):
            return super()._unlabelled(graph, nodes, inductive, part)
        inside = training_part(graph, nodes[0], part) if inductive else None
        count = graph.num_nodes if inside is None else inside.size
        most = min(count, self.unlabelled + sum(n.size for n in nodes))  # enough are left without the known ones
        places = np.random.default_rng(self.seed).choice(count, most, replace=False)
        some = places if inside is None else inside[places]
        return some[~np.isin(some, np.concatenate(nodes))][: self.unlabelled]

    def _draws(self, graph: Graph, nodes: IntArray) -> list[FloatArray]:
        if not self._part("consistency"):
            return []
        how = {**self._diffusion(), "engine": "walks", "mass": "walks", "epsilon": DRAW_EPSILON, "first_k": False}
        seeds = (self.seed + 1 + draw for draw in range(DRAWS))
        draws = (diffuse(graph, nodes, **{**how, "seed": seed}) for seed in seeds)
        return [self.finish_rows(drawn.apply(graph.features, self.feature_norm)) for drawn in draws]

    def _teach(self, train: Rows, val: Rows | None, free: Free) -> None:
        """The paper's training, then what the recipe adds, each step kept if the validation nodes get better by it."""
        extra: list[Callable[[int], ExtraLoss]] = []
        networks, self.epochs_ = self._trained_heads(train, val)
        best = self._score_of(networks, val)
        self.kept_: list[str] = []

        def try_with(name: str, *more: Callable[[int], ExtraLoss]) -> bool:
            nonlocal networks, best
            others, epochs = self._trained_heads(train, val, [*extra, *more])
            self.epochs_ += epochs
            score = self._score_of(others, val)
            if better := score >= best:
                networks, best = others, score
                self.kept_.append(name)
            return better

        if free.draws:
            agree = partial(Consistency, free.draws, train[1], self._part("consistency"))
            if try_with("consistency", agree):
                extra.append(agree)
        for stage in range(self._part("self_training") if free.rows.shape[0] and not self.multilabel_ else 0):
            places, labels = confident(self._joint_proba(networks, free.rows))
            if not try_with(f"self-training {stage + 1}", partial(PseudoLabels, free.rows[places], labels)):
                break
        self.networks_ = networks

    def _score_of(self, networks: torch.nn.ModuleList, val: Rows | None) -> Score:
        """Of the networks together; without validation nodes all are equal."""
        if val is None:
            return 0.0, 0.0
        proba = self._joint_proba(networks, val[0]).clamp(1e-7, 1 - 1e-7)
        return score_of(torch.logit(proba) if self.multilabel_ else proba.log(), val[1])

    # ------------------------------------------------------------------ rows

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        self.phases_: dict[str, float] = {}
        self.plan_ = plan_diffusion(graph, nodes, engine=self.engine, **self._diffusion()).plan
        self.engine_ = self.plan_.engine

    @property
    def found(self) -> dict[str, Any]:
        self._check_fitted()
        everything = {**({} if self.found_ is None else asdict(self.found_)), **self.network_._asdict()}
        named = {name: value for name, value in everything.items() if self._is_open(name)}
        searched = self._is_open("omega") or self._is_open("rho")
        return {**named, **({name: everything[name] for name in ("hops", "guide")} if searched else {})}

    def cheapest_engine(self, graph: Graph, nodes: AnyArray | None = None) -> Engine:
        """The engine that ``engine="auto"`` would choose for these nodes, or for all."""
        return plan_diffusion(graph, nodes_or_all(graph, nodes), engine="auto", **self._diffusion()).plan.engine

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        found = diffuse(graph, nodes, engine=self._engine, **self._diffusion())
        rows = found.apply(graph.features, self.feature_norm)
        self.phases_ = dict(Counter(getattr(self, "phases_", {})) + Counter(found.phases))
        return rows

    def _group_size(self, graph: Graph) -> int:
        """As many as leave their weights room in the memory: features in a file are read once for all of them."""
        if self._engine in ("auto", "exact"):
            return graph.num_nodes
        neighbours = self._planned(graph, np.zeros(1, np.int64)).most_neighbours
        return memory_budget(self.memory) // (ENTRY_BYTES * neighbours)

    def _column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        if self._engine != "exact":
            return None
        return self._planned(graph, nodes_or_all(graph, nodes), memory).blocks(graph.features)

    def _represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        return self._planned(graph, nodes).apply_columns(graph.features, self.feature_norm, block)

    def _planned(self, graph: Graph, nodes: IntArray, memory: int | None = None) -> Diffusion:
        params = self._diffusion() if memory is None else {**self._diffusion(), "memory": memory}
        return plan_diffusion(graph, nodes, engine=self._engine, **params)

    @property
    def _engine(self) -> Engine:
        """The one asked for, or the one that ``fit`` chose."""
        return getattr(self, "engine_", "auto") if self.engine == "auto" else self.engine

    def _open_diffusion(self) -> dict[str, Any]:
        """The parameters that are those of :func:`nodewise.diffuse`, but for the engine; some may be ``"auto"``."""
        names = [field.name for field in fields(Params) if field.name not in ("engine", "per_hop")]
        return {name: getattr(self, name) for name in names}

    def _diffusion(self) -> dict[str, Any]:
        """As :meth:`_open_diffusion`, with what ``fit`` found, or before that with what it starts from."""
        params = self._open_diffusion()
        found = getattr(self, "found_", None) or UNTUNED
        if self.tau == AUTO:
            params["max_hops"] = deepest(params)
        return {**params, **{name: value for name, value in asdict(found).items() if params.get(name) == AUTO}}

    def _fitted_extras(self) -> dict[str, Any]:
        found = None if self.found_ is None else asdict(self.found_)
        return {**super()._fitted_extras(), "engine": self.engine_, "found": found, "network": list(self.network_)}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        super()._restore_extras(fitted)
        self.engine_ = fitted["engine"]
        self.network_ = Network(*fitted["network"])
        self.found_ = None if fitted["found"] is None else Found(**fitted["found"])
