"""The paper's numbers, read from ``published.json``, which names the table or figure of each."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def facts(name: str) -> Any:
    """One table or figure of the paper: its ``source``, ``columns`` and ``rows``.

    >>> facts("transductive_f1")["source"]
    'Table 2'
    """
    return json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf-8"))[name]


def reported(name: str, row: str, column: Any) -> Any:
    """One number of the paper, or None if it has none.

    >>> reported("transductive_f1", "NIGCN", "pubmed")
    [80.9, 2.02]
    """
    table = facts(name)
    row_values = table["rows"].get(row)
    if row_values is None or column not in table["columns"]:
        return None
    return row_values[table["columns"].index(column)]
