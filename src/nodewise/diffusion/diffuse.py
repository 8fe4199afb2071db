"""``diffuse(graph, nodes, ...)``, the entry point: checks, plans, samples, and returns a :class:`Diffusion`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion import exact, walks
from nodewise.diffusion.aggregate import weighted_sum
from nodewise.diffusion.ghd import MOST_HOPS, check_ghd, ghd, last_hop
from nodewise.diffusion.length import check_tau, diffusion_lengths
from nodewise.diffusion.params import Convention, DiffusionParams, Engine, Mass
from nodewise.diffusion.plan import Plan, bring_in, exact_side, make_plan, reads_in_order
from nodewise.diffusion.walks import Sampling, Weights, check_room
from nodewise.graph import Graph
from nodewise.graph.checks import check_choice, checked_features, checked_seed
from nodewise.graph.features import check_norm, row_scales

NO_LIMIT = np.iinfo(np.int64).max
ROW_BYTES = 20  # of a row of weights, at the least: where it begins, and one neighbour
LEAST_WEIGHT = 1e-18  # of all hops that nodes go: with less, the squares that make a row's length are 0 in float32


class Diffusion:
    """The weights that each target gives to its neighbours, and what they make of features.

    ``nodes``, ``lengths`` (hops a target may go), ``walks`` (walks made for it, 0 where none were needed), ``engine``,
    ``plan`` (the choice and its reason), ``phases`` (seconds so far, by phase), ``hops`` (how many are kept one by one;
    1 where they are summed).
    """

    def __init__(
        self, graph: Graph, nodes: IntArray, lengths: IntArray, plan: Plan, how: Sampling, memory: int
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.lengths = lengths
        self.plan = plan
        self.walks = np.zeros(nodes.size, np.int64)
        self.phases: dict[str, float] = {}
        self._how = how
        self._memory = memory
        self._weights: Weights | None = None

    @property
    def seconds(self) -> float:
        """Spent so far, features included."""
        return sum(self.phases.values())

    @property
    def engine(self) -> str:
        return self.plan.engine

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """The weights as CSR ``(len(nodes), num_nodes)``; the exact engine makes them on first use.

        With ``per_hop``, target ``i`` has the rows ``i * hops`` to ``(i + 1) * hops``.
        """
        if self._weights is None:
            with self._timed("hops"):
                check_room(ROW_BYTES * self.nodes.size * self.hops, self.hops)
                self._weights = exact.weights(self._task())
        indptr, nodes, values = self._weights
        shape = (self.nodes.size * self.hops, self.graph.num_nodes)
        matrix = sp.csr_matrix((values.copy(), nodes.astype(np.int64), indptr), shape=shape)
        matrix.sort_indices()  # in place, hence the copy
        return matrix

    def apply(self, features: Features, norm: str = "none", dtype: DTypeLike = np.float32) -> FloatArray:
        """``sum over v of weight(u, v) * features[v]`` for each target ``u``: a row, or with ``per_hop`` a row per hop.

        ``norm`` ("l1", "l2") scales each row of the features first. ``dtype="float16"`` halves the memory.
        """
        if features is not self.graph.features:  # which were checked when the graph was made
            features = checked_features(features, self.graph.num_nodes)
        check_norm(norm)
        self.graph.check_files()
        check_room(self.nodes.size * self.hops * features.shape[1] * np.dtype(dtype).itemsize, self.hops)
        if self._weights is None:
            if exact_side(self.graph, self._reach, features, self._memory) == "features":
                return self.apply_columns(features, norm, dtype=dtype)
            with self._timed("hops"):
                return exact.by_targets(self._task(features, norm), features, dtype)
        with self._timed("sums"):
            stream = reads_in_order(features, self._weights.nodes.size)
            rows = weighted_sum(self._weights, features, self._how.threads, norm, stream).astype(dtype, copy=False)
            return rows.reshape(self.nodes.size, self.hops, rows.shape[1]) if self._how.per_hop else rows

    def apply_columns(
        self, features: Features, norm: str = "none", columns: slice | None = None, dtype: DTypeLike = np.float32
    ) -> FloatArray:
        """As :meth:`apply` for some columns alone, by the exact engine, which propagates the features themselves."""
        with self._timed("hops"):
            return exact.by_features(self._task(features, norm), features, columns, dtype)

    def blocks(self, features: Features) -> list[slice] | None:
        """The blocks of columns in which the exact engine propagates ``features``; None where it does not."""
        if self.engine != "exact" or exact_side(self.graph, self._reach, features, self._memory) == "targets":
            return None
        return exact.column_blocks(self._task(), features.shape[1])

    @property
    def hops(self) -> int:
        """The number of hops that are kept one by one; 1 where they are summed."""
        return self._how.width

    @property
    def most_neighbours(self) -> int:
        """The most weights that one target can have."""
        longest = int(self._reach.max(initial=0))
        return walks.most_entries(walks.most_visited(self.graph, longest, self._how), longest, self._how)

    @property
    def _reach(self) -> IntArray:
        """Lengths, less the hops whose weight is negligible."""
        return np.minimum(self.lengths, self._how.hops.size - 1)

    def _task(self, features: Features = None, norm: str = "none") -> exact.Task:
        scales = row_scales(features, norm)
        how = self._how
        return exact.Task(self.graph, self.nodes, self._reach, how.hops, how.threads, self._memory, scales, how.per_hop)

    def _sample(self) -> None:
        """Make the weights; the exact engine does so when they are asked for."""
        if self.engine == "exact":
            return
        with self._timed("reading"):
            bring_in(self.graph, self.nodes.size, self._reach, self._how)
        with self._timed("walks"):
            sampler = walks.walk if self.engine == "walks" else walks.stratify
            self._weights, self.walks, _ = sampler(self.graph, self.nodes, self._reach, self._how)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.phases[phase] = self.phases.get(phase, 0.0) + time.perf_counter() - started

    def __repr__(self) -> str:
        return f"Diffusion({self.nodes.size:,} targets, engine={self.engine!r}, {self.seconds:.3f} s)"


def diffuse(
    graph: Graph,
    nodes: AnyArray,
    omega: float = DiffusionParams.omega,
    rho: float = DiffusionParams.rho,
    tau: float = DiffusionParams.tau,
    epsilon: float = DiffusionParams.epsilon,
    *,
    engine: Engine = DiffusionParams.engine,
    convention: Convention = DiffusionParams.convention,
    mass: Mass = DiffusionParams.mass,
    length: int | None = DiffusionParams.length,
    max_hops: int | None = DiffusionParams.max_hops,
    first_k: bool = DiffusionParams.first_k,
    eta: float = DiffusionParams.eta,
    delta: float = DiffusionParams.delta,
    seed: int = DiffusionParams.seed,
    threads: int | None = DiffusionParams.threads,
    memory: int | str | None = DiffusionParams.memory,
    per_hop: bool = DiffusionParams.per_hop,
) -> Diffusion:
    """Diffuse from each of ``nodes``, to a depth of its own.

    ``omega`` and ``rho`` shape the weight of a hop (:func:`ghd`), ``tau`` sets how deep to go
    (:func:`diffusion_lengths`; ``length`` sets one depth for all instead, ``max_hops`` bounds it), ``epsilon`` how
    small a weight may be and still be found. Engines: ``exact`` (NDM), ``walks`` (Algorithm 2), ``stratified`` (the
    same expectation, less noise), ``auto`` (exact or stratified, the cheaper; ``.plan`` says why). ``first_k=False``
    drops the bound of ``1/epsilon^2`` neighbours. ``mass`` says what a target's weights sum to when that bound stops
    the walks: ``"theta"`` as published, ``"walks"`` keeps the sum, ``"reference"`` adds the node's own ``U(0)`` whole,
    as the published program does.
    ``memory`` ("4GB", or bytes; by default a quarter of what is available) bounds the exact engine's blocks.

    ``per_hop`` keeps the hops one by one instead of weighing them by ``omega`` and ``rho``: ``apply`` gives a hop bank
    ``(targets, hops, f)``, zero beyond a target's own depth, in ``dtype="float16"`` if asked.

    The same seed gives a node the same weights, whatever the threads and whichever other nodes are asked for: bit
    for bit when sampled, to float32's rounding when exact. ``auto`` may choose another engine for another number of
    nodes; name one where that matters.

    >>> import numpy as np
    >>> star = Graph.from_edges(np.array([[0, 0, 0], [1, 2, 3]]))
    >>> diffuse(star, [0], omega=0.5, rho=0.0, length=1, engine="exact").matrix.toarray()
    array([[0.5625, 0.0625, 0.0625, 0.0625]], dtype=float32)
    >>> diffuse(star, [0], length=1, engine="exact", per_hop=True).matrix.toarray()
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    given = {name: value for name, value in locals().items() if name not in ("graph", "nodes")}
    result = plan_diffusion(graph, nodes, **given)
    result._sample()
    return result


