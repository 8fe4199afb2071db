"""Table 3: F1 of inductive learning on ogbn-arxiv, Reddit and Amazon."""

from __future__ import annotations

from nodewise.lab.paper.context import Context
from nodewise.lab.paper.f1_tables import f1_result
from nodewise.lab.paper.result import Result


def run(context: Context) -> Result:
    return f1_result("inductive_f1", "F1 of inductive learning", context)
