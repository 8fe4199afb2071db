"""NIGCN: rows by node-wise diffusion, then a small ensemble.

Huang et al., "Node-wise Diffusion for Scalable Graph Learning", WWW 2023. Beyond the paper: how the diffusion is
found (search.py), what unlabelled nodes teach (teach.py), and who votes (ensemble.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch

from nodewise._util.errors import InputError, warn
from nodewise._util.progress import Progress, silent
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.diffusion.diffuse import check_params
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.params import DiffusionConfig, DiffusionParams
from nodewise.graph import Graph
from nodewise.graph.checks import check_number, checked_seed
from nodewise.graph.features import check_norm
from nodewise.learn import fitting
from nodewise.learn.calibrate import conformal_threshold, sets_of
from nodewise.learn.cost import EPSILON, UNLABELLED, Effort, Fit, affordable, check_classes, expected_seconds
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.fitting import Learned, NetworkConfig, TrainingData
from nodewise.learn.metrics import micro_f1
from nodewise.learn.params import AUTO, NIGCNParams
from nodewise.learn.restored import HeldOut, RidgeShares, held_out, ridge_shares, saved_fit
from nodewise.learn.rows import DiffusedRows, MakeRows
from nodewise.learn.search import CURVES, DEEPEST, FEATURE_NORMS, SCOUTS, Found, Sample, search, worthwhile_hops
from nodewise.learn.search import EPSILON as SEARCH_EPSILON
from nodewise.learn.task import Task, check_whole, featured, known_labels, nodes_or_all, random_nodes, shown
from nodewise.learn.trainer import LabelledRows, choose_device

ASIDE, LEAST_ASIDE, MOST_ASIDE = 0.2, 20, 1000  # validation nodes that choose nothing and calibrate sets
MOST_HELD_OUT = 10_000  # nodes whose probabilities a model keeps
LARGEST = {"hidden": 1 << 16, "layers": 1000, "epochs": 10**6, "patience": 10**6, "members": 1000}  # of networks
UNTUNED = Found(1.0, 0.3, DEEPEST, "l1", 1.0, 1.0, 0.0, "nothing")


@dataclass(eq=False, repr=False)
class NIGCN(NIGCNParams, NodeClassifier):
    """A classifier of nodes that computes rows only for the nodes it is asked about.

    *Diffusion*, as in :func:`nodewise.diffuse`: ``omega``, ``rho``, ``tau``, ``epsilon``, ``engine``, ``max_hops``;
    ``diffusion``: what only the paper's ablations change. Where the first four are ``"auto"``, ``fit`` chooses omega
    and rho by the log-loss of ridge regression on ``val`` (without ``val``, on training nodes left out in turn);
    the depth is where their weight ends; ``epsilon`` is 0.01. ``engine="auto"`` chooses in ``fit`` and keeps its choice
    (``engine_``), so that a node's prediction does not depend on which other nodes are predicted. ``feature_norm`` and
    ``row_norm`` ("none", "l1", "l2") scale features before the diffusion and rows after it.

    *Ensemble*: ``hidden``, ``layers``, ``weight_decay``, ``bias``, ``dropout``, ``lr``, ``epochs``, ``patience``.
    Where layers or weight decay are ``"auto"``, a few networks and a ridge are trained, ``members`` of each kind; some
    see each node's own features beside the diffused ones. Validation nodes give them votes, and the logits of all that
    have votes are averaged. ``teach``: a ridge labels unlabelled nodes, and networks that learned from these labels too
    can get votes. ``class_weight="balanced"``: rare classes count as much as common ones. ``time_budget``: seconds that
    ``fit`` should take: a small budget shortens search and teaching, and raises epsilon.

    ``memory`` ("4GB"; by default a quarter of what is available) bounds what a diffusion holds; rows that do not fit go
    to a temporary file.

    After ``fit``: ``auto_params_`` (what was found), ``members_`` and ``votes_``, ``temperature_``, ``held_out_``
    (predictions for nodes not learned from), ``seconds_`` by stage.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> m.score(g, range(120, 500)) > 0.6
    True
    """

    # ------------------------------------------------------------------ fit, from top to bottom

    def _fit(  # type: ignore[override]
        self,
        task: Task,
        *,
        refit: bool = False,
        refit_asked: bool = False,
        make_rows: MakeRows | None = None,
        progress: Progress = silent,
    ) -> FloatArray:
        """Search, make rows, then teach, train, choose and calibrate (:func:`fitting.learn`); refit if asked.

        ``refit``: in the end, the chosen members learn again from ``train`` and ``val`` together; with ``refit_asked``
        also from the nodes asked about, after these were predicted. ``make_rows`` makes rows elsewhere.
        """
        self.seconds_ = {}
        for name in ("engine_", "learned_"):
            self.__dict__.pop(name, None)
        judges, aside = self._judges_and_aside(task)
        if self._network.uses_ridge:
            size = self._work(task.train.size, judges.size, 0)
            check_classes(size, task.graph.num_features, self._classes.ids.size, self.memory)
        with self._stage("search", progress if self._network.uses_ridge else silent):
            self.effort_ = self._effort(task)
            self.found_ = self._search(task, judges, progress)
        tested = task.asked if refit_asked else task.asked[:0]
        # A ridge on random vectors knows too little to teach.
        can_teach = self.teach and not self.multilabel_ and random_nodes(task.graph) is None
        pool = task.unlabelled(self.effort_.unlabelled if can_teach else 0, self.seed, tested)
        with self._stage("rows", progress):
            rows = self._rows(task, pool, [judges, aside, task.asked], make_rows)
        train, val = self._labelled(task, task.train, rows[0]), self._labelled(task, judges, rows[2])
        classes = self._classes.ids.size
        shares = fitting.known_shares(val[1] if judges.size else None, train[1], classes)
        width = task.graph.num_features
        data = TrainingData(classes, train, val if judges.size else None, self._tensor(rows[1]), shares, width)
        penalties = self.found_.penalty, self.found_.teach_penalty
        with self._stage("training", progress):
            network = self._network.suited(task.train.size)
            self._take(fitting.learn(data, penalties, network, progress), task, task.train)
        if not self.learned_.own:
            rows = [part[:, :width] for part in rows]
        answers = [self.proba_of_rows(part) for part in rows[2:]]
        self._keep_held_out(task, [judges, aside, tested], answers)
        self.val_f1_ = None
        if task.val.size:
            said = self.labels_of_proba(np.concatenate(answers[:2]))
            self.val_f1_ = micro_f1(task.labels(np.concatenate([judges, aside])), said)
        if refit or refit_asked:
            with self._stage("refit", progress):
                labelled = task.train, judges, aside, tested
                parts = zip(labelled, (rows[0], *rows[2:]), strict=True)
                every = [self._labelled(task, nodes, part[: nodes.size]) for nodes, part in parts]
                together = torch.cat([part[0] for part in every]), torch.cat([part[1] for part in every])
                weights = fitting.as_common_as(train[1], together[1], classes)
                data = replace(data, train=together, val=None, class_weights=weights)
                again = fitting.learn_again(data, self.learned_, penalties, network, progress)
                self._take(again, task, np.concatenate(labelled))
        return answers[2]

    @contextmanager
    def _stage(self, name: str, progress: Progress) -> Iterator[None]:
        """Announce a stage, and keep the seconds it takes."""
        progress(name, 0, None)
        started = time.perf_counter()
        yield
        self.seconds_[name] = time.perf_counter() - started

    def _judges_and_aside(self, task: Task) -> tuple[IntArray, IntArray]:
        """Validation nodes that choose, in a random order, and those kept aside, which choose nothing."""
        order = np.random.default_rng(self.seed).permutation(task.val)
        count = min(MOST_ASIDE, int(ASIDE * order.size))
        if count < LEAST_ASIDE or self.multilabel_ or not self._network.uses_ridge:
            count = 0
        return order[count:], order[:count]

    def _effort(self, task: Task) -> Effort:
        """The most that the time budget allows."""
        if self.time_budget is None:
            return Effort()
        pool = task.unlabelled(UNLABELLED, self.seed)
        nodes = np.concatenate([task.train, task.val, task.asked, pool])
        fit = self._work(task.train.size, task.val.size, task.asked.size)
        return affordable(task.graph, nodes, fit, self.time_budget)

    def expected_seconds(self, graph: Graph, train: int, val: int, asked: int = 0) -> dict[str, float]:
        """Roughly the seconds that :meth:`fit` on this many nodes takes, by stage; nothing is timed."""
        graph = self._with_features(graph)
        count = min(graph.num_nodes, train + val + asked + UNLABELLED)
        nodes = np.unique(np.linspace(0, graph.num_nodes - 1, count).astype(np.int64))
        return expected_seconds(graph, nodes, self._work(train, val, asked), Effort())

    def _work(self, train: int, val: int, asked: int) -> Fit:
        searched = len(self._curves) + len(self._curves) // SCOUTS if self._network.uses_ridge else 0
        network = self._network.suited(train)
        roster = [member for member in network.roster(self.teach, own=True) if member.layers > 1]
        params = replace(self._params(UNTUNED, EPSILON), max_hops=DEEPEST if self.max_hops is None else self.max_hops)
        return Fit(train, val, asked, searched, len(roster), int(network.hidden), params, network.threads)

    @property
    def _curves(self) -> list[tuple[float, float]]:
        """The curves of hops to choose among; where the user gives omega or rho, only that value."""
        given = {name: getattr(self, name) for name in ("omega", "rho") if not self._is_auto(name)}
        curves = {(given.get("omega", omega), given.get("rho", rho)) for omega, rho in CURVES}
        return [curve for curve in sorted(curves) if curve[1] > 0 or curve[0] < 1]  # those that have a sum

    def _search(self, task: Task, judges: IntArray, progress: Progress) -> Found:
        curves = self._curves[:: self.effort_.curves]
        norms = FEATURE_NORMS if self._is_auto("feature_norm") else (self.feature_norm,)
        if len(curves) == len(norms) == 1 and not self._network.uses_ridge:
            hops = worthwhile_hops(ghd(*curves[0], DEEPEST))
            return replace(UNTUNED, omega=curves[0][0], rho=curves[0][1], hops=hops, feature_norm=norms[0])
        params = self._params(UNTUNED, SEARCH_EPSILON)
        if self._is_auto("tau"):
            params = replace(params, length=min(DEEPEST, params.length or DEEPEST))
        encoded = [self._classes.encoded(task.labels(nodes)) for nodes in (task.train, judges)]
        train = Sample(*task.seen(task.train), encoded[0])
        val = Sample(task.graph, judges, encoded[1]) if judges.size else None
        found = search(
            train, val, self._classes.ids.size, params, self.row_norm, curves=curves, norms=norms,
            columns=self.effort_.columns, balanced=self._network.balanced, memory=self.memory,
            progress=partial(progress, "search"),
        )  # fmt: skip
        if found.without_graph is not None:
            alone, graph = (100 * share for share in found.without_graph)
            warn(
                f"the graph hurts: a ridge on each node's own features predicts {alone:.1f}% of the validation labels "
                f"correctly, with the graph {graph:.1f}%; check the edges"
            )
        return found

    def _rows(self, task: Task, pool: IntArray, others: list[IntArray], make_rows: MakeRows | None) -> list[FloatArray]:
        """Rows of training nodes, of ``pool``, and of each of ``others``. The first two see what training sees."""
        learning, rest = np.concatenate([task.train, pool]), np.concatenate(others)
        maker = replace(self.row_maker, own=self._network.uses_ridge and self.effort_.own)
        maker = maker.settled(task.graph, np.concatenate([learning, rest]))
        self.engine_ = maker.params.engine
        make = make_rows or DiffusedRows.rows
        if task.part is None:
            rows = make(maker, task.graph, np.concatenate([learning, rest]))
            seen, whole = rows[: learning.size], rows[learning.size :]
        else:
            seen, whole = maker.rows(*task.seen(learning)), make(maker, task.graph, rest)
        ends = np.cumsum([part.size for part in others])[:-1]
        return [*np.split(seen, [task.train.size]), *np.split(whole, ends)]

    def _keep_held_out(self, task: Task, parts: list[IntArray], answers: list[FloatArray]) -> None:
        """Keep the answers for nodes not learned from; those of the first part chose the model, the others did not."""
        nodes = np.concatenate(parts)
        proba = np.concatenate([said[: part.size] for said, part in zip(answers, parts, strict=True)])
        labels = self._classes.encoded(task.labels(nodes)).numpy()
        clean = np.arange(nodes.size) >= parts[0].size
        kept = slice(max(0, nodes.size - MOST_HELD_OUT), None)
        self.held_out_ = HeldOut(nodes[kept], proba[kept], labels[kept], clean[kept])

    def _take(self, learned: Learned, task: Task, labelled: IntArray) -> None:
        self._use(learned)
        duals = None if task.part is not None else learned.duals  # the part has other rows than the whole graph
        self.ridge_shares_ = None if duals is None else RidgeShares(labelled, duals.cpu().numpy())

    def _use(self, learned: Learned) -> None:
        self.learned_ = learned
        self.networks_, self.epochs_ = learned.ensemble, learned.epochs
        self.members_, self.votes_ = learned.members, learned.votes
        self.temperature_, self.threshold_ = learned.temperature, learned.threshold

    def _labelled(self, task: Task, nodes: IntArray, rows: FloatArray) -> LabelledRows:
        labels = self._classes.encoded(task.labels(nodes))
        return self._tensor(rows), labels.to(choose_device(self.device))

    def _tensor(self, rows: FloatArray) -> torch.Tensor:
        return torch.from_numpy(rows).to(choose_device(self.device))

    # ------------------------------------------------------------------ what its parameters make

    @property
    def _network(self) -> NetworkConfig:
        return NetworkConfig(
            self.hidden, self.layers, self.weight_decay, bool(self.bias), self.dropout, self.lr, self.epochs,
            self.patience, self.members, bool(self.teach), self.class_weight == "balanced", self.seed,
            thread_count(self.threads),
        )  # fmt: skip

    @property
    def row_maker(self) -> DiffusedRows:
        """What makes this model's rows: with the parameters that ``fit`` found, or before ``fit``, with a guess."""
        found = getattr(self, "found_", UNTUNED)
        engine = getattr(self, "engine_", AUTO) if self.engine == AUTO else self.engine
        params = replace(self._params(found, self._effort_epsilon), engine=engine)
        depth = found.hops if self._is_auto("tau") and self.diffusion.length is None else None
        if depth is not None:
            params = replace(params, max_hops=DEEPEST if self.max_hops is None else self.max_hops)
        norm = found.feature_norm if self._is_auto("feature_norm") else self.feature_norm
        return DiffusedRows(params, norm, self.row_norm, depth, hasattr(self, "learned_") and self.learned_.own)

    @property
    def _effort_epsilon(self) -> float:
        return getattr(self, "effort_", Effort()).epsilon

    def _params(self, found: Found, epsilon: float) -> DiffusionParams:
        """The parameters of :func:`nodewise.diffuse`; those that are "auto" are as found."""
        params: dict[str, Any] = {"omega": found.omega, "rho": found.rho, "tau": 1.0, "epsilon": epsilon}
        params |= {name: getattr(self, name) for name in params if not self._is_auto(name)}
        params |= {name: getattr(self, name) for name in ("engine", "max_hops", "seed", "threads", "memory")}
        return DiffusionParams(**params, **asdict(self.diffusion))

    @property
    def auto_params_(self) -> dict[str, Any]:
        self._check_fitted()
        found = {**asdict(self.found_), "epsilon": self._effort_epsilon}
        names = ("omega", "rho", "epsilon", "feature_norm")
        chosen = {name: found[name] for name in names if self._is_auto(name)}
        if self._is_auto("tau"):
            chosen["hops"] = self.found_.hops
        return chosen

    def _is_auto(self, name: str) -> bool:
        return isinstance(getattr(self, name), str) and getattr(self, name) == AUTO

    def check_params(self) -> None:
        given = {name: value for name, value in self.get_params(deep=False).items() if not self._is_auto(name)}
        for name in ("omega", "rho", "tau", "epsilon", "hidden", "layers", "weight_decay", "dropout"):
            value = given.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"{name}={value!r}: expected a number, or {AUTO!r}")
        if not isinstance(self.diffusion, DiffusionConfig):
            raise InputError(f"diffusion={self.diffusion!r}: expected a nodewise.DiffusionConfig")
        rho = UNTUNED.rho if self._is_auto("omega") or not self._is_auto("rho") else 1.0  # suits any omega
        check_params(self._params(replace(UNTUNED, rho=rho, omega=0.5), EPSILON))
        for name in ("feature_norm", "row_norm"):
            check_norm(given.get(name, "none"), name)
        for name, most in LARGEST.items():
            check_whole(name, given.get(name, 1), most=most)
        check_number("weight_decay", given.get("weight_decay", 0), "a number of at least 0", 0)
        check_number("dropout", given.get("dropout", 0), "a number of at least 0 and below 1", 0, 1)
        check_number("lr", self.lr, "a number above 0", 0, strictly=True)
        for name in ("teach", "bias"):
            if not isinstance(given[name], bool | np.bool_):
                raise InputError(f"{name}={given[name]!r}: expected True or False")
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, "a number of seconds above 0", 0, strictly=True)
        if self.class_weight not in (None, "balanced"):
            raise InputError(f"class_weight={self.class_weight!r}: expected 'balanced' or None")
        checked_seed(self.seed)
        choose_device(self.device)

    # ------------------------------------------------------------------ answers

    def represent(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """The rows that the networks see, for ``nodes`` or for all."""
        graph = self._with_features(graph)
        return self.maker_on(graph).rows(graph, nodes_or_all(graph, nodes))

    def maker_on(self, graph: Graph) -> DiffusedRows:
        """:attr:`row_maker` for this graph, whose columns may be in another order; raises if the graph does not fit."""
        fitted = hasattr(self, "networks_")
        return replace(self.row_maker, order=self._column_order(graph)) if fitted else self.row_maker

    def _reordered(self, graph: Graph, order: IntArray) -> Graph:
        return graph  # its rows are put in order, not its features

    def _with_features(self, graph: Graph) -> Graph:
        return super()._with_features(featured(graph))

    @torch.no_grad()
    def proba_of_rows(self, rows: FloatArray) -> FloatArray:
        """Probabilities for rows already made."""
        device = next(self.networks_.parameters()).device
        logits = self.networks_(torch.from_numpy(rows).to(device)) / self.temperature_
        return np.asarray(self._classes.proba(logits).cpu().numpy())

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return np.concatenate([self.proba_of_rows(rows) for rows in self.maker_on(graph).rows_in_steps(graph, nodes)])

    def predict_set(
        self, graph: Graph, nodes: AnyArray | None = None, coverage: float = 0.9, calibrate: AnyArray | None = None
    ) -> BoolArray:
        """For each node the set of classes that holds the true one with probability ``coverage``, columns as in
        ``classes_``.

        The sets are conformal: calibrated on validation nodes that ``fit`` kept aside, or on labelled nodes
        ``calibrate`` that had no part in training. The promise holds for nodes that are like those.

        >>> import nodewise as nw
        >>> g = nw.synthetic.dcsbm(1000, avg_degree=10, classes=3, features=16, seed=0)
        >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 360))
        >>> m.predict_set(g, [400, 401]).shape
        (2, 3)
        """
        proba = self.predict_proba(graph, nodes)
        return sets_of(proba, self.set_threshold(coverage, graph, calibrate))

    def set_threshold(self, coverage: float, graph: Graph | None = None, calibrate: AnyArray | None = None) -> float:
        """The least probability by which a class is in a set of :meth:`predict_set`."""
        self._check_fitted()
        if self.multilabel_:
            raise InputError("predict_set: expected one label per node; this model was trained with several")
        if calibrate is not None and graph is not None:
            self._classes.check_kind(graph)
            nodes = graph.nodes(calibrate, "calibrate")
            truth = self.columns_of(graph, known_labels(graph, nodes, "calibrate"))
            if (truth < 0).any():
                node = shown(graph, nodes[np.argmin(truth)])
                raise InputError(f"calibrate: the model does not know the label of node {node}; leave it out")
            return conformal_threshold(self.predict_proba(graph, nodes), truth, coverage)
        held = self.held_out_
        if not held.chose_nothing.any():
            raise InputError(
                f"predict_set: no node was kept aside to calibrate sets; train with at least "
                f"{int(LEAST_ASIDE / ASIDE)} validation nodes and no preset, or pass calibrate=labelled nodes"
            )
        return conformal_threshold(held.proba[held.chose_nothing], held.labels[held.chose_nothing], coverage)

    # ------------------------------------------------------------------ saved form

    def _fitted(self) -> dict[str, Any]:
        learned = self.learned_
        return {
            "engine": self.engine_,
            "found": self.found_,
            "effort": self.effort_,
            "shapes": learned.ensemble.shapes,
            **{name: value for name, value in vars(learned).items() if name not in fitting.TENSORS_OF_LEARNED},
        }

    def _arrays(self) -> dict[str, torch.Tensor]:
        kept: dict[str, NamedTuple | None] = {"held_out": self.held_out_, "ridge": self.ridge_shares_}
        return {
            f"{part}.{name}": torch.from_numpy(value.copy())
            for part, values in kept.items()
            if values is not None
            for name, value in values._asdict().items()
        }

    def _restore(self, fitted: dict[str, Any], tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
        classes = self._classes.ids.size
        fit, learned = saved_fit(fitted, self.n_features_in_, classes, len(tensors))
        self.engine_, self.found_, self.effort_ = fit.engine, fit.found, fit.effort
        self._use(learned)
        check_params(self.row_maker.params)
        self.held_out_ = held_out(tensors, classes, self.multilabel_)
        self.ridge_shares_ = ridge_shares(tensors, classes)
        return self.networks_
