"""The cache folder, for what nodewise can fetch or make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The cache: ``$NODEWISE_CACHE``, ``$XDG_CACHE_HOME/nodewise`` or ``~/.cache/nodewise``."""
    if own := os.environ.get("NODEWISE_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "nodewise"
    return Path.home() / ".cache" / "nodewise"