def plan_diffusion(graph: Graph, nodes: AnyArray, **params: Any) -> Diffusion:
    """:func:`diffuse` with the same arguments, checked and planned but not done yet."""
    given = DiffusionParams(**params)
    check_params(given)
    graph.check_files()  # between one piece of work and the next
    nodes = graph.nodes(nodes)
    if graph.base is not graph:
        from nodewise.diffusion.extended import ExtendedDiffusion

        return ExtendedDiffusion(cast(Any, graph), nodes, given)
    lengths = _lengths(graph, nodes, given)
    how = Sampling(
        hops=_hop_weights(given, int(lengths.max(initial=0))),
        theta=walks.number_of_walks(given.epsilon, given.eta, given.delta),
        first_k=walks.first_k_neighbours(given.epsilon) if given.first_k else NO_LIMIT,
        mass=given.mass,
        seed=checked_seed(given.seed),
        threads=thread_count(given.threads),
        per_hop=given.per_hop,
    )
    memory = memory_budget(given.memory)
    started = time.perf_counter()
    plan = make_plan(graph, nodes, np.minimum(lengths, how.hops.size - 1), how, given.engine, memory)
    result = Diffusion(graph, nodes, lengths, plan, how, memory)
    result.phases["plan"] = time.perf_counter() - started
    return result


