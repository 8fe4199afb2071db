"""How fast edges become an adjacency, and how much memory an import takes.

    python benchmarks/importing.py                                            # 100 million edges; 10 GB within 1 GB
    python benchmarks/importing.py --edges 5000000 --input 1GB --memory 500MB # smaller
    python benchmarks/importing.py -o docs/results/importing.json

Two questions. How many edges a second become a symmetric adjacency with loops, against scipy's
``coo_matrix(...).tocsr()`` on the same edges in the same run: both from arrays in memory, taking turns, the best of
several; scipy's is neither symmetric nor looped. And does an import stay within its budget where the input is ten
times as large: each import is a process of its own, which reports the most memory that it ever held. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import scipy.sparse as sp

from nodewise._util.memory import parse_bytes, show_bytes
from nodewise.graph import adjacency
from nodewise.learn.evaluate import versions

CHUNK = 1 << 22  # edges made at a time
KINDS = {"npy": 16, "csv": 15, "names": 27}  # bytes an edge takes in a file, about
# The peak is VmHWM: ru_maxrss counts what the parent held when it started the process, too.
IMPORT = """
import json, re, sys, time
from pathlib import Path
from nodewise.importing import import_store
started = time.perf_counter()
import_store(sys.argv[1], sys.argv[2], memory=sys.argv[3])
seconds = time.perf_counter() - started
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({"seconds": seconds, "peak_bytes": peak}))
"""


def random_edges(count: int, nodes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, nodes, (2, count))


def in_memory(count: int, nodes: int, repeats: int) -> dict[str, Any]:
    """Seconds from two arrays to CSR, ours and scipy's, taking turns."""
    source, target = random_edges(count, nodes, 0)
    ones = np.ones(count)

    def ours() -> None:
        adjacency.from_edges(source, target, nodes)

    def scipys() -> None:
        sp.coo_matrix((ones, (source, target)), (nodes, nodes)).tocsr()

    adjacency.from_edges(source[:1000], target[:1000], nodes)  # compile
    times = {"nodewise": float("inf"), "scipy": float("inf")}
    for _ in range(repeats):
        for name, function in (("nodewise", ours), ("scipy", scipys)):
            started = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - started)
    speed = {name: count / seconds / 1e6 for name, seconds in times.items()}
    return {
        "edges": count,
        "nodes": nodes,
        "million_edges_a_second": speed,
        "ratio": speed["nodewise"] / speed["scipy"],
    }


def write_npy(path: Path, count: int, nodes: int) -> None:
    """Edges as (2, count) of int64, without ever holding them."""
    with path.open("wb") as stream:
        head = {"descr": "<i8", "fortran_order": False, "shape": (2, count)}
        np.lib.format.write_array_header_1_0(stream, head)
        rng = np.random.default_rng(1)
        for _ in range(2):
            for first in range(0, count, CHUNK):
                rng.integers(0, nodes, min(CHUNK, count - first)).tofile(stream)


def write_csv(path: Path, count: int, nodes: int, names: bool) -> None:
    def column(ends: np.ndarray) -> pa.Array:
        text = pa.array(ends).cast(pa.string())
        return pa.compute.binary_join_element_wise("user", text, "") if names else pa.array(ends)

    with pacsv.CSVWriter(path, pa.schema([(end, pa.string() if names else pa.int64()) for end in ("u", "v")])) as out:
        for first in range(0, count, CHUNK):
            ends = random_edges(min(CHUNK, count - first), nodes, first)
            out.write_table(pa.table({"u": column(ends[0]), "v": column(ends[1])}))


def imported(folder: Path, kind: str, count: int, nodes: int, memory: str) -> dict[str, Any]:
    """Import a file in a process of its own."""
    path, store = folder / f"edges.{'npy' if kind == 'npy' else 'csv'}", folder / "store"
    if kind == "npy":
        write_npy(path, count, nodes)
    else:
        write_csv(path, count, nodes, kind == "names")
    run = subprocess.run(
        [sys.executable, "-c", IMPORT, path, store, memory], check=True, stdout=subprocess.PIPE, text=True
    )
    result = json.loads(run.stdout)
    budget, size = parse_bytes(memory), path.stat().st_size
    path.unlink()
    shutil.rmtree(store)
    return {
        "kind": kind,
        "edges": count,
        "nodes": nodes,
        "input_bytes": size,
        "budget_bytes": budget,
        **result,
        "peak_over_budget": result["peak_bytes"] / budget,
        "million_edges_a_second": count / result["seconds"] / 1e6,
    }


def show_memory(result: dict[str, Any]) -> None:
    speed = result["million_edges_a_second"]
    print(f"{result['edges']:,} edges and {result['nodes']:,} nodes in memory, million edges a second:")
    print(f"  nodewise {speed['nodewise']:.1f}, scipy {speed['scipy']:.1f}: {result['ratio']:.2f} times")


def show_import(row: dict[str, Any]) -> None:
    print(f"{row['kind']}: {show_bytes(row['input_bytes'])}, {row['edges']:,} edges, {row['nodes']:,} nodes:", end=" ")
    print(f"{row['seconds']:.1f} s, {row['million_edges_a_second']:.2f} million edges a second,", end=" ")
    print(f"at most {show_bytes(row['peak_bytes'])} of {show_bytes(row['budget_bytes'])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000_000, help="edges of the comparison with scipy")
    parser.add_argument("--repeats", type=int, default=3, help="times that each of the two is run")
    parser.add_argument("--input", default="10GB", help="size of the files to import")
    parser.add_argument("--memory", default="1GB", help="budget of the imports")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS), help="files to import")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    size = parse_bytes(arguments.input)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        # The file, its sorted runs (two keys of 8 bytes an edge) and the store (two entries of 4 bytes an edge).
        edges = {kind: size // KINDS[kind] for kind in arguments.kinds}
        needed = size + 28 * max([*edges.values(), arguments.edges])
        print(f"up to {show_bytes(needed)} of disk are needed, {show_bytes(shutil.disk_usage(folder).free)} are free")
        result: dict[str, Any] = {"in_memory": in_memory(arguments.edges, arguments.edges // 10, arguments.repeats)}
        show_memory(result["in_memory"])
        same = imported(folder, "npy", arguments.edges, arguments.edges // 10, "4GB")
        show_import(same)
        result["imports"] = [same]
        for kind, count in edges.items():
            result["imports"].append(imported(folder, kind, count, count // 50, arguments.memory))
            show_import(result["imports"][-1])
    result["versions"] = versions()
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
