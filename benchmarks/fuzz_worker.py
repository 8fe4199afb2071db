"""The worker of fuzz.py: runs damaged cases one after another in a process that may die, and says what came of each."""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import mmap
import os
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: F401  once, before the workers are forked

from fuzz_damage import damaged
from fuzz_readers import Case, Reader, make_fixed
from nodewise._util import memory
from nodewise._util.errors import NodewiseError

HANG_SECONDS = 10.0  # of a processor; other work on the machine must not count
WAIT_TIMES = 6  # or so many times as long on the clock
BASE_BYTES, TIMES = 256 << 20, 100  # what a case may add to the process: this, and so much for each byte of its files
ROOM = 512 << 20  # what is left of the memory that readers may use: an import needs some 300 MB to sort
MOST_DATA = 4 << 30  # of a worker; an allocation beyond fails
TIRED = 1 << 30  # a worker that has grown by so much is replaced
NOTE = struct.Struct("<qdd")
Files = dict[str, bytes]


class Samples:
    """The samples of a reader in memory: each a file or a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.units: dict[str, Files] = {}
        self.folders: dict[str, list[str]] = {}
        for unit in sorted(folder.iterdir()):
            inside = sorted(unit.rglob("*")) if unit.is_dir() else [unit]
            files = [path for path in inside if path.is_file()]
            self.units[unit.name] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
            self.folders[unit.name] = [str(path.relative_to(folder)) for path in inside if path.is_dir()]

    def write(self, unit: str, files: Files, place: Path) -> None:
        for name in self.folders[unit]:
            (place / name).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)

    def case(self, reader: Reader, seed: int, number: int) -> tuple[str, Files, bool]:
        """The sample that a case damages, its files, and whether their checksums are to be made to fit."""
        rng = Random(f"{seed}/{reader.name}/{number}")
        unit = rng.choice(list(self.units))
        files = dict(self.units[unit])
        for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 2)) if len(files) > 1 else 1):
            name = rng.choice(list(files))
            fate = rng.random()
            if fate < 0.01 and len(files) > 1 and not reader.keeps_all:
                del files[name]
            elif fate < 0.02:
                files[name] = files[rng.choice(list(files))]
            else:
                files[name] = damaged(name, files[name], rng, files[rng.choice(list(files))])
        return unit, files, reader.seal is not None and rng.random() < 0.6


def run_case(
    reader: Reader, samples: Samples, fixed: Path, place: Path, seed: int, number: int, loud: bool = False
) -> dict[str, Any]:
    """Write the files of a case, use them, and say what came of it. Case -1 - i is sample i as it is."""
    if number < 0:
        unit = list(samples.units)[-1 - number]
        files, resealed = samples.units[unit], False
    else:
        unit, files, resealed = samples.case(reader, seed, number)
    samples.write(unit, files, place)
    if resealed and reader.seal is not None:
        with suppress(Exception):  # what was damaged may be what the checksums are in
            reader.seal(place / unit)
    allowed = BASE_BYTES + TIMES * sum(map(len, files.values()))
    unraised: list[BaseException] = []
    sys.unraisablehook = threading.excepthook = lambda args: unraised.append(args.exc_value)
    before = _reset_peak()
    try:
        reader.use(Case(fixed, place / unit, resealed))
        outcome = {"kind": "accepted"}
    except NodewiseError as error:
        outcome = {"kind": "refused"} if number >= 0 else {"kind": "refused", "why": str(error)}
        if loud:
            print(f"{type(error).__name__}: {error}")
    except BaseException as error:
        outcome = {"kind": "foreign", "where": describe(error)}
        if loud:
            traceback.print_exc()
    for error in unraised if outcome["kind"] == "accepted" else ():  # else it was only the first sign of a refusal
        outcome = {"kind": "foreign", "where": f"ignored, {describe(error)}"}
    grown = _peak() - before
    if grown > allowed and outcome["kind"] in ("accepted", "refused"):
        outcome = {"kind": "memory", "where": f"after it was {outcome['kind']}"}
    return {**outcome, "grown": grown}


def describe(error: BaseException) -> str:
    """The type of an error, the last line of nodewise that it passed through, and the line that raised it."""
    stack = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in stack if "/nodewise/" in frame.filename]
    lines = dict.fromkeys(_line(frame.filename, frame.lineno, frame.name) for frame in (*own[-1:], *stack[-1:]))
    return f"{type(error).__name__} in {' in '.join(lines)}"


def _line(file: str, number: int | None, function: str) -> str:
    parts = Path(file).parts
    home = next(
        (i + 1 for i, part in enumerate(parts) if part in ("src", "site-packages", "benchmarks")), len(parts) - 1
    )
    return f"{'/'.join(parts[home:])}:{number} ({function})"


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(found[1]) << 10 if found else 0


# ---------------------------------------------------------------------- processes


def limit_memory() -> None:
    """Let readers use little more than the process has, as on a small machine."""
    memory.available_memory = lambda: 4 * (memory.resident_memory() + ROOM)


def forked(work: Callable[[], Any]) -> int:
    """A child that does the work and ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def make_samples(readers: list[Reader], fixed: Path, folder: Path) -> None:
    """What readers share is made here: it loads libraries and kernels, once for all processes that are forked later."""
    logging.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_fixed(fixed)

    def make(reader: Reader) -> None:
        warnings.simplefilter("ignore")
        reader.prepare()
        (folder / reader.name).mkdir()
        reader.make(fixed, folder / reader.name)

    for reader in readers:
        if os.waitpid(forked(lambda reader=reader: make(reader)), 0)[1] != 0:
            raise SystemExit(f"{reader.name}: its samples could not be made")


