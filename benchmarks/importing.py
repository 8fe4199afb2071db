"""How fast files of edges become a graph, and how much memory that takes.

    python benchmarks/importing.py -o docs/results/importing.json    # 30 million edges within 1 GB
    python benchmarks/importing.py --edges 2000000 --memory 700MB    # smaller
    python benchmarks/importing.py --edges 506250000 --kinds npy --memory 800MB --systems nodewise  # more than memory

The same random edges in files of each kind. ``nodewise import`` writes them as a store within a budget. Beside it, in
the same run, pyarrow with numpy and DuckDB build the adjacency in memory, without a budget: both directions, loops,
repeats merged, rows sorted. Each is a process of its own, which reports the most memory that it ever held.

Then from arrays in memory, taking turns, the best of several: nodewise against scipy's ``coo_matrix(...).tocsr()``,
which is neither symmetric nor looped. Linux only; for DuckDB, ``pip install duckdb``.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from measuring import best_of, keep, measured

KINDS = ("csv", "csv.gz", "parquet", "npy", "npz", "names.csv", "names.parquet")
CHUNK = 1 << 22  # edges made at a time


# ---------------------------------------------------------------------- files


def random_edges(count: int, nodes: int) -> Any:
    """Edges as arrays ``(2, k)``, some at a time."""
    for first in range(0, count, CHUNK):
        yield np.random.default_rng(first).integers(0, nodes, (2, min(CHUNK, count - first)))


def write(path: Path, kind: str, count: int, nodes: int) -> None:
    if kind in ("npy", "npz"):
        ends = np.lib.format.open_memmap(path.with_suffix(".npy"), "w+", np.int64, (2, count))
        for number, part in enumerate(random_edges(count, nodes)):
            ends[:, number * CHUNK : number * CHUNK + part.shape[1]] = part
        if kind == "npz":
            np.savez(path, edge_index=ends)
        return
    names = kind.startswith("names")
    schema = pa.schema([(end, pa.string() if names else pa.int64()) for end in ("u", "v")])
    writer = pq.ParquetWriter if "parquet" in kind else pacsv.CSVWriter
    with gzip.open(path, "wb", 1) if kind == "csv.gz" else path.open("wb") as stream, writer(stream, schema) as out:
        for part in random_edges(count, nodes):
            sides = [pa.array(side) for side in part]
            if names:
                sides = [pc.binary_join_element_wise("user", side.cast(pa.string()), "") for side in sides]
            out.write_table(pa.table(sides, schema=schema))


# ---------------------------------------------------------------------- systems: from a file to the number of entries


def by_nodewise(path: Path, kind: str, memory: str) -> int:
    from nodewise.cli import app
    from nodewise.store import open_store

    store = path.parent / "store"
    app(["import", "--edges", str(path), "-o", str(store), "--memory", memory], standalone_mode=False)
    return int(open_store(store, verify=False).indices.size)


def columns(path: Path, kind: str) -> list[Any]:
    if kind in ("npy", "npz"):
        return list(np.load(path) if kind == "npy" else np.load(path)["edge_index"])
    return (pq.read_table(path) if "parquet" in kind else pacsv.read_csv(path)).columns


def by_numpy(path: Path, kind: str, memory: str) -> int:
    source, target = columns(path, kind)
    if kind.startswith("names"):
        both = pa.chunked_array([*source.chunks, *target.chunks]).combine_chunks().dictionary_encode()
        codes = both.indices.to_numpy().astype(np.int64)
        source, target = codes[: len(source)], codes[len(source) :]
    source, target = np.asarray(source), np.asarray(target)
    nodes = int(max(source.max(), target.max())) + 1
    loops = np.arange(nodes)
    keys = np.concatenate((source << 32 | target, target << 32 | source, loops << 32 | loops))
    keys.sort()  # np.unique takes far longer
    keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(keys >> 32, minlength=nodes))))
    indices = (keys & 0xFFFFFFFF).astype(np.uint32)
    return int(indices.size) if indptr[-1] == indices.size else -1


def by_duckdb(path: Path, kind: str, memory: str) -> int:
    import duckdb

    con, table = duckdb.connect(), f"'{path}'"
    if kind in ("npy", "npz"):
        con.register("arrays", pa.table(columns(path, kind), ["u", "v"]))
        table = "arrays"
    con.sql(f"create table file as select * from {table}")
    if kind.startswith("names"):
        con.sql(
            "create table names as select distinct name from (select u from file union all select v from file) t(name)"
        )
        con.sql("create table ids as select name, row_number() over () - 1 as id from names")
        con.sql(
            "create table edges as select a.id u, b.id v from file join ids a on u = a.name join ids b on v = b.name"
        )
    else:
        con.sql("create view edges as select * from file")
    rows = con.sql(
        "select distinct r, c from (select u r, v c from edges union all select v, u from edges union all "
        "select i, i from range((select max(greatest(u, v)) + 1 from edges)) t(i)) order by r, c"
    ).fetchnumpy()
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows["r"]))))
    indices = rows["c"].astype(np.uint32)
    return int(indices.size) if indptr[-1] == indices.size else -1


SYSTEMS = {"nodewise": by_nodewise, "pyarrow + numpy": by_numpy, "DuckDB": by_duckdb}


# ---------------------------------------------------------------------- results


def in_memory(count: int, nodes: int, repeats: int) -> dict[str, Any]:
    """Million edges per second from two arrays to CSR, ours and scipy's, taking turns."""
    import scipy.sparse as sp

    from nodewise.graph import adjacency

    source, target = np.concatenate(list(random_edges(count, nodes)), axis=1)
    ones = np.ones(count)
    ways = {
        "nodewise": lambda: adjacency.from_edges(source, target, nodes),
        "scipy": lambda: sp.coo_matrix((ones, (source, target)), (nodes, nodes)).tocsr(),
    }
    adjacency.from_edges(source[:1000], target[:1000], nodes)  # compile
    best = best_of(repeats, *ways.values())
    return {name: count / seconds / 1e6 for name, seconds in zip(ways, best, strict=True)}


