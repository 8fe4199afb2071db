"""Named data sets, and one reader for each way that graphs are kept on disk."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from nodewise.datasets import registry
from nodewise.datasets.fetch import fetch_files
from nodewise.datasets.registry import Dataset, list_datasets
from nodewise.errors import InputError

if TYPE_CHECKING:
    from nodewise.graph import Graph

__all__ = ["list_datasets", "load"]


def load(source: str | Path, data_dir: str | Path | None = None) -> Graph:
    """A graph by the name of a data set ("pubmed"), from a store folder, or from an ``.npz`` file.

    ``data_dir`` is where the files of named data sets are looked for first; see :mod:`nodewise.datasets.fetch` for the
    other places. A name wins over a folder of the same name: write ``./cora`` for the folder.
    """
    dataset = registry.lookup(source) if isinstance(source, str) else None
    if dataset is not None:
        return _load_named(dataset, data_dir)
    try:
        path = Path(source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # too long, no such user, a NUL
        raise InputError(_unknown_message(str(source)[:80])) from error
    if is_folder:
        return _load_store(path)
    if is_file:
        return _load_file(path)
    raise InputError(_unknown_message(str(source)))


def _load_named(dataset: Dataset, data_dir: str | Path | None) -> Graph:
    if dataset.layout == "raw":
        raise InputError(
            f"{dataset.name}: listed because the paper uses it, but it cannot be loaded by name. Get its raw files "
            f"from {dataset.original}, import them with `nodewise import`, and load the folder that this makes"
        )
    files = fetch_files(dataset, data_dir)
    # The readers need numba, through Graph; `nodewise datasets` needs neither.
    if dataset.layout == "planetoid":
        from nodewise.datasets.planetoid import read_planetoid

        return read_planetoid(files, dataset.name)
    from nodewise.datasets.npz import read_npz

    return read_npz(files[dataset.files[0].name], dataset.name)


def _load_store(path: Path) -> Graph:
    if not (path / "manifest.json").is_file():
        raise InputError(
            f"{path}: a folder without manifest.json; expected a store, as `nodewise import` makes one. Name the store "
            f"itself, or import the files of this folder first"
        )
    from nodewise.store import open_store

    return open_store(path)


def _load_file(path: Path) -> Graph:
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path}: a file of type {path.suffix or 'unknown'!r}; expected the name of a data set, a store folder or "
            f"an .npz file. Edge lists and tables are imported first, with `nodewise import`"
        )
    from nodewise.datasets.npz import read_npz

    return read_npz(path)


def _unknown_message(source: str) -> str:
    names = [dataset.name for dataset in registry.DATASETS]
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(source.lower(), by_lower, n=1)
    meant = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
    return (
        f"{source}: neither the name of a data set nor a path that exists. {meant}The names are {', '.join(names)}; "
        f"anything else must be the path of a store folder or of an .npz file that exists"
    )
