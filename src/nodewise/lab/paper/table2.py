"""Table 2: F1 of transductive learning on Cora, Citeseer, PubMed and Papers100M."""

from __future__ import annotations

from nodewise.lab.paper.context import Context
from nodewise.lab.paper.f1_tables import f1_result
from nodewise.lab.paper.result import Result


def run(context: Context) -> Result:
    return f1_result("transductive_f1", "F1 of transductive learning", context)
