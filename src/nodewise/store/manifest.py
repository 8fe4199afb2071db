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
from typing import Any, TypeVar

import numpy as np

from nodewise._util import atomic
from nodewise._util.errors import StoreError
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

Kind = TypeVar("Kind")


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
    content = _parsed(path)
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


def _parsed(path: Path) -> dict[str, Any]:
    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"{number} is not a number")
        return value

    with reading(path, "JSON", (ValueError, RecursionError), StoreError, REPAIR):
        content = json.loads(path.read_bytes().decode(), parse_constant=finite, parse_float=finite)
    if not isinstance(content, dict):
        raise _damaged(path, "holds no JSON object")
    return content


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


def _from_json(content: Mapping[str, Any]) -> Manifest:
    counts = _get(content, "counts", dict)
    flags = _get(content, "flags", dict)
    files = _get(content, "files", dict)
    return Manifest(
        counts={key: _count(counts, key) for key in ("nodes", "entries", "edges", "features", "classes")},
        flags={key: _get(flags, key, bool) for key in ("weighted", "multilabel", "sparse_features")},
        files={file: _stored_file(file, entry) for file, entry in files.items()},
        name=_text(content, "name"),
        label_names=_names(content, "label_names"),
        degrees=_degrees(content),
        present_labels=_present_labels(content),
        provenance=_get(content, "provenance", dict),
        written_by=_text(content, "written_by"),
        feature_names=_names(content, "feature_names"),
    )


def _names(content: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    names = content.get(key)
    _check(names is None or _all_are(names, str), f"{key} is not a list of strings")
    return None if names is None else tuple(_encodable(name) for name in names)


def _text(content: Mapping[str, Any], key: str) -> str:
    return _encodable(_get(content, key, str))


def _encodable(text: str) -> str:
    """``text``, unless it is one that JSON can hold and no file or terminal: half of a pair of UTF-16."""
    text.encode()
    return text


def _degrees(content: Mapping[str, Any]) -> dict[str, float] | None:
    found = content.get("degrees")
    if found is None:
        return None
    values: list[Any] = [found.get(key) for key in ("total", "least")] if isinstance(found, dict) else []
    numbers = [float(value) for value in values if type(value) in (int, float) and 0 < value < 1e300]
    _check(len(numbers) == 2, f"degrees is {found!r:.80}; expected a total and a least above 0")
    return {"total": numbers[0], "least": numbers[1]}


def _present_labels(content: Mapping[str, Any]) -> tuple[int, ...] | None:
    found = content.get("present_labels")
    if found is None:
        return None
    classes = _count(_get(content, "counts", dict), "classes")
    listed = _all_are(found, int) and found == sorted(set(found)) and all(0 <= label < classes for label in found)
    _check(listed, f"present_labels is {found!r:.80}; expected labels below {classes}, in order")
    return tuple(found)


def _stored_file(file: str, entry: Any) -> StoredFile:
    dtypes = dtypes_of(file)
    if dtypes is None:
        raise ValueError(f"names a file {file!r:.120}, which stores do not have")
    _check(isinstance(entry, dict) and entry.get("dtype") in dtypes, f"{file} is not of type {' or '.join(dtypes)}")
    shape, hashes = _get(entry, "shape", list), _get(entry, "sha256", list)
    size, block = _whole(entry.get("bytes"), f"bytes of {file}"), _whole(entry.get("block_bytes"), "block_bytes")
    _check(4096 <= block <= 1 << 30, f"{file} has blocks of {block} bytes")
    _check(
        _all_are(hashes, str) and all(SHA256.fullmatch(value) for value in hashes),
        f"a checksum of {file} is not a SHA-256",
    )
    _check(
        len(hashes) == -(-size // block), f"{file} has {len(hashes)} checksums for {size} bytes in blocks of {block}"
    )
    lengths = tuple(_whole(length, f"shape of {file}") for length in shape)
    return StoredFile(entry["dtype"], lengths, size, block, tuple(hashes))


def _check_counts(manifest: Manifest) -> None:
    """Check that counts, names and degrees agree."""
    counts, files = manifest.counts, manifest.files
    nodes, entries, edges, classes = (counts[key] for key in ("nodes", "entries", "edges", "classes"))
    narrow = INDICES in files and files[INDICES].dtype == "<u4"
    _check(1 <= nodes <= (MAX_NODES if narrow else 2**48), f"{nodes} nodes")
    _check(entries == nodes + 2 * edges, f"{entries} entries for {nodes} nodes and {edges} edges")
    _check(counts["features"] == 0 or DENSE in files or SPARSE[0] in files, f"{counts['features']} features in no file")
    _check(classes == 0 or LABELS in files, f"{classes} classes, and no {LABELS}")
    names = manifest.feature_names
    fits = names is None or len(set(names)) == len(names) == counts["features"]
    _check(fits, "feature_names are not one for each feature, all different")
    _check(manifest.label_names is None or len(manifest.label_names) >= classes, f"too few label_names for {classes}")
    if manifest.degrees is not None:
        total, least = manifest.degrees["total"], manifest.degrees["least"]
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


def _count(counts: Mapping[str, Any], key: str) -> int:
    return _whole(counts.get(key), key, 2**63 if key == "classes" else 2**62)  # labels are any int64


def _whole(value: Any, what: str, most: int = 2**62) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{what} is {value!r:.80}; expected a whole number")
    return value


def _get(content: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
    value = content.get(key)
    if not isinstance(value, kind):
        raise ValueError(f"{key} is {value!r:.80}; expected a value of type {kind.__name__}")
    return value


def _all_are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def is_store(path: atomic.AnyPath) -> bool:
    """Whether a folder is a store, valid or damaged, and holds nothing else."""
    folder = Path(path)
    try:
        written = json.loads((folder / MANIFEST).read_bytes())["format"] == FORMAT
        splits = folder / "splits"
        entries = [*folder.iterdir(), *(splits.iterdir() if splits.is_dir() else [])]
        names = [entry.relative_to(folder).as_posix() for entry in entries]
        return written and all(dtypes_of(name) or name in (MANIFEST, "splits") for name in names)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
