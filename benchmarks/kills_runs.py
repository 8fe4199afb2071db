"""A case of kills.py: a folder of its own, commands run in forked children, and what has to hold after them."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kills_jobs import Items, Job, command_line, listing

PATIENCE = 5.0  # seconds in which the processes of a killed command have to end
TOO_LONG = 120.0
ROOM = 1 << 30  # bytes, more than any job needs


class Run:
    """A command in a child process, which is the leader of a session of its own."""

    def __init__(self, call: Callable[[], object], place: Path, tmp: Path, log: Path) -> None:
        self.started, self.code, self._log = time.monotonic(), None, log
        self.pid = os.fork()
        if self.pid == 0:
            _as_a_program(call, place, tmp, log)
        self._handle = os.pidfd_open(self.pid)

    def ended_within(self, seconds: float, look: Callable[[], object] | None = None) -> int | None:
        """The exit code, or None if it still runs after so many seconds; ``look`` is called every millisecond."""
        waiting, until = select.poll(), time.monotonic() + seconds
        waiting.register(self._handle, select.POLLIN)
        while self.code is None and not waiting.poll(1 if look else max(0.0, 1000 * (until - time.monotonic()))):
            if look is not None:
                look()
            if time.monotonic() >= until:
                return None
        if self.code is None:
            self.seconds = time.monotonic() - self.started
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._handle)
        return self.code

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.ended_within(TOO_LONG)

    def end(self) -> int:
        """Wait for its end; -9 if it takes too long."""
        if self.ended_within(TOO_LONG) is None:
            self.kill()
        return self.code

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace").strip()[-600:]

    def others(self) -> list[int]:
        """The processes that it started and that still run."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                state, _, _, session = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.pid and state != "Z":
                    found.append(int(entry))
        return found


def _as_a_program(call: Callable[[], object], place: Path, tmp: Path, log: Path) -> None:
    """The rest of a child: as if Python had been started in ``place`` to make this call."""
    code = 1
    try:
        os.setsid()
        os.chdir(place)
        os.environ["TMPDIR"] = tempfile.tempdir = str(tmp)  # or Python tries by a file of its own if it can write there
        for number, file in enumerate((os.devnull, os.devnull, log)):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.modules["__main__"] = types.ModuleType("__main__")  # workers import that of their parent
        call()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


@dataclass(frozen=True)
class Known:
    """What a job writes uninterrupted (``new``), what with its other options (``old``), its time, operations, bytes."""

    new: Items
    old: Items
    names: list[str]  # of all files, with other options too
    place: Path  # where the old output is
    seconds: float
    operations: int
    bytes: int

    @classmethod
    def of(cls, job: Job, folder: Path, sizes: bool) -> Known:
        new, old = (Case(folder / f"{job.name}, {which}", job, folder / "inputs") for which in ("new", "old"))
        old.must(old.words(other=True))
        new.must(new.words())  # the first of its kind compiles
        expected = job.items(new.place / job.output)
        operations = new.folder / "operations"
        shutil.rmtree(new.place)
        new.place.mkdir()
        run = new.must(new.words(), count=operations)
        if job.items(new.place / job.output) != expected:
            raise SystemExit(f"{job.name}: two runs wrote different outputs")
        if left := [name for name in new.names() if "/." in f"/{name}"] + list(listing(new.tmp)):
            raise SystemExit(f"{job.name}: leaves {left[:5]} behind without any disturbance")
        size = 0
        if sizes:
            large = Case(folder / f"{job.name}, size", job, folder / "inputs")
            with mounted(large.place):
                large.must(large.words(), look=large.used)
                size = large.most
        return cls(expected, job.items(old.place / job.output), sorted({*new.names(), *old.names()}), old.place,
                   run.seconds, int(operations.read_text()), size)  # fmt: skip


