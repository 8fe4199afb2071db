"""Predictions and representations for all nodes of a graph of any size, in pieces: here, or on a Ray cluster.

If a run is killed, the same command continues where it stopped. The output folder holds:

- ``_job.json``, written first: which model, graph, nodes and options the folder is for, with a digest. The same job
  continues; another one is refused, and so is a file that was altered.
- ``_nodes.npy``: the nodes, if a list of them was given.
- ``.columns/block-00000.npy``, ...: with the exact engine, columns for all nodes at once. Deleted at the end.
- ``part-00000.parquet``, ...: the results, one file per chunk of nodes. A file is written under a hidden name
  (``.part-00000.parquet.partial-...``) and renamed when it is complete. A run makes the files that are missing or do
  not match the checksum inside them, and removes hidden ones that a killed run left.
- ``_summary.json``, written last: the job is done.
- ``.lock``, during a run: a second one is refused. The lock ends with its process, so a killed run blocks nobody.

If the output is one file, say ``labels.csv``, these are in ``.labels.csv.parts`` until they are joined.
"""

from __future__ import annotations

from nodewise.batch.runner import predict_new, run
from nodewise.batch.training_rows import row_maker

__all__ = ["predict_new", "row_maker", "run"]