class Worker:
    """A process that runs the cases of a range one by one. It notes the case that it is at in shared memory."""

    def __init__(
        self, reader: Reader, samples: Samples, fixed: Path, scratch: Path, seed: int, cases: range, lane: int
    ) -> None:
        self.reader, self.samples, self.fixed, self.seed, self.cases = reader, samples, fixed, seed, cases
        self.lane = lane
        self.scratch = Path(tempfile.mkdtemp(dir=scratch))
        self.note = mmap.mmap(-1, NOTE.size)
        self.note[:] = NOTE.pack(cases.start, time.monotonic() + 60, 60.0)  # the first case may load libraries
        self.pipe, end = os.pipe()
        self.process = forked(lambda: self._run(end))
        os.close(end)
        self.buffer = b""

    def _run(self, pipe: int) -> None:
        _quieten(self.scratch)
        processors = sorted(os.sched_getaffinity(0))  # on one of them, or small cases mostly wait for other threads
        os.sched_setaffinity(0, {processors[self.lane % len(processors)]})
        self.reader.prepare()
        limit_memory()
        for i in range(len(self.samples.units)):
            outcome = self._case(-1 - i)
            self.note[:] = NOTE.pack(self.cases.start, time.monotonic() + 60, 60.0)
            if outcome["kind"] != "accepted":
                outcome |= {"kind": "sample", "where": f"{list(self.samples.units)[i]}: {outcome}"}
                os.write(pipe, json.dumps({"case": -1, **outcome}).encode() + b"\n")
                return
        start = _reset_peak()
        data = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
        limit = MOST_DATA + (int(data[1]) << 10 if data else 0)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        for number in self.cases:
            self.note[:] = NOTE.pack(number, time.monotonic(), time.process_time())
            outcome = self._case(number)
            os.write(pipe, json.dumps({"case": number, **outcome}).encode() + b"\n")
            if outcome["grown"] > 1 << 26:
                gc.collect()
                memory.trim_memory()
            if memory.resident_memory() - start > TIRED:
                break
        self.note[:] = NOTE.pack(-1, time.monotonic(), time.process_time())

    def _case(self, number: int) -> dict[str, Any]:
        place = self.scratch / f"case{number}"
        place.mkdir()
        outcome = run_case(self.reader, self.samples, self.fixed, place, self.seed, number)
        shutil.rmtree(place, ignore_errors=True)
        return outcome

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """What has come since the last call. The end of the worker, if it came before its last case, is an outcome."""
        ready, _, _ = select.select([self.pipe], [], [], 0.05)
        data = os.read(self.pipe, 1 << 16) if ready else b""
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        yield from map(json.loads, lines)
        number, since, used = NOTE.unpack(self.note[:])
        if ready and not data:
            status = os.waitpid(self.process, 0)[1]
            self.process = 0
            if number >= 0:
                killer = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
                yield {"case": number, "kind": "crash", "where": f"{killer} in {self._fault()}", "grown": 0}
        elif self._used() - used > HANG_SECONDS or time.monotonic() - since > WAIT_TIMES * HANG_SECONDS:
            faulty = self.scratch / "fault"
            faulty.write_text("")
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGUSR1)  # writes down where it is
            time.sleep(0.3)
            if NOTE.unpack(self.note[:])[0] == number:
                self.stop()
                yield {"case": number, "kind": "hang", "where": self._fault(), "grown": 0}

    def _used(self) -> float:
        """Seconds of processor time."""
        with suppress(OSError, IndexError):
            counts = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
            return (int(counts[11]) + int(counts[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def _fault(self) -> str:
        """The innermost lines of the last stack that faulthandler wrote: any, and of nodewise."""
        with suppress(OSError):
            text = (self.scratch / "fault").read_text("utf-8", "replace")
            stacks = text.split("Current thread ")[-1]
            lines = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stacks)
            own = [line for line in lines if "/nodewise/" in line[0]]
            shown = dict.fromkeys(_line(f, int(n), name) for f, n, name in (*own[:1], *lines[:1]))
            return " in ".join(shown) or "no stack"
        return "no stack"

    def stop(self) -> None:
        if self.process:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            self.process = 0

    def close(self) -> None:
        self.stop()
        os.close(self.pipe)
        shutil.rmtree(self.scratch, ignore_errors=True)


def _quieten(scratch: Path) -> None:
    """No output but faults, which go to a file."""
    logging.disable()
    warnings.simplefilter("ignore")
    fault = (scratch / "fault").open("a")
    faulthandler.enable(fault)
    faulthandler.register(signal.SIGUSR1, fault)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
