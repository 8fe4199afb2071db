"""nodewise verify: check every block of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import print_line


def verify(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A folder written by 'nodewise import'.")],
) -> None:
    """Check every block of STORE against its checksum, and name the first damaged one."""
    from nodewise.store import verify_store

    print_line(f"{store}: {verify_store(store):,} bytes, no damage found")
