"""Graphs by name (``load("pubmed")``), and the list of names."""

from __future__ import annotations

import dataclasses
import difflib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from nodewise._util.atomic import put_back
from nodewise._util.errors import InputError
from nodewise._util.os_errors import writing
from nodewise._util.run_folder import locked
from nodewise.datasets import registry
from nodewise.datasets.locate import fetch_files
from nodewise.datasets.registry import Dataset, list_datasets

if TYPE_CHECKING:
    from nodewise.graph import Graph

__all__ = ["list_datasets", "load"]

log = logging.getLogger("nodewise")


def load(source: str | Path, data_dir: str | Path | None = None) -> Graph:
    """Load a graph by the name of a data set ("pubmed"), from a store folder, or from an ``.npz`` file.

    Files of named data sets are looked for in ``data_dir`` first; see :mod:`nodewise.datasets.locate` for the other
    places. A name wins over a folder of the same name: write ``./cora`` for the folder. A large graph is imported into
    a store in the cache the first time it is loaded, and opened from there afterwards.

    >>> from tempfile import mkdtemp
    >>> import nodewise as nw
    >>> folder = mkdtemp() + "/pair"
    >>> nw.write_store(nw.Graph.from_edges([[0], [1]]), folder)
    >>> nw.load(folder)  # or nw.load("pubmed"), which downloads it first if it is missing
    Graph(nodes=2, edges=1)
    """
    dataset = registry.lookup(source) if isinstance(source, str) else None
    if dataset is not None:
        return _load_named(dataset, data_dir)
    try:
        path = Path(source).expanduser()
        put_back(path)
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # too long, no such user, a NUL
        raise InputError(_unknown_message(str(source)[:80])) from error
    if is_folder:
        if not (path / "manifest.json").is_file():
            raise InputError(
                f"{path}: a folder without manifest.json; expected a store, as `nodewise import` makes one. Name the "
                f"store itself, or import the files of this folder first"
            )
        from nodewise.store import open_store

        return open_store(path)
    if not is_file:
        raise InputError(_unknown_message(str(source)))
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path}: a file of type {path.suffix or 'unknown'!r}; expected the name of a data set, a store folder or "
            f"an .npz file. Import edge lists and tables first, with `nodewise import`"
        )
    from nodewise.formats.graph_npz import read_npz

    return read_npz(path)


def _load_named(dataset: Dataset, data_dir: str | Path | None) -> Graph:
    # The readers need numba, through Graph; `nodewise datasets` needs neither.
    if dataset.store is not None:
        from nodewise.store import open_store

        manifest = dataset.store / "manifest.json"
        if not manifest.is_file():
            with writing(dataset.store):
                dataset.store.parent.mkdir(parents=True, exist_ok=True)
            with locked(dataset.store.with_name(f"{dataset.name}.lock")):
                if not manifest.is_file():  # else another process has imported it in the meantime
                    _import(dataset, dataset.store, data_dir)
        return open_store(dataset.store)
    files = fetch_files(dataset, data_dir)
    if dataset.layout == "planetoid":
        from nodewise.formats.planetoid import read_planetoid

        return read_planetoid(files, dataset.name)
    from nodewise.formats.graph_npz import read_npz

    return read_npz(files[dataset.files[0].name], dataset.name)


def _import(dataset: Dataset, store: Path, data_dir: str | Path | None) -> None:
    from nodewise._util.memory import available_memory
    from nodewise.formats.graphsaint_files import read_graphsaint
    from nodewise.formats.ogb import read_ogb
    from nodewise.formats.unpack import open_files
    from nodewise.importing.building import import_raw

    paths = fetch_files(dataset, data_dir)
    first = paths[dataset.files[0].name]
    read = read_graphsaint if dataset.is_folder else read_ogb
    log.info("%s: importing into %s; this is done once", dataset.name, store)
    provenance = {"data set": dataset.name, "original": dataset.original}
    sources = tuple(paths.values())
    memory = available_memory() // 2
    with open_files(first.parent if dataset.is_folder else first) as files:
        raw = dataclasses.replace(read(files, memory), name=dataset.name)
        import_raw(raw, store, memory=memory, resume=True, overwrite=True, provenance=provenance, files=sources)


def _unknown_message(source: str) -> str:
    names = [dataset.name for dataset in registry.DATASETS]
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(source.lower(), by_lower, n=1)
    meant = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
    return (
        f"{source}: neither the name of a data set nor a path that exists. {meant}The names are {', '.join(names)}; "
        f"anything else must be the path of a store folder or of an .npz file that exists"
    )
