"""Damaged files for every reader of nodewise: only InputError and StoreError, no crash, no hang, bounded memory.

    python benchmarks/fuzz.py --cases 1000 -o docs/results/fuzz.json store model  # these readers, 1,000 cases in all
    python benchmarks/fuzz.py --seconds 600 -o docs/results/fuzz.json   # all readers, on from what is there
    python benchmarks/fuzz.py --reader store --case 17 --keep /tmp/case           # one case again, with its traceback

Case k of a reader is made from the seed, the reader's name and k. A worker runs case after case; the parent restarts it
after a crash, or when a case takes longer than ten seconds. Every limit on memory is as on a small machine, and what a
case may add to the process is bounded by 256 MB and a hundred bytes for each byte of its files. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import fuzz_worker as worker
from fuzz_readers import READERS, Reader
from fuzz_worker import BASE_BYTES, HANG_SECONDS, TIMES, Samples, Worker

FAILURES = {"foreign": "other exceptions", "crash": "crashes", "hang": "hangs", "memory": "too much memory"}
SAVE_SECONDS = 20.0
LANES = 2  # readers at a time


def new_result() -> dict[str, Any]:
    return {"cases": 0, "accepted": 0, "refused": 0, "most_memory": 0, "seconds": 0.0} | {kind: {} for kind in FAILURES}


def add(result: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Count an outcome; a failure under the line where it happened, with one case to see it again."""
    if outcome["kind"] == "sample":
        raise SystemExit(f"a sample is not accepted as it is: {outcome['where']}")
    result["cases"] += 1
    result["most_memory"] = max(result["most_memory"], outcome["grown"])
    if outcome["kind"] in FAILURES:
        place = result[outcome["kind"]].setdefault(outcome["where"], {"count": 0, "case": outcome["case"]})
        place["count"] += 1
    else:
        result[outcome["kind"]] += 1


class Campaign:
    """The cases of one reader that are missing up to ``until``, as many as time allows."""

    def __init__(
        self, reader: Reader, place: Path, seed: int, result: dict[str, Any], until: int, end: float, lane: int
    ) -> None:
        self.reader, self.place, self.seed, self.result, self.until, self.end = reader, place, seed, result, until, end
        self.lane = lane
        self.samples = Samples(place / "samples" / reader.name)
        self.next_case, self.running, self.seconds = result["cases"], None, time.monotonic() - result["seconds"]

    def step(self) -> bool:
        """Count what has come since the last step; False at the end."""
        if self.running is None:
            missing = range(self.next_case, self.until)
            self.running = Worker(
                self.reader, self.samples, self.place / "fixed", self.place, self.seed, missing, self.lane
            )
        for outcome in self.running.outcomes():
            add(self.result, outcome)
            self.next_case = outcome["case"] + 1
        self.result["seconds"] = round(time.monotonic() - self.seconds, 1)
        goes_on = self.next_case < self.until and time.monotonic() < self.end
        if not self.running.process or not goes_on:
            self.running.close()
            self.running = None
        return goes_on


def fuzz(
    readers: list[Reader],
    place: Path,
    seed: int,
    results: dict[str, Any],
    most: int,
    seconds: float,
    output: Path | None,
) -> None:
    """Two readers at a time, each with its share of the seconds that are left."""
    waiting = [reader for reader in readers if results.setdefault(reader.name, new_result())["cases"] < most]
    running: dict[int, Campaign] = {}
    end, saved = time.monotonic() + seconds, time.monotonic()
    while waiting or running:
        for lane in set(range(LANES)) - running.keys():
            if waiting:
                share = time.monotonic() + (end - time.monotonic()) * LANES / max(LANES, len(waiting))
                reader = waiting.pop(0)
                running[lane] = Campaign(reader, place, seed, results[reader.name], most, min(share, end), lane)
        for lane, campaign in list(running.items()):
            if not campaign.step():
                del running[lane]
                print(summary({campaign.reader.name: campaign.result})[2], flush=True)
        if time.monotonic() - saved > SAVE_SECONDS or not running:
            save(output, seed, results)
            saved = time.monotonic()


