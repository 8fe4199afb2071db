"""One timed run: open, diffuse, train, test, and what that took.

papers100m.py makes each in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import contextlib
import cProfile
import os
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodewise as nw
from measuring import Watch, status_bytes
from nodewise.diffusion.params import DiffusionConfig
from nodewise.graph.splits import PARTS, Split
from nodewise.learn.evaluate import Evaluation, evaluate

# The paper's omega, rho, tau and epsilon, in the convention of its program; its learning rate, dropout and weight
# decay. Width, patience and normalisation are the library's own.
PARAMS: dict[str, Any] = {
    "omega": 7.4,
    "rho": 1.3,
    "tau": 0.6,
    "epsilon": 0.01,
    "diffusion": DiffusionConfig(convention="reference"),
    "engine": "walks",
    "lr": 0.01,
    "dropout": 0.1,
    "layers": 2,
    "feature_norm": "none",
    "weight_decay": 5e-4,
    "epochs": 1000,
    "patience": 60,
    "teach": False,
}
PROFILE_LINES = 25


def bytes_read() -> int | None:
    """Bytes that this process has had read from a disk; None where the kernel does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def drop_page_cache(store: Path) -> str:
    """Have the kernel forget what it has read; how that was done."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        for path in filter(Path.is_file, store.rglob("*")):
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
        return "posix_fadvise on the store's files"
    return "drop_caches"


def run(store: Path, **changes: Any) -> tuple[float, Evaluation]:
    """Seconds to open, and the rest; ``changes``: of the parameters."""
    started = time.perf_counter()
    graph = nw.open_store(store)
    opened = time.perf_counter() - started
    split = Split(*(graph.splits[part] for part in PARTS))
    return opened, evaluate(nw.NIGCN(**{**PARAMS, **changes}), graph, [split])


def timed_run(
    store: Path, small: Path, cold: bool = False, profiled: bool = False, save: Path | None = None
) -> dict[str, Any]:
    """Seconds, score, memory and bytes read of one run.

    ``small``: a small store of the same kind, to compile the kernels on first. ``cold``: empty the page cache before;
    ``profiled``: say where the time goes; ``save``: keep the model here.
    """
    started = time.perf_counter()
    run(small, epochs=2)
    compiled = time.perf_counter() - started
    cache = drop_page_cache(store) if cold else "as it is"
    profile = cProfile.Profile() if profiled else None
    before = bytes_read()
    with Watch() as watch, profile or contextlib.nullcontext():
        opened, result = run(store)
    after = bytes_read()
    peak = status_bytes("VmHWM")
    if save:
        result.best.save(save)
    split = result.splits[0]
    seconds = {"open": opened, "diffuse": split.preparation_seconds, "train": split.train_seconds}
    return {
        "page_cache": cache,
        "compile_seconds": compiled,
        **{f"{step}_seconds": value for step, value in seconds.items()},
        "total_seconds": sum(seconds.values()),
        "epochs": split.epochs,
        "val_f1": split.val_f1,
        "test_f1": split.test_f1,
        "peak_resident_bytes": peak,
        "peak_anonymous_bytes": watch.peak,
        "disk_bytes": None if before is None or after is None else after - before,
        **({"profile": list(profile_lines(profile))} if profile else {}),
    }


def profile_lines(profile: cProfile.Profile) -> Iterator[dict[str, Any]]:
    """The library's functions by the time spent in them and below; what threads do is time of who waits for them."""
    package = str(Path(nw.__file__).parent)
    timed = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    ours = [(key, entry) for key, entry in timed if key[0].startswith(package)]
    for (file, _, function), (_, calls, own, cumulative, _) in sorted(ours, key=lambda item: -item[1][3])[
        :PROFILE_LINES
    ]:
        where = f"{Path(file).relative_to(package).with_suffix('')}.{function}"
        yield {"function": where, "calls": calls, "seconds": cumulative, "own_seconds": own}
