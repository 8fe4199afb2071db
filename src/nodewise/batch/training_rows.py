"""Rows for training, made on a Ray cluster: only the rows of the requested nodes travel back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodewise._util.errors import StoreError
from nodewise._util.memory import memory_budget
from nodewise._util.types import FloatArray, IntArray
from nodewise.batch.on_ray import check_place, connected, scatter
from nodewise.batch.opened import graph_id, open_graph, resolve_source, with_resources
from nodewise.batch.pieces import PieceError
from nodewise.graph import Graph
from nodewise.learn.rows import DiffusedRows, MakeRows, new_rows

NODES_PER_CALL = 1 << 10  # training asks about few


Where = tuple[str, str | None, str]  # how a worker finds the graph: its source, the data folder, its id


@contextmanager
def row_maker(
    source: str,
    data_dir: str | Path | None = None,
    *,
    on: str = "ray",
    address: str | None = None,
    threads: int | None = None,
) -> Iterator[MakeRows | None]:
    """A function ``(maker, graph, nodes)`` that returns what ``maker.rows(graph, nodes)`` does, bit for bit.

    ``graph`` is what ``source`` gives here; workers open ``source`` themselves. ``on``, ``address``, ``threads``: as in
    :func:`nodewise.batch.run`; None for ``on="local"``, where rows need no other maker.
    """
    check_place(on, address)
    if on == "local":
        yield None
        return
    (source, folder), cores = resolve_source(source, data_dir), threads or 1
    with connected(address, cores) as ray:

        def make(maker: DiffusedRows, graph: Graph, nodes: IntArray) -> FloatArray:
            where = source, folder, graph_id(source, graph)
            settled = maker.settled(graph, nodes)  # one engine for all parts
            return _rows(ray, with_resources(settled, cores, None, crowded=True), graph, nodes, where)

        yield make


def _rows(ray: Any, maker: DiffusedRows, graph: Graph, nodes: IntArray, where: Where) -> FloatArray:
    rows = new_rows(nodes.size, maker.width(graph), memory_budget(maker.memory) // 2)
    blocks = maker.blocks(graph, nodes)
    shared = ray.put(maker)
    places: list[Any]
    calls: dict[int, tuple[Any, ...]]
    if blocks is None:
        places = [slice(first, first + NODES_PER_CALL) for first in range(0, nodes.size, NODES_PER_CALL)]
        calls = {i: (shared, where, nodes[place], None) for i, place in enumerate(places)}
    else:
        places = [(slice(None), block) for block in blocks]
        calls = {i: (shared, where, nodes, block) for i, block in enumerate(blocks)}
    try:
        for i, part in scatter(ray, _part, calls, maker.params.threads or 1):
            rows[places[i]] = part
    except PieceError as error:
        part_number, why = error.args
        raise StoreError(f"rows, part {part_number + 1:,} of {len(calls):,}, {why}") from error
    for first in range(0, nodes.size if blocks else 0, NODES_PER_CALL):
        part = slice(first, first + NODES_PER_CALL)
        maker.finish(graph, nodes[part], rows[part, : graph.num_features], rows[part])
    return rows


def _part(maker: DiffusedRows, where: Where, nodes: IntArray, block: slice | None) -> FloatArray:
    """Whole rows of some nodes, or a block of columns of all."""
    graph = open_graph(*where)
    return maker.rows(graph, nodes) if block is None else maker.represent_block(graph, nodes, block)