def compared(folder: Path, kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One file and what each system makes of it."""
    path = folder / f"edges.{kind}"
    write(path, kind, arguments.edges, arguments.nodes)
    row: dict[str, Any] = {"kind": kind, "input_bytes": path.stat().st_size, "systems": {}}
    for system in arguments.systems:
        found = measured(SYSTEMS[system], path, kind, arguments.memory)
        found["entries"] = found.pop("returned")
        row["systems"][system] = found | {"million_edges_per_second": arguments.edges / found["seconds"] / 1e6}
        shutil.rmtree(folder / "store", ignore_errors=True)
    if len({found["entries"] for found in row["systems"].values()}) > 1:
        raise SystemExit(f"{kind}: the systems disagree: {row}")
    for file in folder.glob("edges.*"):
        file.unlink()
    return row


def show(result: dict[str, Any]) -> None:
    systems = list(result["imports"][0]["systems"])
    print(f"{result['edges']:,} edges, {result['nodes']:,} nodes: million edges per second, most memory held")
    print("| file |", " | ".join(systems), "|\n|", " --- |" * (1 + len(systems)))
    for row in result["imports"]:
        cells = [
            f"{s['million_edges_per_second']:.1f}, {s['peak_bytes'] / 1e6:,.0f} MB" for s in row["systems"].values()
        ]
        print(f"| {row['kind']} ({row['input_bytes'] / 1e6:,.0f} MB) |", " | ".join(cells), "|")
    print("from arrays:", ", ".join(f"{name} {speed:.1f}" for name, speed in result["in_memory"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=30_000_000)
    parser.add_argument("--nodes", type=int, help="(default: a tenth of the edges)")
    parser.add_argument("--memory", default="1GB", help="budget of nodewise import")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="files to import")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--repeats", type=int, default=3, help="times that arrays in memory are converted")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    arguments.nodes = arguments.nodes or arguments.edges // 10
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        imports = [compared(Path(folder), kind, arguments) for kind in arguments.kinds]
    result = {key: getattr(arguments, key) for key in ("edges", "nodes", "memory")} | {"imports": imports}
    result["in_memory"] = in_memory(arguments.edges, arguments.nodes, arguments.repeats)
    show(result)
    from nodewise.learn.evaluate import versions

    result["versions"] = versions()
    keep(result, arguments.output)


if __name__ == "__main__":
    main()
