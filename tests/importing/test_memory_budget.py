"""An import holds no more memory than it was given, whatever the format; a budget that is too small is refused at once.

Each file is imported in a process of its own. That asks for the least budget with one that is far too small, imports
with what the refusal says, and reports the most memory that it ever held: VmHWM and not ru_maxrss, which counts what
the parent held when it started the process, too.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from nodewise import InputError, import_store, open_store
from nodewise.formats.csv import TextTable, open_text
from nodewise.importing import from_files, sorting

EDGES, NODES = {False: 5_000_000, True: 7_000_000}, 50_000  # without and with names, for which a budget is larger
# With small blocks, of which writers hold several, and a small reserve, few edges are too many for the least budget.
MEASURED = """
import json, re, sys
from pathlib import Path
from nodewise._util.memory import resident_memory
from nodewise.importing import edge_stage, import_store
from nodewise.store import blocks
blocks.BLOCK_BYTES, edge_stage.WRITER_BYTES, edge_stage.RESERVE = 1 << 20, 8 << 20, 24 << 20
stages = []
try:
    import_store(sys.argv[1], "store", memory="1MB", progress=lambda stage, *_: stages.append(stage))
except ValueError as error:
    budget = int(re.search(r"--memory (\\d+)MB", str(error))[1]) * 10**6
held = resident_memory()
import_store(sys.argv[1], "store", memory=budget)
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({"refused in": stages, "held": held, "budget": budget, "peak": peak}))
"""


def ends(named: bool = False) -> np.ndarray:
    """Random edges, few of them different, so that the store is small."""
    source = np.random.default_rng(0).integers(0, NODES, EDGES[named], dtype=np.int32)
    return np.stack([source, source + 1])


def table(named: bool = False) -> pa.Table:
    source, target = (pa.array(side) for side in ends(named))
    if named:
        source, target = (pc.binary_join_element_wise("u", side.cast(pa.string()), "") for side in (source, target))
    return pa.table({"source": source, "target": target})


def write_deflated(path: str) -> None:
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("edge_index.npy", "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, ends())


FILES = {
    "e.csv": lambda path: pacsv.write_csv(table(), path),
    "one_group.parquet": lambda path: pq.write_table(table(), path, row_group_size=EDGES[False]),
    "deflated.npz": write_deflated,
    "names.csv": lambda path: pacsv.write_csv(table(named=True), path),
    "names.parquet": lambda path: pq.write_table(table(named=True), path),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", FILES)
def test_an_import_stays_within_the_least_budget(name):
    """Sorted at once, the edges would take more than the budget."""
    FILES[name](name)
    command = [sys.executable, "-c", MEASURED, name]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert found["peak"] <= found["budget"] < found["held"] + sorting.RUN_BYTES[False] * EDGES["names" in name]
    assert not found["refused in"]  # before the first stage


def many_names() -> str:
    rows = "".join(f"user-{i},user-{i + 1}\n" for i in range(200_000))
    Path("e.csv").write_text("source,target\n" + rows)
    return "e.csv"


def test_too_many_names_are_refused_before_edges_are_sorted(monkeypatch):
    monkeypatch.setattr(from_files, "names_room", lambda *_: 1 << 20)
    stages = set()
    with pytest.raises(InputError, match=r"numbering about (19|20)\d,\d{3} names of nodes takes at least .*--memory"):
        import_store(many_names(), "store", memory="4GB", progress=lambda stage, *_: stages.add(stage))
    assert stages == {"counting names of nodes"}
    assert not Path("store").exists()


def test_names_are_counted_where_a_file_has_more_rows_than_it_seemed(monkeypatch):
    monkeypatch.setattr(TextTable, "most_rows", lambda _: 10)
    import_store(many_names(), "store")
    assert open_store("store").num_nodes == 200_001


@pytest.mark.parametrize("opened", [open, gzip.open])
def test_the_number_of_rows_of_a_text_file_is_rather_guessed_too_high(opened):
    rows, name = 300_000, "e.csv" if opened is open else "e.csv.gz"
    with opened(name, "wt") as stream:
        stream.writelines(f"{i},{7 * i}\n" for i in range(rows))
    assert rows < open_text(Path(name), None).most_rows() < 4 * rows
