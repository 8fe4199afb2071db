"""What every reader hands to the importer: edges, features and labels that are read in parts, never whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import scipy.sparse as sp

from nodewise._typing import AnyArray, IntArray


@dataclasses.dataclass(frozen=True)
class EdgeStream:
    """Edges by node number.

    ``parts(rows)`` starts from the beginning each time it is called and yields ``(ends, weights)`` in the order of the
    file: ``ends`` an integer array ``(2, k)`` with ``k <= rows``, ``weights`` None or an array ``(k,)``. Ids are
    checked. ``count`` is the number of edges where it is known beforehand; elsewhere ``share`` may say which share of
    the input has been read.
    """

    parts: Callable[[int], Iterator[tuple[AnyArray, AnyArray | None]]]
    count: int | None = None
    weighted: bool = False
    share: Callable[[], float] | None = None
    source: str = "edges"  # what messages call them

    def estimate(self, read: int) -> float | None:
        """About how many edges there are, once ``read`` of them have been read."""
        share = 0.0 if self.share is None else self.share()
        return read / share if share else None


@dataclasses.dataclass(frozen=True)
class FeatureStream:
    """Features in node order.

    ``parts(rows)`` starts from the beginning each time it is called and yields arrays ``(k, width)`` of finite numbers
    with ``k <= rows``, node 0 first; nodes after the last row have none (rows of zeros). ``dtype`` is what to keep them
    as unless the user says otherwise: float32 or float16.
    """

    parts: Callable[[int], Iterator[AnyArray]]
    width: int
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class RawGraph:
    """A graph that is still in its files."""

    num_nodes: int | None  # None: as many as the largest id says
    edges: EdgeStream
    features: FeatureStream | sp.csr_matrix | None = None  # a sparse matrix in memory stays sparse
    labels: AnyArray | None = None  # int64 with -1 for unknown, or int8 0/1 with a column a label
    label_names: Sequence[str] | None = None
    splits: Mapping[str, IntArray] = dataclasses.field(default_factory=dict)
    name: str = "graph"
