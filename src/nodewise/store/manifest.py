"""The manifest: what a store holds, and the suspicion with which it is read.

Anything can stand in a JSON file. A manifest that passes names none but the files below, with types, shapes and sizes
that fit each other and the counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from nodewise._util import atomic
from nodewise._util.errors import StoreError
from nodewise._util.os_errors import reading
from nodewise._version import __version__
from nodewise.graph.adjacency import MAX_NODES

FORMAT = "nodewise-store"
FORMAT_VERSION = 2  # 2 added int8 features, 64-bit indices and the degrees' sum and least
MAX_HEADER = 1 << 16  # bytes before the data of an .npy file

MANIFEST = "manifest.json"
INDPTR, INDICES, WEIGHTS = "indptr.npy", "indices.npy", "weights.npy"
DENSE, STEPS, LABELS, NAMES = "features.npy", "feature_steps.npy", "labels.npy", "names.parquet"
SPARSE = ("features_data.npy", "features_indices.npy", "features_indptr.npy")
# Every file that a store can hold, splits apart, and the types that its values can have.
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
SPLIT_DTYPES = ("<i8",)
SHA256 = re.compile(r"[0-9a-f]{64}")

REPAIR = "the store is damaged: import it again or restore it from a copy"
Kind = TypeVar("Kind")


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """What the manifest says of one file."""

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
    degrees: Mapping[str, float] | None = None  # their sum and the least one; None in format 1
    present_labels: tuple[int, ...] | None = None  # those that occur, in order; None where that is not known
    provenance: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    written_by: str = __version__

    @property
    def bytes(self) -> int:
        """The size of all files, the manifest apart."""
        return sum(file.bytes for file in self.files.values())


def dtypes_of(file: str) -> tuple[str, ...] | None:
    """The types that the values of ``file`` can have; None where a store has no such file."""
    return SPLIT_DTYPES if SPLIT_FILE.fullmatch(file) else DTYPES.get(file)


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
    """What a store says of itself: counts, flags, files, provenance; checked."""
    folder = Path(path)
    path = folder / MANIFEST
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder; expected a store, as nodewise import writes it")
    if not path.is_file():
        raise StoreError(f"{folder}: has no {MANIFEST}, so it is not a store; expected one that nodewise import wrote")
    content = _parsed(path)
    _check_format(path, content)
    if content.get("checksum") != _checksum(content):
        raise _damaged(path, "its content does not match its checksum")
    try:
        manifest = _from_json(content)
        _check_files(manifest)
    except _MisfitError as error:
        raise _damaged(path, str(error)) from error
    return manifest


class _MisfitError(ValueError):
    """A value in the manifest that cannot be; the reader adds where it stands."""


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path}: {what}; {REPAIR}")


def _parsed(path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    with reading(path, "JSON", (ValueError, RecursionError), StoreError, REPAIR):
        content = json.loads(path.read_bytes().decode(), parse_constant=refuse)
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
    label_names = content.get("label_names")
    if label_names is not None and not _all_are(label_names, str):
        raise _MisfitError("label_names is not a list of strings")
    return Manifest(
        counts={key: _whole(counts.get(key), key) for key in ("nodes", "entries", "edges", "features", "classes")},
        flags={key: _get(flags, key, bool) for key in ("weighted", "multilabel", "sparse_features")},
        files={file: _stored_file(file, entry) for file, entry in files.items()},
        name=_get(content, "name", str),
        label_names=None if label_names is None else tuple(label_names),
        degrees=_degrees(content),
        present_labels=_present_labels(content),
        provenance=_get(content, "provenance", dict),
        written_by=_get(content, "written_by", str),
    )


def _degrees(content: Mapping[str, Any]) -> dict[str, float] | None:
    found = content.get("degrees")
    if found is None:
        return None
    values: list[Any] = [found.get(key) for key in ("total", "least")] if isinstance(found, dict) else []
    numbers = [float(value) for value in values if type(value) in (int, float) and 0 < value < math.inf]
    if len(numbers) != 2:
        raise _MisfitError(f"degrees is {found!r:.80}; expected a total and a least above 0")
    return {"total": numbers[0], "least": numbers[1]}


def _present_labels(content: Mapping[str, Any]) -> tuple[int, ...] | None:
    found = content.get("present_labels")
    if found is None:
        return None
    classes = _whole(_get(content, "counts", dict).get("classes"), "classes")
    if not _all_are(found, int) or found != sorted(set(found)) or any(not 0 <= label < classes for label in found):
        raise _MisfitError(f"present_labels is {found!r:.80}; expected labels below {classes}, in order")
    return tuple(found)


def _stored_file(file: str, entry: Any) -> StoredFile:
    dtypes = dtypes_of(file)
    if dtypes is None:
        raise _MisfitError(f"names a file {file!r:.120}, which stores do not have")
    if not isinstance(entry, dict) or entry.get("dtype") not in dtypes:
        raise _MisfitError(f"{file} is not of type {' or '.join(dtypes)}")
    shape, hashes = _get(entry, "shape", list), _get(entry, "sha256", list)
    size, block = _whole(entry.get("bytes"), f"bytes of {file}"), _whole(entry.get("block_bytes"), "block_bytes")
    if not 4096 <= block <= 1 << 30:
        raise _MisfitError(f"{file} has blocks of {block} bytes")
    if not _all_are(hashes, str) or not all(SHA256.fullmatch(value) for value in hashes):
        raise _MisfitError(f"a checksum of {file} is not a SHA-256")
    if len(hashes) != -(-size // block):
        raise _MisfitError(f"{file} has {len(hashes)} checksums for {size} bytes in blocks of {block}")
    lengths = tuple(_whole(length, f"shape of {file}") for length in shape)
    return StoredFile(entry["dtype"], lengths, size, block, tuple(hashes))


def _check_files(manifest: Manifest) -> None:
    """That all files are there which must be, and that shapes, sizes, counts and flags say the same."""
    counts, files = manifest.counts, manifest.files
    narrow = INDICES in files and files[INDICES].dtype == "<u4"
    if not 1 <= counts["nodes"] <= (MAX_NODES if narrow else 2**48):
        raise _MisfitError(f"{counts['nodes']} nodes")
    if counts["entries"] != counts["nodes"] + 2 * counts["edges"]:
        raise _MisfitError(f"{counts['entries']} entries for {counts['nodes']} nodes and {counts['edges']} edges")
    _check_presence(manifest)
    expected = _expected_shapes(manifest)
    for name, file in files.items():
        wanted = expected.get(name, (None,))
        if len(file.shape) != len(wanted) or any(w not in (None, s) for w, s in zip(wanted, file.shape, strict=True)):
            raise _MisfitError(f"{name} has shape {file.shape}, which does not fit the counts")
        if name != NAMES:
            data = math.prod(file.shape) * np.dtype(file.dtype).itemsize
            if not data < file.bytes <= data + MAX_HEADER:
                raise _MisfitError(f"{name} has {file.bytes} bytes, which do not fit shape {file.shape}")


def _check_presence(manifest: Manifest) -> None:
    files, flags = manifest.files, manifest.flags
    for required in (INDPTR, INDICES):
        if required not in files:
            raise _MisfitError(f"does not list {required}")
    if flags["weighted"] != (WEIGHTS in files):
        raise _MisfitError(f"weighted and {WEIGHTS} do not agree")
    if any((part in files) != flags["sparse_features"] for part in SPARSE):
        raise _MisfitError("sparse_features and the files listed do not agree")
    if flags["sparse_features"] and DENSE in files:
        raise _MisfitError("lists both dense and sparse features")
    if (STEPS in files) != (DENSE in files and files[DENSE].dtype == "|i1"):
        raise _MisfitError(f"{STEPS} belongs to features of int8, and to no others")
    if flags["multilabel"] and LABELS not in files:
        raise _MisfitError("multilabel, and no labels.npy")


def _expected_shapes(manifest: Manifest) -> dict[str, tuple[int | None, ...]]:
    """The shape of each file, None where a length is free."""
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


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise _MisfitError(f"{what} is {value!r:.80}; expected a whole number")
    return value


def _get(content: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
    value = content.get(key)
    if not isinstance(value, kind):
        raise _MisfitError(f"{key} is {value!r:.80}; expected a value of type {kind.__name__}")
    return value


def _all_are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def is_store(path: atomic.AnyPath) -> bool:
    """Whether a folder is a store, sound or not, and nothing else."""
    folder = Path(path)
    try:
        written = json.loads((folder / MANIFEST).read_bytes())["format"] == FORMAT
        splits = folder / "splits"
        entries = [*folder.iterdir(), *(splits.iterdir() if splits.is_dir() else [])]
        names = [entry.relative_to(folder).as_posix() for entry in entries]
        return written and all(dtypes_of(name) or name in (MANIFEST, "splits") for name in names)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
