"""nodewise append: new nodes and edges to those of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.files import AddedFiles
from nodewise.cli.import_ import ImportMemory, Output, Overwrite, Resume, write_with


def append(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The store to add to; it stays as it is.")],
    output: Output,
    files: AddedFiles,
    memory: ImportMemory = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a new store with the nodes and edges of STORE and those of your files, faster than importing all again.

    Nodes of STORE keep their ids, and its models work on the new store.
    """
    from nodewise.importing import append_store

    write_with(append_store, files, output, store=store, memory=memory, overwrite=overwrite, resume=resume)
