"""The manifest of a store: what the store holds, how it is written as JSON, and the checks when it is read.

A JSON file can say anything. A manifest that passes the checks names only the files listed here, with types, shapes and
sizes that agree with each other and with the counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util import atomic
from nodewise._util.errors import StoreError
from nodewise._util.json_file import read_json, typed_fields
from nodewise._util.os_errors import reading
from nodewise._version import __version__
from nodewise.graph.adjacency import MAX_NODES
from nodewise.graph.checks import LEAST_LOOP
from nodewise.graph.unchecked import REPAIR

FORMAT = "nodewise-store"
FORMAT_VERSION = 2  # 2 added int8 features, 64-bit indices, and the sum and minimum of the degrees
MAX_HEADER = 1 << 16  # bytes before the data of an .npy file

MANIFEST = "manifest.json"
INDPTR, INDICES, WEIGHTS = "indptr.npy", "indices.npy", "weights.npy"
DENSE, STEPS, LABELS, NAMES = "features.npy", "feature_steps.npy", "labels.npy", "names.parquet"
SPARSE = ("features_data.npy", "features_indices.npy", "features_indptr.npy")
# Every file that a store can hold, except splits, and the types that its values can have.
DTYPES: Mapping[str, tuple[str, ...]] = {
    INDPTR: ("<i8",),
    INDICES: ("<u4", "<u8"),
    WEIGHTS: ("<f4",),
    DENSE: ("<f4", "<f2", "|i1"),
    STEPS: ("<f4",),  # scale and offset of each column, where features are int8
    SPARSE[0]: ("<f4",),
    SPARSE[1]: ("<i4", "<i8"),
    SPARSE[2]: ("<i4", "<i8"),
    LABELS: ("<i8", "|i1"),
    NAMES: ("string",),
}
SPLIT_FILE = re.compile(r"splits/([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})\.npy")
SHA256 = re.compile(r"[0-9a-f]{64}")
COUNTS = {"nodes", "entries", "edges", "features", "classes"}
FLAGS = {"weighted", "multilabel", "sparse_features"}
MOST = 1 << 62  # of a count, but the classes: labels are any int64


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """What the manifest says about one file."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    block_bytes: int
    sha256: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a store holds."""

    counts: Mapping[str, int]
    flags: Mapping[str, bool]
    files: Mapping[str, StoredFile]
    name: str = "graph"
    label_names: tuple[str, ...] | None = None
    degrees: Mapping[str, float] | None = None  # "total" and "least"; None in format 1
    present_labels: tuple[int, ...] | None = None  # those that occur, in order; None where not known
    provenance: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    written_by: str = __version__
    feature_names: tuple[str, ...] | None = None

    @property
    def bytes(self) -> int:
        """The size of all files except the manifest."""
        return sum(file.bytes for file in self.files.values())


def dtypes_of(file: str) -> tuple[str, ...] | None:
    """The types that the values of ``file`` can have; None where a store has no such file."""
    return ("<i8",) if SPLIT_FILE.fullmatch(file) else DTYPES.get(file)


def to_json(manifest: Manifest) -> str:
    """The text of a manifest, its own checksum included; TypeError or ValueError where JSON cannot hold it."""
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **dataclasses.asdict(manifest)}
    content = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**content, "checksum": _checksum(content)}, indent=1) + "\n"


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON: keys sorted, no spaces, the checksum itself left out."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(path: atomic.AnyPath) -> Manifest:
    """Read and check the manifest of a store: counts, flags, files, provenance."""
    folder = Path(path)
    path = folder / MANIFEST
    atomic.put_back(folder)
    if folder.is_file():
        raise StoreError(f"{folder}: this is a file; expected a store, which is a folder, as nodewise import writes it")
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder; expected a store, as nodewise import writes it")
    if not path.is_file():
        raise StoreError(f"{folder}: has no {MANIFEST}, so it is not a store; expected one that nodewise import wrote")
    with reading(path, "JSON", (ValueError,), StoreError, REPAIR):
        content = read_json(path)
    _check_format(path, content)
    try:
        if content.get("checksum") != _checksum(content):
            raise _damaged(path, "its content does not match its checksum")
        manifest = _from_json(content)
        _check_counts(manifest)
        _check_files(manifest)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    return manifest


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path}: {what}; {REPAIR}")


def _check_format(path: Path, content: Mapping[str, Any]) -> None:
    if content.get("format") != FORMAT:
        raise StoreError(f"{path}: format {content.get('format')!r:.80}; expected {FORMAT!r}. Not a store of nodewise")
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise _damaged(path, f"format_version is {version!r:.80}; expected {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        raise StoreError(
            f"{path}: store format {version}, written by nodewise {content.get('written_by')!r:.80}; "
            f"nodewise {__version__} reads formats up to {FORMAT_VERSION}. Upgrade nodewise: pip install -U nodewise"
        )


def _from_json(content: dict[str, Any]) -> Manifest:
    manifest = Manifest(**typed_fields(Manifest, content, others=True))
    for name, found, keys in (("counts", manifest.counts, COUNTS), ("flags", manifest.flags, FLAGS)):
        _check(found.keys() >= keys, f"{name} are {found!r:.200}; expected {', '.join(sorted(keys))}")
    for name, file in manifest.files.items():
        _check_file(name, file)
    return manifest


def _check_file(name: str, file: StoredFile) -> None:
    """Check what the manifest says about one file in itself."""
    dtypes = dtypes_of(name)
    if dtypes is None:
        raise ValueError(f"names a file {name!r:.120}, which stores do not have")
    _check(file.dtype in dtypes, f"{name} is not of type {' or '.join(dtypes)}")
    _check(all(0 <= number <= MOST for number in (*file.shape, file.bytes)), f"{name} has a size that cannot be")
    _check(4096 <= file.block_bytes <= 1 << 30, f"{name} has blocks of {file.block_bytes} bytes")
    _check(all(map(SHA256.fullmatch, file.sha256)), f"a checksum of {name} is not a SHA-256")
    blocks = -(-file.bytes // file.block_bytes)
    _check(len(file.sha256) == blocks, f"{name} has {len(file.sha256)} checksums for {blocks} blocks")


def _check_counts(manifest: Manifest) -> None:
    """Check that counts, labels, names and degrees agree."""
    counts, files = manifest.counts, manifest.files
    _check(all(0 <= counts[key] <= MOST for key in COUNTS - {"classes"}), f"counts are {counts!r:.200}")
    nodes, entries, edges, classes = (counts[key] for key in ("nodes", "entries", "edges", "classes"))
    narrow = INDICES in files and files[INDICES].dtype == "<u4"
    _check(1 <= nodes <= (MAX_NODES if narrow else 2**48), f"{nodes} nodes")
    _check(entries == nodes + 2 * edges, f"{entries} entries for {nodes} nodes and {edges} edges")
    _check(counts["features"] == 0 or DENSE in files or SPARSE[0] in files, f"{counts['features']} features in no file")
    _check(classes == 0 or LABELS in files, f"{classes} classes, and no {LABELS}")
    present = manifest.present_labels
    listed = present is None or (
        list(present) == sorted(set(present)) and all(0 <= label < classes for label in present)
    )
    _check(listed, f"present_labels is {present!r:.80}; expected labels below {classes}, in order")
    names = manifest.feature_names
    fits = names is None or len(set(names)) == len(names) == counts["features"]
    _check(fits, "feature_names are not one for each feature, all different")
    _check(manifest.label_names is None or len(manifest.label_names) >= classes, f"too few label_names for {classes}")
    if manifest.degrees is not None:
        total, least = (manifest.degrees.get(key, 0) for key in ("total", "least"))
        _check(0 < total < 1e300, f"degrees is {manifest.degrees!r:.80}; expected a total and a least above 0")
        if not manifest.flags["weighted"]:
            _check(total == entries and least >= 1, f"a total degree of {total} and a least of {least}")
        low, high = LEAST_LOOP / 2, total / nodes * (1 + 1e-6)
        _check(low <= least <= high, f"a least degree of {least}; expected a number from {low:g} to {high:g}")


def _check_files(manifest: Manifest) -> None:
    """Check that all required files are listed, and that shapes, sizes, counts and flags agree."""
    files, flags = manifest.files, manifest.flags
    sparse = flags["sparse_features"]
    for required in (INDPTR, INDICES):
        _check(required in files, f"does not list {required}")
    _check(flags["weighted"] == (WEIGHTS in files), f"weighted and {WEIGHTS} do not agree")
    _check(all((part in files) == sparse for part in SPARSE), "sparse_features and the files listed do not agree")
    _check(not sparse or DENSE not in files, "lists both dense and sparse features")
    _check(not sparse or files[SPARSE[1]].dtype == files[SPARSE[2]].dtype, "sparse features of two kinds of numbers")
    int8 = DENSE in files and files[DENSE].dtype == "|i1"
    _check((STEPS in files) == int8, f"{STEPS} belongs to features of int8, and to no others")
    _check(not flags["multilabel"] or LABELS in files, "multilabel, and no labels.npy")
    expected = _expected_shapes(manifest)
    for name, file in files.items():
        wanted = expected.get(name, (None,))
        fits = len(file.shape) == len(wanted) and all(w in (None, s) for w, s in zip(wanted, file.shape, strict=True))
        _check(fits, f"{name} has shape {file.shape}, which does not fit the counts")
        if name != NAMES:
            data = math.prod(file.shape) * np.dtype(file.dtype).itemsize
            fits = data < file.bytes <= data + MAX_HEADER
            _check(fits, f"{name} has {file.bytes} bytes, which do not fit shape {file.shape}")


def _check(good: bool, problem: str) -> None:
    if not good:
        raise ValueError(problem)


def _expected_shapes(manifest: Manifest) -> dict[str, tuple[int | None, ...]]:
    """The shape of each file, with None for a length that may be anything."""
    counts = manifest.counts
    nodes, entries = counts["nodes"], counts["entries"]
    stored = manifest.files[SPARSE[0]].shape[:1] if SPARSE[0] in manifest.files else ()
    return {
        INDPTR: (nodes + 1,),
        INDICES: (entries,),
        WEIGHTS: (entries,),
        DENSE: (nodes, counts["features"]),
        STEPS: (2, counts["features"]),
        SPARSE[0]: (None,),
        SPARSE[1]: stored,
        SPARSE[2]: (nodes + 1,),
        LABELS: (nodes, counts["classes"]) if manifest.flags["multilabel"] else (nodes,),
        NAMES: (nodes,),
    }


def is_store(path: atomic.AnyPath) -> bool:
    """Whether a folder is a store, valid or damaged, and holds nothing else."""
    folder = Path(path)
    try:
        written = read_json(folder / MANIFEST)["format"] == FORMAT
        splits = folder / "splits"
        entries = [*folder.iterdir(), *(splits.iterdir() if splits.is_dir() else [])]
        names = [entry.relative_to(folder).as_posix() for entry in entries]
        return written and all(dtypes_of(name) or name in (MANIFEST, "splits") for name in names)
    except (OSError, ValueError, KeyError):
        return False