def summary(results: dict[str, Any]) -> list[str]:
    """The table of all readers, for people."""
    columns = ["cases", "accepted", "refused", *FAILURES.values(), "most memory added"]
    lines = ["| reader | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    rows = {name: _counts(results[name]) for name in sorted(results, key=[*READERS, *results].index)}
    total = [sum(column) for column in zip(*rows.values(), strict=True)]
    most = {name: results[name]["most_memory"] for name in rows}
    for name, counts in {**rows, "**all**": total}.items():
        added = most.get(name, max(most.values()))
        lines.append(f"| {name} | " + " | ".join(f"{count:,}" for count in counts) + f" | {added / 1e6:.0f} MB |")
    return lines


def _counts(row: dict[str, Any]) -> list[int]:
    failed = [sum(found["count"] for found in row[kind].values()) for kind in FAILURES]
    return [row["cases"], row["accepted"], row["refused"], *failed]


def failures(results: dict[str, Any]) -> list[str]:
    """A line for each place of each failure, with a case that shows it."""
    return [
        f"{name}: {found['count']:,} {words}, case {found['case']}: {where}"
        for name, row in results.items()
        for kind, words in FAILURES.items()
        for where, found in sorted(row[kind].items(), key=lambda item: -item[1]["count"])
    ]


def save(output: Path | None, seed: int, results: dict[str, Any]) -> None:
    if output is None:
        return
    bounds = {"hang_seconds": HANG_SECONDS, "memory_bytes": BASE_BYTES, "memory_bytes_per_byte": TIMES}
    output.write_text(json.dumps({"seed": seed, **bounds, "readers": results}, indent=1) + "\n", "utf-8")
    head = "# Damaged files: what every reader made of them\n\nMade by `python benchmarks/fuzz.py`, with `fuzz.json`.\n"
    output.with_suffix(".md").write_text("\n".join([head, *summary(results)]) + "\n", "utf-8")


def one_case(reader: Reader, place: Path, seed: int, number: int, keep: Path | None) -> None:
    samples = Samples(place / "samples" / reader.name)
    reader.prepare()
    worker.limit_memory()
    folder = keep or place / "case"
    folder.mkdir(parents=True, exist_ok=True)
    unit, files, resealed = samples.case(reader, seed, number)
    changed = [name for name, data in samples.units[unit].items() if files.get(name) != data]
    print(f"{reader.name}, case {number}: {', '.join(changed)}{', resealed' * resealed}", flush=True)
    print(worker.run_case(reader, samples, place / "fixed", folder, seed, number, loud=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"(default: all) {', '.join(READERS)}")
    parser.add_argument("--cases", type=int, default=10**9, help="of each reader, with those in the output")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="a .json file to write, and to go on from")
    parser.add_argument("--reader", help="with --case: run this one case here")
    parser.add_argument("--case", type=int)
    parser.add_argument("--keep", type=Path, help="with --case: a folder to leave its files in")
    given = parser.parse_args()
    if given.case is None and given.cases == 10**9 and given.seconds == float("inf"):
        parser.error("give --cases or --seconds")
    names = [given.reader] if given.reader else given.readers or list(READERS)
    if unknown := [name for name in names if name not in READERS]:
        parser.error(f"no reader {unknown[0]!r}; there are {', '.join(READERS)}")
    before = json.loads(given.output.read_text()) if given.output and given.output.is_file() else {}
    if before and before["seed"] != given.seed:
        parser.error(f"{given.output} has the seed {before['seed']}")
    results = before.get("readers", {})
    shm = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="nodewise-fuzz-", dir=shm if shm.is_dir() else None))
    try:
        readers = [READERS[name] for name in names]
        for folder in ("fixed", "samples"):
            (place / folder).mkdir()
        worker.make_samples(readers, place / "fixed", place / "samples")
        if given.case is not None:
            one_case(readers[0], place, given.seed, given.case, given.keep)
            return
        fuzz(readers, place, given.seed, results, given.cases, given.seconds, given.output)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    lines = failures({name: results[name] for name in names})
    print("\n".join(lines))
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
