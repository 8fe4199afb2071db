"""Read GraphML and GEXF files through networkx, as one table of edges and one of nodes with their attributes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pyarrow as pa

from nodewise._util.errors import InputError
from nodewise._util.memory import room_for
from nodewise._util.os_errors import reading

SUFFIXES = (".graphml", ".gexf")
FILE_TIMES = 40  # memory per byte of a file: elements, nodes and edges are Python objects
TEXT_COPIES = 4  # of a text that many nodes share
VALUE_BYTES = 32  # of memory per attribute of a node, also of one that has none

log = logging.getLogger("nodewise")


def read_tables(path: Path, memory: int) -> tuple[Any, Any]:
    """The edges (source, target, perhaps weight) and the nodes (node, and a column per attribute)."""
    with reading(path):
        state = path.stat()
    return _read((path, state.st_size, state.st_mtime_ns), memory)


@functools.lru_cache(maxsize=1)  # one file may be edges, features and labels
def _read(identity: tuple[Path, int, int], memory: int) -> tuple[Any, Any]:
    """The tables of a file; ``identity`` changes when the file does."""
    path, size, _ = identity
    try:
        import networkx as nx
    except ImportError as error:
        raise InputError(f"{path}: needs networkx ({error}); pip install networkx") from error
    read = nx.read_graphml if path.suffix.lower() == ".graphml" else nx.read_gexf
    # Networkx raises almost anything, and a graph that it has read may be odd in any way.
    with reading(path, f"a {path.suffix[1:]} file", (Exception,), advice="fetch or write it again"):
        room_for(f"reading {path}", memory, FILE_TIMES * size)
        _check_markup(path)
        return _tables(path, read(path), memory)


def _check_markup(path: Path) -> None:
    """Refuse declarations, which can make much of a small file, and graphs that networkx leaves out."""
    graphs = 0

    def declared(*about: Any) -> None:
        if about[-1]:  # what stands in brackets: entities, and attributes of all elements
            raise InputError(
                f"{path}: holds declarations (<!DOCTYPE … [ … ]>), by which a small file may stand for a large one; "
                f"expected a file without any. Write it again"
            )

    def element(name: str, _: Any) -> None:
        nonlocal graphs
        graphs += name.rpartition(":")[2] == "graph"
        if graphs > 1:
            raise InputError(f"{path}: holds more than one graph, or one inside another; expected one. Save it alone")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = declared, element
    with path.open("rb") as stream:
        parser.ParseFile(stream)


def _tables(path: Path, graph: Any, memory: int) -> tuple[Any, Any]:
    usual, usual_weight = graph.graph.get("node_default", {}), graph.graph.get("edge_default", {}).get("weight")
    edges = list(graph.edges(data="weight", default=usual_weight))
    loops = [(node, node, None) for node in graph if not graph.degree(node)]  # a node without edges is a node
    columns: dict[str, Sequence[Any]] = dict(
        zip(("source", "target", "weight"), zip(*edges, *loops, strict=True), strict=False)
    )
    if not any(weight is not None for weight in columns.get("weight", ())):
        columns.pop("weight", None)
    else:
        columns["weight"] = [1.0 if weight is None else weight for weight in columns["weight"]]
    attributes = dict.fromkeys(name for _, values in [*graph.nodes(data=True), (None, usual)] for name in values)
    if path.suffix.lower() == ".gexf":
        attributes.pop("label", None)  # what a program that draws the graph shows
    attributes.pop("node", None)
    repeated = sum(len(str(value)) for value in usual.values()) * len(graph) + len(str(usual_weight)) * len(edges)
    room_for(f"reading {path}", memory, VALUE_BYTES * len(graph) * len(attributes) + TEXT_COPIES * repeated)
    nodes: dict[str, Sequence[Any]] = {"node": list(graph)}
    nodes |= {name: [graph.nodes[n].get(name, usual.get(name)) for n in graph] for name in attributes}
    if attributes:
        log.info("%s: nodes have the attributes %s", path, ", ".join(attributes)[:200])
    return _table(path, columns), _table(path, nodes)


def _table(path: Path, columns: dict[str, Sequence[Any]]) -> Any:
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or beyond 64 bits
            arrays[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(arrays)
