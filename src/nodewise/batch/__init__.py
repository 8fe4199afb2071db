"""Work in pieces, here or on a Ray cluster: predictions and representations for all nodes of a graph of any size.

A run that was killed goes on when the same command is given again. The output folder holds:

- ``_job.json``, written first: which model, graph, nodes and options the folder is for, and a digest of that. The same
  job goes on, another one is refused, and so is a file that was altered.
- ``_nodes.npy``: the nodes, where a list of them was given.
- ``.columns/block-00000.npy``, ...: with the exact engine, columns for all nodes at once. Deleted at the end.
- ``part-00000.parquet``, ...: the results, one file per chunk of nodes. A file is written under a hidden name
  (``.part-00000.parquet.partial-...``) and renamed when it is whole. A run makes the files that are missing, and
  removes hidden ones that a killed run left.
- ``_summary.json``, written last: where it is there, the job is done.
- ``.lock``, while a run is under way: a second one is refused. It ends with its process, so a killed run blocks nobody.

Where the output is one file, say ``labels.csv``, these lie in ``.labels.csv.parts`` until it is put together.
"""

from __future__ import annotations

from nodewise.batch.runner import run
from nodewise.batch.training_rows import row_maker

__all__ = ["row_maker", "run"]
