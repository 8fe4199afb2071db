"""A folder that long work fills bit by bit: whose it is stands in it, so that the same command can go on.

``arguments.json`` comes first and says what decides the results. One process at a time works in the folder.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from nodewise.atomic import explained, new_file
from nodewise.errors import InputError, StoreError

ARGUMENTS, LOCK, FORMAT_VERSION = "arguments.json", ".lock", 1
REFUSED = "choose another folder, or delete this one to begin anew"


@contextlib.contextmanager
def held_folder(path: Path, work: str, identity: Mapping[str, Any]) -> Iterator[None]:
    """Make the folder of some ``work`` ("comparison"), or check that the one there is of the same; keep others out."""
    arguments, form = path / ARGUMENTS, f"nodewise-{work}-arguments"
    if not arguments.is_file():
        _check_empty(path, work)
    with _locked(path, work):
        if arguments.is_file():
            _check_same(arguments, work, form, identity)
        else:
            write_json(arguments, {"format": form, "format_version": FORMAT_VERSION, "identity": identity})
        for partial in path.glob("**/.*.partial-*"):  # left by a process that was killed as it wrote
            with contextlib.suppress(OSError):
                partial.unlink()
        yield


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What is not the same in two mappings, in words."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return ", ".join(f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here" for name in names)


@contextlib.contextmanager
def _locked(path: Path, work: str) -> Iterator[None]:
    """A folder for this process alone, until it ends, however it ends. The lock is on a file that nobody replaces."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / LOCK).open("wb")
    with stream:
        _lock(stream, path, work)
        yield


def _lock(stream: BinaryIO, path: Path, work: str) -> None:
    with contextlib.suppress(ImportError):  # no such locks on Windows
        import fcntl

        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{path}: another {work} is under way in this folder; wait until it ends, or choose another folder"
            ) from None


def _check_same(arguments: Path, work: str, form: str, identity: Mapping[str, Any]) -> None:
    try:
        content = json.loads(arguments.read_bytes())
        if (content["format"], content["format_version"]) != (form, FORMAT_VERSION):
            raise ValueError(f"expected format {form}, version {FORMAT_VERSION}")
        before = dict(content["identity"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise StoreError(f"{arguments}: cannot be read as a {work}'s ({error}); {REFUSED}") from error
    if before != identity:
        raise StoreError(f"{arguments.parent}: holds another {work}: {difference(before, identity)}; {REFUSED}")


def _check_empty(path: Path, work: str) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path}: this is a file, and a folder is to be written; choose another place")
    with explained(path):
        entries = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    ours = (ARGUMENTS, LOCK)  # the first where another process has just begun
    others = sorted(name for name in entries if name not in ours and ".partial-" not in name)
    if others:
        raise StoreError(f"{path}: holds {others[0]!r} and is no {work} of nodewise; choose another folder")


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)
