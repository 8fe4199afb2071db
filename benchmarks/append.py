"""How much faster 1% of new edges are added to a store than all edges are imported again.

    python benchmarks/append.py --edges 3000000 --kinds npy csv  # in place of 30 million, and of all kinds

Both write the same adjacency, each in a process of its own that reports its time and its peak of memory. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from nodewise._util.memory import show_bytes

RUN = """
import json, re, sys, time
from pathlib import Path
from nodewise.importing import append_store, import_store
started = time.perf_counter()
{call}
seconds = time.perf_counter() - started
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({{"seconds": seconds, "peak_bytes": peak}}))
"""
IMPORT = RUN.format(call="import_store(sys.argv[1], sys.argv[2], memory=sys.argv[3], ids=sys.argv[4])")
APPEND = RUN.format(call="append_store(sys.argv[4], sys.argv[2], sys.argv[1], memory=sys.argv[3])")


def timed(code: str, *arguments: Any) -> dict[str, float]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


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
    timed(IMPORT, written(folder / f"{kind}-old{end}", ends[:, :count]), old, memory, ids)
    added = timed(APPEND, written(folder / f"{kind}-new{end}", ends[:, count:]), new, memory, old)
    again = timed(IMPORT, written(folder / f"{kind}-all{end}", ends), everything, memory, ids)
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