def _hop_weights(params: DiffusionParams, longest: int) -> DoubleArray:
    """``U(l)`` for all hops that matter; with ``per_hop``, 1 for each."""
    if params.per_hop:
        return np.ones(longest + 1)
    weights = ghd(params.omega, params.rho, min(longest, last_hop(params.omega, params.rho)))
    if longest and weights.sum() < LEAST_WEIGHT:
        raise InputError(
            f"omega={params.omega} with rho={params.rho} leaves a weight of {weights.sum():.1g} to the {longest} hops "
            f"that the nodes go; lower omega, raise rho, or raise tau to go further"
        )
    return weights


def _lengths(graph: Graph, nodes: IntArray, params: DiffusionParams) -> IntArray:
    by_tau = diffusion_lengths(graph, nodes, params.tau, params.convention)
    lengths = by_tau if params.length is None else np.full(nodes.size, params.length, np.int64)
    return lengths if params.max_hops is None else np.minimum(lengths, params.max_hops)


def check_params(params: DiffusionParams) -> None:
    """Raise at the first parameter that is wrong for any graph."""
    for name, choices in (("engine", Engine), ("mass", Mass), ("convention", Convention)):
        check_choice(name, getattr(params, name), get_args(choices))
    check_ghd(params.omega, params.rho)
    check_tau(params.tau)
    walks.number_of_walks(params.epsilon, params.eta, params.delta)
    for name in ("first_k", "per_hop"):
        if not isinstance(getattr(params, name), bool | np.bool_):
            raise InputError(f"{name}={getattr(params, name)!r}: expected True or False")
    for name in ("length", "max_hops"):
        value = getattr(params, name)
        if value is not None and (not isinstance(value, int | np.integer) or not 0 <= value <= MOST_HOPS):
            raise InputError(f"{name}={value!r}: expected a whole number of hops from 0 to {MOST_HOPS:,}")
    checked_seed(params.seed)
    thread_count(params.threads)
    memory_budget(params.memory)
