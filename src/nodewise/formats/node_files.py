"""Read a file of node names: one per line, in the order of the rows of arrays that have no names themselves."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import NODE_NAMES, TextTable
from nodewise.formats.label_files import whole_columns
from nodewise.formats.tables import ReadOptions, Source, open_table


def read_node_names(source: Source, options: ReadOptions, memory: int) -> Column:
    """The names of all nodes: the column ``node`` of a table, or its first one."""
    header = False if options.header is None else options.header
    table = open_table(source, dataclasses.replace(options, header=header), memory)
    first = [field.strip().lower() for field in table.sample or []] if isinstance(table, TextTable) else []
    if options.header is None and any(name and name in NODE_NAMES for name in first):
        table = open_table(source, dataclasses.replace(options, header=True), memory)
    lower = [name.strip().lower() if table.named else "" for name in table.names]
    place = next((i for i, name in enumerate(lower) if name and name in NODE_NAMES), 0)
    (names,) = whole_columns(table, {place: pa.large_string()}, memory)
    return columns.ids(names, as_text=True)
