"""Rows by node-wise diffusion: how NIGCN makes what its networks see."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.checks import check_number
from nodewise.diffusion.diffuse import Diffusion, Params, check_params, diffuse, plan_diffusion
from nodewise.diffusion.length import Convention, tau_of_length
from nodewise.diffusion.plan import ENTRY_BYTES, Engine
from nodewise.diffusion.walks import Mass
from nodewise.errors import InputError, warn
from nodewise.features import dense_rows
from nodewise.graph import Graph
from nodewise.learn.classifier import AUTO, nodes_or_all
from nodewise.learn.decoupled import DecoupledClassifier
from nodewise.learn.hop_weights import LEAST_OMEGA, MOST_RHO
from nodewise.learn.known import Known, reached, reached_without_own
from nodewise.learn.layout import Layout
from nodewise.learn.self_tuning import EPSILON, UNTUNED, Found, deepest
from nodewise.memory import memory_budget

EPSILONS = (EPSILON, 2 * EPSILON, 5 * EPSILON, 10 * EPSILON, 20 * EPSILON)  # that an allowance chooses among


@dataclass(eq=False, repr=False)
class DiffusedClassifier(DecoupledClassifier):
    """Base of :class:`nodewise.NIGCN`: the parameters of :func:`nodewise.diffuse`, and rows made by it.

    ``layout_`` says what a row has. ``labels_`` and ``to_mend_by_`` are what the model knows of nodes of its graph.
    """

    OPEN: ClassVar[tuple[str, ...]] = ("omega", "rho", "tau", "epsilon")

    omega: float | str = AUTO
    rho: float | str = AUTO
    tau: float | str = AUTO
    epsilon: float | str = AUTO
    _: KW_ONLY
    engine: Engine = "auto"
    convention: Convention = "paper"
    mass: Mass = "theta"
    length: int | None = None
    max_hops: int | None = None
    first_k: bool = True
    eta: float = 2.0
    delta: float = 0.01
    allowance: float | None = None
    feature_norm: str = "l1"
    row_norm: str = "l2"

    def _forget(self) -> None:
        """What an earlier ``fit`` found has no say in the next."""
        self.found_: Found | None = None
        self.labels_: Known | None = None
        self.to_mend_by_: Known | None = None
        self.num_nodes_: int | None = None
        for name in ("layout_", "engine_"):
            self.__dict__.pop(name, None)

    # ------------------------------------------------------------------ rows

    def width(self, graph: Graph) -> int:
        return self._layout(graph).width

    def finish_rows(self, rows: FloatArray) -> FloatArray:
        layout: Layout = getattr(self, "layout_", Layout(rows.shape[1]))
        return layout.finish(rows, self.row_norm)

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        self.phases_: dict[str, float] = {}
        found = getattr(self, "found_", None)
        if self.allowance is not None and found is not None and self._is_open("epsilon"):
            self.found_ = replace(found, epsilon=self._affordable_epsilon(graph, nodes, self.allowance))
        self.plan_ = self._planned(graph, nodes).plan
        self.engine_ = self.plan_.engine

    def _affordable_epsilon(self, graph: Graph, nodes: IntArray, allowance: float) -> float:
        """The least that lets the rows of ``nodes`` be made in so many seconds, by what the plan expects."""
        expected = 0.0
        for epsilon in EPSILONS:
            how = {**self._bank(graph), "engine": "auto", "epsilon": epsilon}
            seconds = plan_diffusion(graph, nodes, **how).plan.seconds
            expected = seconds.get(self.engine, min(seconds.values()))
            if expected <= allowance:
                return epsilon
        warn(
            f"allowance={allowance}: rows for {nodes.size:,} nodes are expected to take {expected:.3g} s even with "
            f"epsilon={EPSILONS[-1]}, which is taken; ask for fewer nodes, or allow more"
        )
        return EPSILONS[-1]

    def check_params(self) -> None:
        super().check_params()
        if self.allowance is not None:
            check_number("allowance", self.allowance, "a number of seconds above 0", 0, strictly=True)
        beyond_doubt = {"omega": LEAST_OMEGA, "rho": MOST_RHO, "tau": 1.0, "epsilon": EPSILON}  # with any other given
        opened = {name: value for name, value in beyond_doubt.items() if self._is_open(name)}
        check_params(Params(**{**self._open_diffusion(), **opened, "engine": self.engine}))

    def cheapest_engine(self, graph: Graph, nodes: AnyArray | None = None) -> Engine:
        """The engine that ``engine="auto"`` would choose for these nodes, or for all."""
        how = {**self._bank(graph), "engine": "auto"}
        return plan_diffusion(graph, nodes_or_all(graph, nodes), **how).plan.engine

    def _rows(self, graph: Graph, nodes: IntArray) -> FloatArray:
        if self._engine != "auto":
            return super()._rows(graph, nodes)
        settled = copy(self)  # one engine for all groups of nodes that the memory allows
        settled.engine = self._planned(graph, nodes).plan.engine
        rows = settled._rows(graph, nodes)
        self.phases_ = getattr(settled, "phases_", {})  # of no nodes, or of blocks of columns, nothing is told
        return rows

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return self._rows_by(graph, nodes, {"engine": self._engine})

    def _rows_by(self, graph: Graph, nodes: IntArray, changes: dict[str, Any]) -> FloatArray:
        """Rows, not finished yet, by a diffusion with other parameters than the model's."""
        layout = self._layout(graph)
        found = diffuse(graph, nodes, **{**self._bank(graph), **changes})
        diffused = self._flat(found.apply(graph.features, self.feature_norm), layout)
        others = [name for name in layout.spans if name != "diffused"]
        if others:
            summed = found if layout.hops == 1 else diffuse(graph, nodes, **{**self._diffusion(graph), **changes})
            diffused = np.hstack([diffused, *(self._columns(name, summed) for name in others)])
        self.phases_ = dict(Counter(getattr(self, "phases_", {})) + Counter(found.phases))
        return diffused

    def check_known(self, graph: Graph) -> None:
        """Raise if the model knows labels of nodes, and not of this graph's."""
        for name in self._layout(graph).spans.keys() & {"labels", "corrections"}:
            self._known(name, graph)

    def _columns(self, name: str, summed: Diffusion) -> FloatArray:
        """A part of the rows that is not the diffused features."""
        graph, nodes = summed.graph, summed.nodes
        if name == "raw":
            return dense_rows(graph.features, nodes, self.feature_norm)
        known = self._known(name, graph)
        if name == "corrections":
            return reached(summed, known)
        walks = {**self._diffusion(graph), "engine": "walks"}
        return reached_without_own(summed, known, walks, self._group_by(plan_diffusion(graph, nodes, **walks)))

    def _known(self, name: str, graph: Graph) -> Known:
        known = self.labels_ if name == "labels" else self.to_mend_by_
        if known is None or graph.num_nodes != self.num_nodes_:
            raise InputError(
                f"{graph.name}: this model knows labels of single nodes of a graph with {self.num_nodes_:,} nodes, and "
                f"this one has {graph.num_nodes:,}; train with label_reuse=False and correct_and_smooth=False to "
                f"label other graphs"
            )
        return known

    @staticmethod
    def _flat(rows: FloatArray, layout: Layout) -> FloatArray:
        """A bank ``(targets, hops, f)`` as rows of ``f`` times all hops of the layout; other rows as they are."""
        if rows.ndim == 2:
            return rows
        flat = np.zeros((rows.shape[0], rows.shape[2], layout.hops), np.float32)
        flat[:, :, : rows.shape[1]] = rows.transpose(0, 2, 1)
        return flat.reshape(rows.shape[0], -1)

    def _group_size(self, graph: Graph, nodes: IntArray) -> int:
        """As many as leave their weights room in the memory: features in a file are read once for all of them."""
        if self._engine == "exact":
            return graph.num_nodes
        return self._group_by(self._planned(graph, nodes))

    def _group_by(self, planned: Diffusion) -> int:
        return max(1, memory_budget(self.memory) // (ENTRY_BYTES * planned.most_neighbours))

    def _column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        if self._engine != "exact":
            return None
        blocks = self._planned(graph, nodes_or_all(graph, nodes), memory).blocks(graph.features)
        if blocks is None:
            return None
        layout = self._layout(graph)
        others = [place for name, place in layout.spans.items() if name != "diffused"]
        return [*(slice(block.start * layout.hops, block.stop * layout.hops) for block in blocks), *others]

    def _represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        layout = self._layout(graph)
        parts = []
        for name, place in layout.spans.items():
            first, last = max(block.start, place.start), min(block.stop, place.stop)
            if first < last and name == "diffused":
                columns = slice(first // layout.hops, last // layout.hops)
                bank = self._planned(graph, nodes).apply_columns(graph.features, self.feature_norm, columns)
                parts.append(self._flat(bank, layout))
            elif first < last:  # the whole part: only diffused columns are worth cutting up
                summed = plan_diffusion(graph, nodes, **{**self._diffusion(graph), "engine": self._engine})
                parts.append(self._columns(name, summed))
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def _planned(self, graph: Graph, nodes: IntArray, memory: int | None = None) -> Diffusion:
        params = self._bank(graph)
        changes = {} if memory is None else {"memory": memory}
        return plan_diffusion(graph, nodes, **{**params, **changes, "engine": self._engine})

    def _layout(self, graph: Graph) -> Layout:
        layout: Layout = getattr(self, "layout_", Layout(graph.num_features))
        return layout

    @property
    def _engine(self) -> Engine:
        """The one asked for, or the one that ``fit`` chose."""
        return getattr(self, "engine_", "auto") if self.engine == "auto" else self.engine

    def _open_diffusion(self) -> dict[str, Any]:
        """The parameters that are those of :func:`nodewise.diffuse`, but for the engine; some may be ``"auto"``."""
        names = [field.name for field in fields(Params) if field.name not in ("engine", "per_hop")]
        return {name: getattr(self, name) for name in names}

    def _number(self, name: str) -> float:
        """One of the four numbers: as given, as found, or before that as the search starts."""
        given = getattr(self, name)
        return float(getattr(getattr(self, "found_", None) or UNTUNED, name) if given == AUTO else given)

    def _diffusion(self, graph: Graph) -> dict[str, Any]:
        """As :meth:`_open_diffusion`, with all numbers. What was found is a depth: how ``tau`` gets there depends on
        the degrees, which in the part of a graph that inductive training sees are others than in the whole."""
        params = {**self._open_diffusion(), **{name: self._number(name) for name in DiffusedClassifier.OPEN}}
        if self.tau == AUTO:
            hops = (getattr(self, "found_", None) or UNTUNED).hops
            params |= {"max_hops": deepest(params), "tau": tau_of_length(graph, hops, self.convention)}
        return params

    def _bank(self, graph: Graph) -> dict[str, Any]:
        """As :meth:`_diffusion`, with hops apart where the layout has them so."""
        params, layout = self._diffusion(graph), self._layout(graph)
        return params if layout.hops == 1 else {**params, "per_hop": True, "max_hops": layout.hops - 1}

    # ------------------------------------------------------------------ saved form

    def _fitted_extras(self) -> dict[str, Any]:
        return {
            **super()._fitted_extras(),
            "engine": self.engine_,
            "found": None if self.found_ is None else asdict(self.found_),
            "layout": asdict(self.layout_),
            "num_nodes": self.num_nodes_,
        }

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        self._forget()
        super()._restore_extras(fitted)
        self.engine_ = fitted["engine"]
        self.found_ = None if fitted["found"] is None else Found(**fitted["found"])
        self.layout_ = Layout(**fitted["layout"])
        self.num_nodes_ = fitted["num_nodes"]

    def _fitted_arrays(self) -> dict[str, torch.Tensor]:
        known = {name: getattr(self, name) for name in ("labels_", "to_mend_by_")}
        return {
            f"{name}.{part}": torch.from_numpy(np.ascontiguousarray(array))
            for name, pair in known.items()
            if pair is not None
            for part, array in pair._asdict().items()
        }

    def _restore_arrays(self, arrays: dict[str, torch.Tensor]) -> None:
        for name in ("labels_", "to_mend_by_"):
            if f"{name}.nodes" in arrays:
                setattr(self, name, Known(*(arrays[f"{name}.{part}"].numpy() for part in Known._fields)))
