"""How much faster 1% of new edges are added to a store than all edges are imported again.

    python benchmarks/append.py --edges 3000000 --kinds npy csv  # in place of 30 million, and of all kinds

Both write the same adjacency, each in a process of its own that reports its time and its peak of memory. Linux only.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from measuring import measured
from nodewise._util.memory import show_bytes
from nodewise.importing import append_store, import_store


def written(path: Path, ends: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, ends)
    else:
        names = [pc.binary_join_element_wise("user", pa.array(side).cast(pa.string()), "") for side in ends]
        pacsv.write_csv(pa.table(dict(zip("uv", names if "names" in path.name else ends, strict=True))), path)
    return path


def compare(folder: Path, kind: str, count: int, memory: str) -> None:
    ends = np.random.default_rng(0).integers(0, count // 10, (2, count + count // 100))
    ends[0, count : count + count // 1000] = count // 10 + np.arange(count // 1000)  # new nodes
    ids, end = "names" if kind == "names" else "integers", ".npy" if kind == "npy" else ".csv"
    old, new, everything = (folder / name for name in ("old", "new", "all"))
    measured(import_store, written(folder / f"{kind}-old{end}", ends[:, :count]), old, memory=memory, ids=ids)
    added = measured(append_store, old, new, written(folder / f"{kind}-new{end}", ends[:, count:]), memory=memory)
    again = measured(import_store, written(folder / f"{kind}-all{end}", ends), everything, memory=memory, ids=ids)
    assert np.array_equal(*(np.load(store / "indices.npy", mmap_mode="r") for store in (new, everything)))
    for name, result in (("append", added), ("import", again)):
        print(f"{kind}: {name} {result['seconds']:.1f} s, at most {show_bytes(result['peak_bytes'])}")
    print(f"{kind}: {again['seconds'] / added['seconds']:.1f} times as fast", flush=True)
    for store in (old, new, everything):
        shutil.rmtree(store)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=30_000_000, help="edges of the store")
    parser.add_argument("--kinds", nargs="*", choices=("npy", "csv", "names"), default=["npy", "csv", "names"])
    parser.add_argument("--memory", default="4GB", help="budget of each process")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for kind in given.kinds:
            compare(Path(name), kind, given.edges, given.memory)
