"""What kills, full disks and second processes do to the outputs of each command.

    python benchmarks/kills.py --kills 1000 --full 100 --pairs 10 -o docs/results/kills.json   # continues a run
    python benchmarks/kills.py import predict --kills 40                                      # some commands only
    python benchmarks/kills.py tune --kills 1 --case 17                                       # one case again

`--kills N`, `--full N`: cases over all commands; `--pairs N`: cases per command. Everything is drawn from --seed.

**Kills.** A command is killed (SIGKILL) at a random moment of its run, or as it begins a random one of its operations
on files; in a quarter of the cases the command that continues is killed, too. Then the output must be absent, complete,
or the one that was there before, and the same command, with --resume or --overwrite if its message says so, must give
what an uninterrupted run gives, with nothing left beside it, no process and no temporary file. **Full disks.** The same
on a tmpfs that is too small (needs root), where the command must exit with 2 and one message. **Pairs.** Two processes
write the same output at once.

One process loads the libraries and forks a child per run, which calls the command line's ``main``. Linux only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pkgutil
import random
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"  # threads would not survive a fork

from kills_jobs import COMMANDS, JOBS, Job, jobs_of, make_inputs  # noqa: E402
from kills_runs import Case, Known, Run, mounted  # noqa: E402

LANES = 2
CAUSE = re.compile(r"No space left|are free|disk is full|quota", re.IGNORECASE)
Record = dict[str, Any]


# ---------------------------------------------------------------------- one case of each kind


def kill_case(case: Case, known: Known, draw: random.Random) -> None:
    """Kill a command once or twice, and run it again."""
    old = draw.random() < 0.5
    words = case.begin(known, old)
    for _ in range(1 + (draw.random() < 0.25)):
        before = case.snapshot()
        by_time, share = draw.random() < 0.5, draw.random()
        run = case.run(words, die_at=None if by_time else 1 + int(share * known.operations))
        if run.ended_within(share * known.seconds if by_time else 120) is None:
            run.kill()
        case.count("kills")
        case.count("after" if run.code != -9 else "before" if case.snapshot() == before else "during")
        if run.code not in (-9, 0, 2):
            case.violation("crash", run.said)
        case.check_state(known, old)
        if draw.random() < 0.5:
            case.check_processes(run)
        if case.job.resumes and "--resume" not in words:
            words = [*words, "--resume"]
    case.run_again(known, words, resume=draw.random() < 0.7)
    case.check_end(known)


def full_case(case: Case, known: Known, draw: random.Random) -> None:
    """Run a command on a disk that is too small for it, then with more room."""
    old, share = draw.random() < 0.5, draw.random()
    with mounted(case.place) as resize:
        words = case.begin(known, old)
        resize(case.used() + int(0.95 * share * known.bytes))
        run = case.run(words)
        run.end()
        case.count("fitted" if run.code == 0 else "failed")
        if run.code != 0:
            _check_message(case, run)
            case.check_state(known, old)
        resize(1 << 30)
        case.run_again(known, words, resume=draw.random() < 0.7)
        case.check_end(known)


def _check_message(case: Case, run: Run) -> None:
    lines = run.said.splitlines()
    if run.code != 2:
        case.violation("exit code", f"{run.code}: {run.said}")
    elif len(lines) != 1:
        case.violation("message", f"{len(lines)} lines: {run.said}")
    elif case.job.output not in lines[0] or not CAUSE.search(lines[0]):
        case.violation("message", f"names no output or no cause: {lines[0]}")


def pair_case(case: Case, known: Known, draw: random.Random) -> None:
    """Two processes at once, with the same options or with others."""
    old, other = draw.random() < 0.5, draw.random() < 0.5
    words = case.begin(known, old)
    second = case.words(other=other, overwrite=old)
    runs = [case.run(words)]
    runs[0].ended_within(min(2.0, known.seconds) * draw.random())
    runs.append(case.run(second))
    for run in runs:
        run.end()
        if run.code == 2 and len(run.said.splitlines()) != 1:
            case.violation("message", run.said)
        elif run.code not in (0, 2):
            case.violation("crash", f"exit code {run.code}: {run.said}")
    case.count({0: "none succeeded", 1: "one succeeded"}.get(sum(run.code == 0 for run in runs), "both succeeded"))
    if not any(run.code == 0 for run in runs):
        case.violation("blocked", " | ".join(run.said for run in runs))
    case.check_end(known, other)


KINDS: dict[str, Callable[[Case, Known, random.Random], None]] = {
    "kills": kill_case, "full": full_case, "pairs": pair_case,
}  # fmt: skip


# ---------------------------------------------------------------------- a campaign


def in_lanes(work: Callable[[int], Record], count: int) -> Iterator[Record]:
    """The records of ``work(0)``, ``work(1)``, ... in this order, from processes that fork children of their own."""
    tasks, more = os.pipe()
    results, out = os.pipe()
    os.write(more, b"".join(number.to_bytes(4, "big") for number in range(count)))
    os.close(more)
    lanes = [os.fork() for _ in range(LANES) if os.getpid() == PARENT]
    if os.getpid() != PARENT:
        try:
            while number := os.read(tasks, 4):
                place = int.from_bytes(number, "big")
                os.write(out, json.dumps([place, work(place)]).encode() + b"\n")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(out)
    waiting: dict[int, Record] = {}
    following = 0
    with os.fdopen(results) as lines:
        for line in lines:
            place, record = json.loads(line)
            waiting[place] = record
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    for lane in lanes:
        os.waitpid(lane, 0)
    if following < count:
        raise SystemExit("a case failed to run; see above")


PARENT = os.getpid()


def planned(kind: str, options: argparse.Namespace, found: Record) -> list[tuple[Job, int]]:
    """The cases that are missing, the commands taking turns."""
    commands = options.commands or list(COMMANDS)
    if kind == "pairs" and not options.commands:
        commands = list(dict.fromkeys(job.command for job in JOBS))
    asked = getattr(options, kind)
    shares = [COMMANDS.get(command, 1) for command in commands]
    per_command = [asked if kind == "pairs" else math.ceil(asked * share / sum(shares)) for share in shares]
    cases = []
    for command, most in zip(commands, per_command, strict=True):
        first = found.get(kind, {}).get(command, {}).get("cases", 0)
        numbers = range(first, most) if options.case is None else [options.case] * (asked > 0)
        jobs = jobs_of(command, pairs=kind == "pairs")
        cases += [(jobs[number % len(jobs)], number) for number in numbers]
    return sorted(cases, key=lambda case: case[1])


def run_case(kind: str, job: Job, number: int, known: Known, folder: Path, seed: int) -> Record:
    case = Case(folder / f"{kind}-{job.command}-{number}", job, folder / "inputs")
    try:
        KINDS[kind](case, known, random.Random(f"{seed} {kind} {job.command} {number}"))
    finally:
        shutil.rmtree(case.folder, ignore_errors=True)
    return {"command": job.command, "case": number, "job": job.name, "counts": case.counts, "wrong": case.wrong}


def add(found: Record, kind: str, record: Record) -> None:
    of_command = found.setdefault(kind, {}).setdefault(record["command"], {"cases": 0})
    of_command["cases"] += 1
    for name, count in record["counts"].items():
        of_command[name] = of_command.get(name, 0) + count
    for name, detail in record["wrong"]:
        entry = {"case": record["case"], "job": record["job"], "detail": detail}
        of_command.setdefault("violations", {}).setdefault(name, []).append(entry)


def table(found: Record) -> list[str]:
    """What was done to each command, and what came of it, for people."""
    rows = []
    for command in dict.fromkeys((*COMMANDS, *found.get("pairs", ()))):
        of = {kind: found.get(kind, {}).get(command, {}) for kind in KINDS}
        done = [of["kills"].get("kills", 0), of["full"].get("cases", 0), of["pairs"].get("cases", 0)]
        wrong = sum(len(cases) for records in of.values() for cases in records.get("violations", {}).values())
        rows += [(f"`{command}`", *done, wrong)] if any(done) else []
    rows.append(("**all**", *map(sum, zip(*[row[1:] for row in rows], strict=True))))
    head = ["command", "kills", "full disks", "two at once", "lost, mixed, blocked or left behind"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + [f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |" for name, *numbers in rows]


def save(output: Path, found: Record) -> None:
    output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    head = "# Kills, full disks, two processes at once\n\nMade by `python benchmarks/kills.py`, with `kills.json`.\n"
    output.with_suffix(".md").write_text("\n".join([head, *table(found)]) + "\n", "utf-8")


def prepare(folder: Path, seed: int, jobs: list[Job], sizes: bool) -> dict[str, Known]:
    """The input files, and what each job writes uninterrupted, in which time."""
    (folder / "inputs").mkdir(parents=True)
    Run(lambda: make_inputs(folder / "inputs", seed), folder, folder, folder / "log").end()
    for name in ("import", "train"):
        job = next(job for job in JOBS if job.name == name)
        made = Case(folder / f"first-{name}", job, folder / "inputs")
        made.must(job.line(folder / "inputs"))
        (made.place / job.output).rename(folder / "inputs" / job.output)
    known = {}
    for job in jobs:
        known[job.name] = Known.of(job, folder, sizes)
        sys.stderr.write(f"{job.name}: {known[job.name].seconds:.2f} s, {known[job.name].operations} operations\n")
    return known


def warm() -> None:
    """Load all modules, and the kernels that are compiled; nothing runs, since threads would not survive a fork."""
    from numba.core.dispatcher import Dispatcher

    import nodewise

    for library in ("joblib.externals.loky", "matplotlib.figure", "optuna", "sklearn.linear_model", "typer._adapters"):
        importlib.import_module(library)  # loaded on first use
    found = pkgutil.walk_packages(nodewise.__path__, "nodewise.")
    modules = [importlib.import_module(module.name) for module in found if not module.name.endswith("__main__")]
    for kernel in (value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)):
        if hasattr(kernel._cache, "_cache_file"):
            for signature, *_ in kernel._cache._cache_file._load_index():
                kernel.compile(signature)
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    if len([name for name in threads if name != "jemalloc_bg_thd"]) > 1:  # jemalloc starts its own again
        raise SystemExit(f"a library has started threads, which would not survive a fork: {threads}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help=f"some of {', '.join(COMMANDS)} (default: all)")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    parser.add_argument("--case", type=int, help="run only this case of each command, and write nothing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where commands write (default: a temporary folder)")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    there = options.output is not None and options.output.exists()
    found: Record = json.loads(options.output.read_text()) if there else {"seed": options.seed}
    if found["seed"] != options.seed:
        raise SystemExit(f"{options.output}: has the seed {found['seed']}; choose another file")
    warm()
    plan = [(kind, job, number) for kind in KINDS for job, number in planned(kind, options, found)]
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=options.folder))  # not one that children remove as they end
    try:
        jobs = list({job.name: job for _, job, _ in plan}.values())
        known = prepare(folder, options.seed, jobs, sizes=any(kind == "full" for kind, _, _ in plan))
        records = in_lanes(
            lambda place: run_case(*plan[place], known[plan[place][1].name], folder, options.seed), len(plan)
        )
        for (kind, _, _), record in zip(plan, records, strict=True):
            print(json.dumps({"kind": kind, **record}), flush=True)
            add(found, kind, record)
            if options.output is not None and options.case is None:
                save(options.output, found)
    finally:
        shutil.rmtree(folder)
    wrong = sum(
        len(cases)
        for kind in KINDS
        for of in found.get(kind, {}).values()
        for cases in of.get("violations", {}).values()
    )
    sys.stderr.write(f"{len(plan)} cases, {wrong} violations in all\n")


if __name__ == "__main__":
    main()
