"""The diffusion's four numbers, found for a graph and its labelled nodes: what ``"auto"`` stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from nodewise._typing import AnyArray, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.length import tau_of_length
from nodewise.errors import warn
from nodewise.graph import Graph
from nodewise.learn.classifier import AUTO
from nodewise.learn.head import Head
from nodewise.learn.hop_weights import (
    DEEPEST,
    MOST_NODES,
    START,
    WIDEST,
    Bank,
    Step,
    best_step,
    learn_hop_weights,
    projected,
    worthwhile_hops,
)
from nodewise.memory import parse_bytes

EPSILON = 0.01
REACHES = ((0.9, 1.0), (1.1, 0.06))  # omega and rho of a short one, and of a far one
FOLDS = 5
SEARCH_BYTES = 1 << 30  # of projected features, and of a bank, where nothing is said about memory


@dataclass(frozen=True)
class Found:
    """The numbers, ``hops``: the length worth having, and ``guide``: by what omega and rho were found.

    ``tau`` is by which nodes go that far on the graph that was learned from; on another it is another.
    """

    omega: float
    rho: float
    tau: float
    epsilon: float
    hops: int
    guide: str


UNTUNED = Found(*START, 1.0, EPSILON, DEEPEST, "nothing")


@dataclass(frozen=True)
class Labelled:
    """Nodes in the graph in which they are seen, and their labels as a loss takes them."""

    graph: Graph
    nodes: IntArray
    labels: torch.Tensor

    def some(self, most: int, seed: int) -> Labelled:
        """At most so many of them, from anywhere: nodes may come class by class."""
        chosen = some_places(self.nodes.size, most, seed)
        return Labelled(self.graph, self.nodes[chosen], self.labels[torch.from_numpy(chosen)])


def some_places(count: int, most: int, seed: int) -> IntArray:
    """At most so many of the numbers up to ``count``, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def find(
    graph: Graph,
    train: Labelled,
    val: Labelled | None,
    params: dict[str, Any],
    make_head: Callable[[int], Head],
    norms: tuple[str, str],
    seed: int,
    balanced: bool,
) -> Found:
    """What of omega, rho, tau and epsilon in ``params`` is ``"auto"``, found; the rest as it is.

    ``graph``: the whole one, where inductive training sees a part. ``params``: as of :func:`nodewise.diffuse`.
    ``norms``: of the features and of the rows. ``make_head(width)`` makes the network that learns. ``balanced``: every
    class counts the same.
    """
    given = {name: None if params[name] == AUTO else params[name] for name in ("omega", "rho", "tau", "epsilon")}
    epsilon = EPSILON if given["epsilon"] is None else given["epsilon"]
    omega, rho, guide = given["omega"], given["rho"], "nothing"
    if omega is None or rho is None:
        pairs = _banks(train, val, {**params, "epsilon": epsilon}, norms[0], seed)
        learn = partial(learn_hop_weights, norm=norms[1], seed=seed, balanced=balanced, omega=omega, rho=rho)
        best = [best_step(learn(*pair, make_head)) for pair in pairs]
        guide = "validation nodes" if val is not None else f"training nodes held back, {len(pairs)} times"
        if not pairs:
            best, guide = [Step(0.0, *START)], "nothing"
        omega = float(np.exp(np.mean([np.log(step.omega) for step in best]))) if omega is None else omega
        rho = float(np.mean([step.rho for step in best])) if rho is None else rho
    hops = worthwhile_hops(ghd(omega, rho, deepest(params)))
    tau = tau_of_length(graph, hops, params["convention"]) if given["tau"] is None else given["tau"]
    return Found(omega, rho, tau, epsilon, hops, guide)


def reaching(found: Found, omega: float, rho: float, graph: Graph, params: dict[str, Any]) -> Found:
    """Another ``omega`` and ``rho`` in place of those found, and the depth that belongs to them."""
    hops = worthwhile_hops(ghd(omega, rho, deepest(params)))
    tau = tau_of_length(graph, hops, params["convention"]) if params["tau"] == AUTO else params["tau"]
    return replace(found, omega=omega, rho=rho, tau=tau, hops=hops)


def deepest(params: dict[str, Any]) -> int:
    """The hops of a bank: what the user allows, or enough."""
    return int(min([DEEPEST, *(params[name] for name in ("length", "max_hops") if params[name] is not None)]))


def _banks(
    train: Labelled, val: Labelled | None, params: dict[str, Any], norm: str, seed: int
) -> list[tuple[Bank, Bank]]:
    """Pairs of nodes to learn from and nodes to be guided by."""
    rng = np.random.default_rng(seed)
    if val is not None:
        return [(_bank(train, params, norm, seed, rng), _bank(val, params, norm, seed, rng))]
    rows, labels = _bank(train, params, norm, seed, rng)
    folds = _folds(labels.numpy(), rng)
    if folds is None:
        warn(
            f"no validation nodes, and too few training nodes to hold some back: omega={START[0]} and rho={START[1]} "
            f"are a guess; pass val, or give omega and rho"
        )
        return []
    held = [torch.from_numpy(folds == fold) for fold in range(folds.max() + 1)]
    return [((rows[~back], labels[~back]), (rows[back], labels[back])) for back in held]


def _bank(labelled: Labelled, params: dict[str, Any], norm: str, seed: int, rng: np.random.Generator) -> Bank:
    """The hops of some of the nodes, of features that are not wide, and the labels."""
    graph = labelled.graph
    # Not what is free at the moment: the same seed is to find the same numbers.
    room = SEARCH_BYTES if params["memory"] is None else parse_bytes(params["memory"]) // 4
    if graph.num_features > WIDEST and 4 * WIDEST * graph.num_nodes <= room:
        graph, norm = graph.replace(features=projected(graph.features, norm, seed)), "none"
    hops = deepest(params)
    most = min(MOST_NODES, max(1, room // (4 * (hops + 1) * graph.num_features)))
    chosen = np.sort(rng.permutation(labelled.nodes.size)[:most])
    how = {**params, "max_hops": hops, "omega": START[0], "rho": START[1], "per_hop": True}
    if how["tau"] == AUTO:
        how |= {"tau": 1.0, "length": hops}
    rows = diffuse(graph, labelled.nodes[chosen], **how).apply(graph.features, norm)
    return torch.from_numpy(rows), labelled.labels[torch.from_numpy(chosen)]


def _folds(labels: AnyArray, rng: np.random.Generator) -> IntArray | None:
    """A fold for each node, every class in each as evenly as it goes; None where there are too few nodes."""
    number = min(FOLDS, labels.shape[0] // 2)
    if number < 2:
        return None
    order = rng.permutation(labels.shape[0])
    if labels.ndim == 1:
        order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(labels.shape[0], np.int64)
    folds[order] = np.arange(labels.shape[0]) % number
    return folds
