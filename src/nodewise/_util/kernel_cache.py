"""Where numba keeps compiled kernels, if none of the places that it would choose can be written.

Without one it refuses to load any kernel. This file loads nothing but ``os``: it runs whenever nodewise is imported.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "NUMBA_CACHE_DIR"


def settle(package: str) -> None:
    """Point numba to a folder of the user's own among temporary files, unless it has a place; before numba loads."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(cache) and _writable(os.path.join(cache, "numba")):  # not, where there is no home folder
        return
    if _writable(os.environ.get(VARIABLE)):
        return
    folders = [folder for folder, _, _ in os.walk(package) if os.path.basename(folder) != "__pycache__"]
    if all(_writable(os.path.join(folder, "__pycache__")) for folder in folders):
        return
    folder = _own_folder()
    if folder is None:
        return
    os.environ[VARIABLE] = folder
    if "numba" in sys.modules:  # it has read the environment already
        sys.modules["numba"].config.CACHE_DIR = folder


def _writable(folder: str | None) -> bool:
    """Whether a folder can be written to or, where it does not exist, made."""
    while folder and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder is not None and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _own_folder() -> str | None:
    """A temporary folder that only this user can write to: a cache of compiled code that others can write runs theirs.

    The same in each run, or a new one where another user has its name; None where there is no place for it.
    """
    import tempfile

    try:
        folder = os.path.join(tempfile.gettempdir(), f"nodewise-kernels-{getattr(os, 'getuid', lambda: 0)()}")
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            found = os.lstat(folder)
            if found.st_mode & 0o170077 != 0o040000 or found.st_uid != os.getuid():
                import atexit
                import shutil

                folder = tempfile.mkdtemp(prefix="nodewise-kernels-")
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    except OSError:
        return None
