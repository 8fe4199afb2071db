"""NIGCN: rows by node-wise diffusion, then a small network.

Huang et al., "Node-wise Diffusion for Scalable Graph Learning", WWW 2023.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from nodewise._typing import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.checks import SEEDS, check_number
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.errors import InputError, warn
from nodewise.features import dense_rows, normalize
from nodewise.graph import Graph
from nodewise.learn.classifier import AUTO, check_whole, known_labels, training_part, training_subgraph
from nodewise.learn.contest import deals
from nodewise.learn.correct_smooth import Mending, best_mending, mended, to_mend_by
from nodewise.learn.decoupled import HEADS_APART
from nodewise.learn.diffused import DiffusedClassifier
from nodewise.learn.head import Head
from nodewise.learn.hop_attention import HopAttention
from nodewise.learn.known import Known
from nodewise.learn.layout import Layout
from nodewise.learn.recipes import RECIPES, RecipeName, clearly_better
from nodewise.learn.self_training import shares_of
from nodewise.learn.self_tuning import REACHES, Found, Labelled, find, reaching, some_places
from nodewise.learn.stages import Free, Learner, Lesson, Shares, hits, label_weights
from nodewise.learn.trainer import Recipe, Rows
from nodewise.learn.trainer import train as train_head


class Network(NamedTuple):
    """What of the network depends on the graph."""

    layers: int
    weight_decay: float
    bias: bool


# Sparse graphs with few labels want more weight decay than dense ones, and now and then a linear network.
NETWORKS = (Network(2, 0.003, True), Network(2, 0.001, True), Network(2, 0.01, True), Network(1, 0.01, False))
REACH_JUDGE = Network(2, 0.01, True)  # which learns where diffusions are compared
CONTEST_ROWS, CONTEST_PATIENCE = 4096, 30  # that they learn from, and have, when they are compared
OPEN_HEADS = 3  # networks that are averaged where nothing is said about them, and where few rows make them cheap
SURE_TO_WARN = 2.0  # standard errors by which a network without the graph has to be better
MOST_DRAWN = 1 << 13  # training and unlabelled nodes beyond which the recipe leaves draws out
DRAWS, DRAW_EPSILON = 6, 0.05  # of walks that consistency compares
FLAGS = ("hop_attention", "raw_features", "label_reuse", "class_shares", "correct_and_smooth")
ATTENTION_HOPS = 8  # that attention chooses among, at most
ATTENTION_WIDTH = 1 << 13  # numbers in a bank's row beyond which the recipe leaves attention out


@dataclass(eq=False, repr=False, kw_only=True)
class NIGCN(DiffusedClassifier):
    """A classifier of nodes that computes rows for the nodes asked about and for no others.

    *Diffusion*, as in :func:`nodewise.diffuse`: ``omega``, ``rho``, ``tau``, ``epsilon``, ``engine``, ``convention``,
    ``mass``, ``length``, ``max_hops``, ``first_k``. Where the first four are ``"auto"``, ``fit`` finds ``omega`` and
    ``rho`` by the loss on ``val`` (without ``val``, on training nodes held back in turn) and ``tau`` by where their
    weight ends; ``epsilon`` is 0.01, or more where rows would take more seconds than ``allowance``. ``engine="auto"``
    chooses in ``fit`` and keeps its choice (``engine_``), so that a node's prediction does not depend on what else is
    asked.

    *Network*: ``hidden``, ``layers``, ``bias``, ``dropout``, ``lr``, ``weight_decay``, ``epochs``, ``patience``,
    ``batch_size``. Where ``layers``, ``weight_decay`` or ``bias`` is ``"auto"``, a few networks are compared on
    ``val``. ``found`` says what came out. ``feature_norm`` and ``row_norm`` ("none", "l1", "l2") scale the features
    before the diffusion and the rows after it. ``heads``: so many networks learn from different starts, and their
    probabilities are averaged (by default one; three where ``fit`` chooses the network and rows are few; four with
    ``recipe="full"``).
    ``class_weight="balanced"``: rare classes count as much as common ones.

    *Beyond the paper*: ``recipe="full"`` adds parts, each unless the validation nodes say no (``kept_``).
    Each is an option of its own, and what you set is done. What a row has: ``hop_attention`` (every node weighs its
    hops itself), ``raw_features`` (its own beside the diffused ones), ``label_reuse`` (the classes of labelled nodes in
    reach, never its own). How it learns: ``consistency``, the weight of agreement between two draws of walks, and
    ``self_training``, the most rounds of learning from the surest predictions, both from at most ``unlabelled`` other
    nodes; with ``class_shares`` the rounds teach classes as common as they are among validation nodes.
    After that: ``correct_and_smooth``, predictions mended by labels and residuals in reach.

    ``memory`` ("4GB"; by default a quarter of what is available) bounds what a diffusion holds; rows that do not fit go
    to a temporary file. ``phases_`` says how many seconds of the diffusion went into what.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> m.score(g, range(120, 500)) > 0.6
    True
    """

    OPEN: ClassVar[tuple[str, ...]] = (*DiffusedClassifier.OPEN, "layers", "weight_decay", "bias")

    layers: int | str = AUTO  # type: ignore[assignment]
    weight_decay: float | str = AUTO  # type: ignore[assignment]
    bias: bool | str = AUTO  # type: ignore[assignment]
    dropout: float = 0.4
    lr: float = 0.03
    heads: int | None = None  # type: ignore[assignment]
    class_weight: str | None = None
    recipe: RecipeName = "paper"
    hop_attention: bool | None = None
    raw_features: bool | None = None
    label_reuse: bool | None = None
    consistency: float | None = None
    self_training: int | None = None
    class_shares: bool | None = None
    correct_and_smooth: bool | None = None
    unlabelled: int = 2048

    @property
    def found(self) -> dict[str, Any]:
        self._check_fitted()
        everything = {**({} if self.found_ is None else asdict(self.found_)), **self.network_._asdict()}
        named = {name: value for name, value in everything.items() if self._is_open(name)}
        searched = self.found_ is not None and (self._is_open("omega") or self._is_open("rho"))
        return {**named, **({name: everything[name] for name in ("hops", "guide")} if searched else {})}

    def proba_of_rows(self, rows: FloatArray) -> FloatArray:
        proba = super().proba_of_rows(rows[:, : self.layout_.seen])
        return mended(proba, rows[:, self.layout_.seen :], self.mending_) if self.layout_.corrections else proba

    def check_params(self) -> None:
        for name in self.OPEN:
            value = getattr(self, name)
            if (isinstance(value, str) and value != AUTO) or not isinstance(value, Real | str | np.bool_):
                kind = "True or False" if name == "bias" else "a number"
                raise InputError(f"{name}={value!r}: expected {kind}, or {AUTO!r}")
        if self.recipe not in tuple(RECIPES):
            raise InputError(f"recipe={self.recipe!r}: expected one of {', '.join(map(repr, RECIPES))}")
        super().check_params()
        if self.class_weight not in (None, "balanced"):
            raise InputError(f"class_weight={self.class_weight!r}: expected 'balanced' or None")
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool | np.bool_ | None):
                raise InputError(
                    f"{name}={getattr(self, name)!r}: expected True or False, or None for what recipe says"
                )
        check_number("consistency", self._part("consistency"), "a number of at least 0", 0)
        check_whole("self_training", self._part("self_training"), 0)
        check_whole("unlabelled", self.unlabelled, 0)

    def _part(self, name: str) -> Any:
        """What an option says or, where it says nothing, the recipe."""
        given = getattr(self, name)
        return getattr(RECIPES[self.recipe], name) if given is None else given

    def _is_certain(self, name: str) -> bool:
        """Whether a part was asked for by name, and is not for the validation nodes to decide."""
        return getattr(self, name) is not None

    # ------------------------------------------------------------------ first, what of the diffusion and rows is open

    def _settle(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> None:
        self._forget()
        labels = [self._encoded(known_labels(graph, n, "train")) for n in nodes]
        self._check_parts(inductive)
        self._shares_to_try = self._told_shares(labels[1] if len(nodes) > 1 else None)
        self.kept_: list[str] = []
        self.network_ = self._open_networks()[0]
        seen = training_subgraph(graph, nodes[0], part) if inductive else (graph, nodes[0])
        train = Labelled(*seen, labels[0])
        val = Labelled(graph, nodes[1], labels[1]) if len(nodes) > 1 else None
        if AUTO in (self.omega, self.rho, self.tau, self.epsilon):
            norms = (self.feature_norm, self.row_norm)
            how = self._open_diffusion(), self._head_of_width, norms, self.seed, self._balanced
            self.found_ = find(graph, train, val, *how)
            if val is not None and self._is_open("omega") and self._is_open("rho") and val.nodes.size > 1:
                self.found_ = self._best_reach(self.found_, train, val)
        self.num_nodes_ = graph.num_nodes
        self.labels_ = Known(nodes[0], self._shares(labels[0]))
        self.layout_ = self._chosen_layout(graph, train, val, inductive)
        if not self.layout_.classes:
            self.labels_ = None

    def _check_parts(self, inductive: bool) -> None:
        """Refuse what was asked for by name and cannot be done."""
        if inductive and self.label_reuse:
            raise InputError(
                "label_reuse: inductive training sees a part of the graph, whose labels it would have to learn from "
                "twice; train without inductive, or without label_reuse"
            )
        for name in ("self_training", "class_shares", "correct_and_smooth"):
            if self.multilabel_ and getattr(self, name):
                raise InputError(
                    f"{name}={getattr(self, name)}: expected one label a node, these have several; leave it out"
                )
        if self.class_shares and not self._part("self_training"):
            raise InputError("class_shares=True: it is about what self-training teaches; set self_training=1 too")

    def _told_shares(self, val: torch.Tensor | None) -> list[Shares]:
        """How common the classes may be, by the labels ``val`` of validation nodes, or None: not to be minded."""
        if self.multilabel_ or not self._part("class_shares"):
            return [None]
        shares = None if val is None else shares_of(val, self.classes_.size)
        if not self._is_certain("class_shares"):
            return [None] if shares is None else [shares, None]
        if shares is None:
            there = "there are none" if val is None else "these hold as many of one class as of any other"
            raise InputError(
                f"class_shares=True: validation nodes drawn from all nodes tell how common a class is, and {there}; "
                f"pass such nodes as val, or leave class_shares out"
            )
        return [shares]

    def _best_reach(self, found: Found, train: Labelled, val: Labelled) -> Found:
        """What was found by the loss, or a short or a far reach if that has more labels right.

        Deep hops are smooth, and a network on smooth rows is less sure and so has less loss where it is wrong.
        """
        pair = train.some(CONTEST_ROWS, self.seed), val.some(CONTEST_ROWS, self.seed)
        self.network_, self.layout_ = self._as_given(REACH_JUDGE), Layout(train.graph.num_features)
        others = [reaching(found, *reach, val.graph, self._open_diffusion()) for reach in REACHES]
        values = []
        for self.found_ in (found, *others):
            values.append(self._value(*(self._rows_and_labels(part) for part in pair)))
        self.network_ = self._open_networks()[0]
        return (found, *others)[int(np.argmax(values))]

    def _chosen_layout(self, graph: Graph, train: Labelled, val: Labelled | None, inductive: bool) -> Layout:
        """The parts of a row that were asked for, and of the recipe's those by which validation nodes get better."""
        hops = 1 + (min(ATTENTION_HOPS, self._hops_in_reach(graph)) if self._part("hop_attention") else 0)
        narrow = graph.num_features * hops <= ATTENTION_WIDTH
        parts: dict[str, dict[str, Any]] = {
            "hop_attention": {"hops": hops} if narrow or self._is_certain("hop_attention") else {},
            "raw_features": {"raw": True},
            "label_reuse": {} if inductive else {"classes": self.classes_.size},
        }
        wanted = [name for name in parts if self._part(name)]
        layout = Layout(graph.num_features)
        for name in filter(self._is_certain, wanted):
            layout = replace(layout, **parts[name])
            self.kept_.append(name.replace("_", " "))
        contested = [name for name in wanted if not self._is_certain(name)]
        if val is None or not contested:
            return layout
        pair = train.some(CONTEST_ROWS, self.seed), val.some(CONTEST_ROWS, self.seed)
        before, weights = self._right_with(layout, *pair)
        for name in contested:
            candidate = replace(layout, **parts[name])
            if candidate == layout:
                continue
            right, _ = self._right_with(candidate, *pair)
            if clearly_better(right, before, weights=weights):
                layout, before = candidate, right
                self.kept_.append(name.replace("_", " "))
        return layout

    def _hops_in_reach(self, graph: Graph) -> int:
        """The most hops that any node goes, and that weigh something."""
        if self.found_ is not None and self.found_.hops:
            return self.found_.hops
        return int(self._planned(graph, np.arange(graph.num_nodes)).lengths.max(initial=0))

    def _right_with(self, layout: Layout, train: Labelled, val: Labelled) -> tuple[BoolArray, FloatArray | None]:
        """Which labels of ``val`` are right after learning from rows of such a layout, and what each counts."""
        self.layout_ = layout
        return self._right_after(*(self._rows_and_labels(part) for part in (train, val)))

    def _rows_and_labels(self, labelled: Labelled) -> Rows:
        return torch.from_numpy(self._rows(labelled.graph, labelled.nodes)), labelled.labels

    def _shares(self, labels: torch.Tensor) -> FloatArray:
        """Labels as a row of classes each."""
        shares = labels if self.multilabel_ else torch.nn.functional.one_hot(labels, self.classes_.size)
        return shares.numpy().astype(np.float32)

    # ------------------------------------------------------------------ then the network

    def _choose_network(self, train: Rows, val: Rows | None) -> None:
        """Of the networks that are open, the one with most labels right after learning from some rows."""
        options = self._open_networks()
        self.network_ = options[0]
        if len(options) == 1 or val is None or val[0].shape[0] < 2:
            return
        some, few = self._some_rows(train), self._some_rows(val)
        values = []
        for self.network_ in options:
            values.append(self._value(some, few))
        self.network_ = options[int(np.argmax(values))]

    def _value(self, train: Rows, val: Rows) -> float:
        """What the present network makes of rows that it did not learn from and that did not stop it."""
        values = []
        for i, deal in enumerate(deals(train, val, self.seed)):
            recipe = self._recipe(self.seed + i * HEADS_APART)
            values.append(self._judged(*deal, replace(recipe, patience=min(recipe.patience, CONTEST_PATIENCE))))
        return float(np.mean(values))

    def _right_after(self, train: Rows, val: Rows) -> tuple[BoolArray, FloatArray | None]:
        """Which labels of ``val`` are right after learning from ``train``, by networks that these did not stop."""
        learner = Learner(partial(self._trained_heads, train, count=2), self._joint_proba, val, crossed=True)
        right = learner.right(learner.trained([])[0])
        assert right is not None  # there are validation labels
        return right, learner.weights() if self._balanced else None

    def _some_rows(self, rows: Rows) -> Rows:
        """At most :data:`CONTEST_ROWS` of them, from anywhere: training nodes may come class by class."""
        if rows[0].shape[0] <= CONTEST_ROWS:
            return rows
        chosen = torch.from_numpy(some_places(rows[0].shape[0], CONTEST_ROWS, self.seed))
        return rows[0][chosen], rows[1][chosen]

    def _open_networks(self) -> list[Network]:
        """What layers, weight decay and bias may be; first what they are where nothing can be compared."""
        return list(dict.fromkeys(map(self._as_given, NETWORKS)))

    def _as_given(self, open_: Network) -> Network:
        """A network with what the user says of it."""
        return Network(
            open_.layers if self.layers == AUTO else int(self.layers),
            open_.weight_decay if self.weight_decay == AUTO else float(self.weight_decay),
            open_.bias if self.bias == AUTO else bool(self.bias),
        )

    def _make_head(self) -> torch.nn.Module:
        layout = self.layout_
        if layout.hops == 1:
            return self._head_of_width(layout.seen)
        shares = ghd(self._number("omega"), self._number("rho"), layout.hops - 1)
        mixed = replace(layout, hops=1)
        return HopAttention(self._head_of_width(mixed.seen), layout.features, shares, self.row_norm)

    def _head_of_width(self, width: int) -> Head:
        network = self.network_
        return Head(width, self.classes_.size, self.hidden, network.layers, self.dropout, network.bias)

    def _recipe(self, seed: int) -> Recipe:
        recipe = replace(super()._recipe(seed), weight_decay=self.network_.weight_decay)
        return replace(recipe, balanced=self._balanced)

    @property
    def _balanced(self) -> bool:
        return self.class_weight == "balanced"

    # ------------------------------------------------------------------ then learning, with what the recipe adds

    def _take_rows(self, rows: list[FloatArray]) -> None:
        engine = self._engine
        self._forget()
        self.engine_, self.layout_, self.kept_ = engine, Layout(rows[0].shape[1]), []

    def _count_of_heads(self, rows: int) -> int:
        if self.heads is not None or self.recipe == "full":
            return int(self._part("heads"))
        return OPEN_HEADS if len(self._open_networks()) > 1 and rows <= CONTEST_ROWS else 1

    def _unlabelled(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> IntArray:
        if not any(map(self._part, ("consistency", "self_training", "correct_and_smooth"))):
            return super()._unlabelled(graph, nodes, inductive, part)
        inside = training_part(graph, nodes[0], part) if inductive else None
        count = graph.num_nodes if inside is None else inside.size
        most = min(count, self.unlabelled + sum(n.size for n in nodes))  # enough are left without the known ones
        places = np.random.default_rng(self.seed).choice(count, most, replace=False)
        some = places if inside is None else inside[places]
        free = some[~np.isin(some, np.concatenate(nodes))][: self.unlabelled]
        asked = [name for name in ("consistency", "self_training") if getattr(self, name)]
        if asked and not free.size:
            warn(f"{' and '.join(asked)}: there are no unlabelled nodes to learn from, so there is nothing to do")
        return free

    def _draws(self, graph: Graph, nodes: IntArray) -> list[FloatArray]:
        if not self._wants_draws(nodes.size):
            return []
        how = {"engine": "walks", "mass": "walks", "epsilon": DRAW_EPSILON, "first_k": False}
        seeds = ((self.seed + 1 + draw) % SEEDS for draw in range(DRAWS))
        return [self.finish_rows(self._rows_by(graph, nodes, {**how, "seed": seed})) for seed in seeds]

    def _wants_draws(self, rows: int) -> bool:
        """The recipe leaves agreement out where many labels teach already, and draws of all would take memory."""
        return bool(self._part("consistency")) and (self._is_certain("consistency") or rows <= MOST_DRAWN)

    def _teach(self, train: Rows, val: Rows | None, free: Free) -> None:
        lesson = Lesson(self._learner(train, val), self._balanced)
        if free.draws:
            lesson.agree(free.draws, train[1], self._part("consistency"), self._is_certain("consistency"))
        if free.rows.shape[0] and not self.multilabel_:
            stages, certain = self._part("self_training"), self._is_certain("self_training")
            lesson.teach_itself(free.rows, stages, certain, self._shares_to_try)
        self.networks_, self.epochs_ = lesson.networks, lesson.epochs
        self.kept_ += lesson.kept

    def _learner(self, train: Rows, val: Rows | None) -> Learner:
        crossed = self.recipe == "full" and self._count_of_heads(train[0].shape[0]) > 1
        return Learner(partial(self._trained_heads, train), self._joint_proba, val, crossed)

    # ------------------------------------------------------------------ at last, a look back

    def _look_back(
        self, graph: Graph, nodes: list[IntArray], unlabelled: IntArray, asked: IntArray, rows: list[FloatArray]
    ) -> FloatArray:
        right = None
        if len(nodes) > 1:
            labels = self._encoded(known_labels(graph, nodes[1], "val"))
            right = hits(torch.from_numpy(self.proba_of_rows(rows[1])), labels)
        if self._part("correct_and_smooth") and not self.multilabel_:
            self._mend(graph, nodes, unlabelled, rows, right)
        if right is not None and (self.recipe == "full" or self._is_open("omega")):
            self._warn_if_the_graph_hurts(graph, nodes, right)
        if not self.layout_.corrections:
            return rows[-1]
        return np.hstack([rows[-1], self._corrections(graph, asked)])

    def _mend(
        self,
        graph: Graph,
        nodes: list[IntArray],
        unlabelled: IntArray,
        rows: list[FloatArray],
        before: BoolArray | None,
    ) -> None:
        """Find how to correct and smooth, and whether to."""
        proba = self.proba_of_rows(rows[0])
        train = Known(nodes[0], self._shares(self._encoded(known_labels(graph, nodes[0], "train"))))
        known = to_mend_by(train, proba[: nodes[0].size], Known(unlabelled, proba[nodes[0].size :]))
        self.to_mend_by_ = known
        self.mending_ = Mending(0.5, 0.2)
        if before is not None:
            labels = np.searchsorted(self.classes_, known_labels(graph, nodes[1], "val"))
            columns, said = self._corrections(graph, nodes[1]), self.proba_of_rows(rows[1])
            weights = self._weights_of(torch.from_numpy(labels))
            self.mending_ = best_mending(said, columns, labels, weights)
            right = mended(said, columns, self.mending_).argmax(1) == labels
            if not self._is_certain("correct_and_smooth") and not clearly_better(right, before, weights=weights):
                self.to_mend_by_ = None
                return
            self.val_f1_ = float(right.mean())
        self.layout_ = replace(self.layout_, corrections=known.values.shape[1])
        self.kept_.append("correct and smooth")

    def _corrections(self, graph: Graph, nodes: IntArray) -> FloatArray:
        how = {**self._diffusion(graph), "engine": self._engine}
        return self._columns("corrections", diffuse(graph, nodes, **how))

    def _weights_of(self, labels: torch.Tensor) -> FloatArray | None:
        """What each label counts where choices are made; None where all count the same."""
        return label_weights(labels) if self._balanced else None

    def _warn_if_the_graph_hurts(self, graph: Graph, nodes: list[IntArray], right: BoolArray) -> None:
        """Compare with the same network on some nodes' own features."""
        places = [some_places(n.size, CONTEST_ROWS, self.seed) for n in nodes]
        some = [
            Labelled(graph, n[chosen], self._encoded(known_labels(graph, n[chosen], "train")))
            for n, chosen in zip(nodes, places, strict=True)
        ]
        train, val = ((torch.from_numpy(self._own_rows(part)), part.labels) for part in some)
        alone = partial(self._head_of_width, graph.num_features)
        head, _ = train_head(alone, train, val, self._recipe(self.seed))
        without, weights = hits(self._squash(head(val[0])), val[1]), self._weights_of(val[1])
        right = right.reshape(nodes[1].size, -1)[places[1]].ravel()  # several labels a node, several places
        if clearly_better(without, right, SURE_TO_WARN, weights):
            shares = [100 * np.average(labels, weights=weights) for labels in (without, right)]
            counting = ", every class counting the same" if weights is not None else ""
            warn(
                f"the graph hurts: a network on each node's own features has {shares[0]:.1f}% of the validation labels "
                f"right, with the graph it is {shares[1]:.1f}%{counting}; check the edges, or try raw_features=True"
            )

    def _own_rows(self, labelled: Labelled) -> FloatArray:
        return normalize(dense_rows(labelled.graph.features, labelled.nodes, self.feature_norm), self.row_norm)

    def _fitted_extras(self) -> dict[str, Any]:
        mending = list(self.mending_) if self.layout_.corrections else None
        return {**super()._fitted_extras(), "network": list(self.network_), "kept": self.kept_, "mending": mending}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        super()._restore_extras(fitted)
        self.network_, self.kept_ = Network(*fitted["network"]), fitted["kept"]
        if self.layout_.corrections:
            self.mending_ = Mending(*fitted["mending"])