class Case:
    """A job in a folder of its own: ``place`` for its output, beside it a TMPDIR and logs."""

    def __init__(self, folder: Path, job: Job, inputs: Path) -> None:
        self.folder, self.job, self.inputs = folder, job, inputs
        self.place, self.tmp, self.log = (folder / name for name in ("place", "tmp", "log"))
        for path in (self.place, self.tmp, self.log):
            path.mkdir(parents=True)
        self.runs: list[Run] = []
        self.counts: dict[str, int] = {}
        self.wrong: list[tuple[str, str]] = []
        self.most = 0

    def words(self, other: bool = False, overwrite: bool = False, more: str = "") -> list[str]:
        flag = "--overwrite " if overwrite and not self.job.continues else ""
        return self.job.line(self.inputs, other=other, more=flag + more)

    def begin(self, known: Known, old: bool) -> list[str]:
        """Put the old output in place, if asked; the words of the command."""
        if old:
            shutil.copytree(known.place, self.place, dirs_exist_ok=True, symlinks=True)
            self.count("over an old output")
        return self.words(overwrite=old)

    def run(self, words: list[str], die_at: int | None = None, count: Path | None = None) -> Run:
        log = self.log / str(len(self.runs))
        call = lambda: command_line(self.job, words, self.place, die_at, count)  # noqa: E731
        self.runs.append(Run(call, self.place, self.tmp, log))
        return self.runs[-1]

    def must(self, words: list[str], count: Path | None = None, look: Callable[[], object] | None = None) -> Run:
        run = self.run(words, count=count)
        if run.ended_within(300, look) != 0:
            raise SystemExit(f"{self.job.name}: {words} failed without any disturbance: {run.code} {run.said}")
        return run

    def names(self) -> list[str]:
        return list(listing(self.place))

    def snapshot(self) -> list[tuple[str, int, int]]:
        """All files, in a form that shows whether one was replaced or written to."""
        found = []
        for name in self.names():
            state = os.lstat(self.place / name)
            found.append((name, state.st_ino, state.st_mtime_ns))
        return found

    def used(self) -> int:
        """Bytes in use on the file system of the output."""
        state = os.statvfs(self.place)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        self.most = max(self.most, used)
        return used

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def violation(self, kind: str, detail: str) -> None:
        self.wrong.append((kind, detail.replace(str(self.folder), "…")[-500:]))

    def state(self, known: Known, old: bool) -> str:
        """Which output is there: "absent", "new", "old", "begun" (a part), or what is wrong with it."""
        path = self.place / self.job.output
        if not os.path.lexists(path):
            return "absent"
        try:
            items = self.job.items(path)
        except Exception as error:
            return f"unreadable: {type(error).__name__}: {error}"
        pool = [("new", known.new), ("old", known.old)][: 1 + old]
        for name, expected in pool:
            if items == expected:
                return name
        if self.job.in_parts:
            if any(items.items() <= expected.items() for _, expected in pool):
                return "begun"
            if self.job.continues and all(items[n] in [expected.get(n) for _, expected in pool] for n in items):
                return "begun"
        expected = known.new
        return f"mixture: {[name for name in items if items[name] != expected.get(name)]} are not of the new output"

    def check_state(self, known: Known, old: bool) -> None:
        found = self.state(known, old)
        self.count(found.partition(":")[0] + " output")
        if found == "absent" and old:
            self.violation("lost", f"the old output is gone; there are {self.names()}")
        elif found not in ("absent", "new", "old", "begun"):
            self.violation("half-written", found)

    def check_processes(self, run: Run) -> None:
        """No process of a killed command may run for long, nor leave shared memory behind."""
        until = time.monotonic() + PATIENCE
        while (left := run.others()) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in left:
            command = Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode()[-200:]
            self.violation("processes", f"runs {PATIENCE:g} s after its parent: {command}")
            os.kill(pid, signal.SIGKILL)
        shared = [name for name in os.listdir("/dev/shm") if f"_{run.pid}_" in name or f"-{run.pid}-" in name]
        if shared:
            self.violation("shared memory", f"left in /dev/shm: {shared}")
            for name in shared:
                shutil.rmtree(f"/dev/shm/{name}", ignore_errors=True)

    def run_again(self, known: Known, words: list[str], resume: bool) -> None:
        """The same command, and with the option that its message asks for; it must succeed."""
        if resume and self.job.resumes and "--overwrite" in words:
            words = [*words, "--resume"]
        run = self.run(words)
        if run.end() == 2:
            options = [option for option in ("--resume", "--overwrite") if option in run.said and option not in words]
            if options:
                run = self.run([*words, options[0 if resume else -1]])
                run.end()
        if run.code != 0:
            self.violation("blocked", f"exit code {run.code}: {run.said}")

    def check_end(self, known: Known, other: bool = False) -> None:
        """The output is that of an uninterrupted run, and nothing else is there."""
        for run in self.runs:
            self.check_processes(run)
        if not any(kind == "blocked" for kind, _ in self.wrong):
            found = self.state(known, other)
            allowed = ("new", "old", "begun")[: 1 + other * (1 + self.job.continues)]
            if found not in allowed:
                self.violation("different", found)
            if more := sorted({*self.names()} - {*known.names}):
                self.violation("left beside", f"{more}")
        if left := list(listing(self.tmp)):
            self.violation("left in TMPDIR", f"{left[:5]}")


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[Callable[[int], None]]:
    """A file system in memory at ``place``; yields a function that changes its size."""

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)

    mount(f"size={ROOM}")
    try:
        yield lambda size: mount(f"remount,size={max(4096, size)}")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
