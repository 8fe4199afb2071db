"""The paper's tables and figures, run again, with the paper's numbers beside those found here.

An experiment is a function of a :class:`Context` that returns a :class:`Result`. :func:`reproduce` runs experiments,
saves each as soon as it is finished, and writes one page about all.
"""

from __future__ import annotations

from nodewise.lab.paper.experiments import EXPERIMENTS, Context
from nodewise.lab.paper.reproduce import reproduce
from nodewise.lab.paper.result import Column, Figure, Record, Result, Table

__all__ = ["EXPERIMENTS", "Column", "Context", "Figure", "Record", "Result", "Table", "reproduce"]
