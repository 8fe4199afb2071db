"""The paper's tables and figures, run again, the paper's numbers beside those found here.

An experiment is a file with ``run(context) -> Result``. :func:`reproduce` runs those asked for, keeps each as soon as
it is done, and writes one page about all.
"""

from __future__ import annotations

from nodewise.lab.paper.catalogue import EXPERIMENTS
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.reproduce import reproduce
from nodewise.lab.paper.result import Column, Figure, Record, Result, Table

__all__ = ["EXPERIMENTS", "Column", "Context", "Figure", "Record", "Result", "Table", "reproduce"]
