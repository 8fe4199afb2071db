"""Damaged files for every reader of nodewise: only InputError and StoreError, no crash, no hang, bounded memory.

    python benchmarks/fuzz.py --cases 1000 -o docs/results/fuzz.json store model  # these readers, 1,000 cases in all
    python benchmarks/fuzz.py --seconds 600 -o docs/results/fuzz.json             # all readers, on from what is there
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


def fuzz(
    reader: Reader, samples: Samples, place: Path, seed: int, result: dict[str, Any], until: int, end: float
) -> None:
    """Run the cases that are missing up to ``until``, or as many as time allows."""
    running, last_case = None, result["cases"] - 1
    try:
        while last_case + 1 < until and time.monotonic() < end:
            if running is None:
                running = Worker(reader, samples, place / "fixed", place, seed, range(last_case + 1, until))
            for outcome in running.outcomes():
                add(result, outcome)
                last_case = outcome["case"]
            if not running.process:
                running.close()
                running = None
    finally:
        if running is not None:
            running.close()


def summary(results: dict[str, Any]) -> list[str]:
    """The table of all readers, for people."""
    columns = ["cases", "accepted", "refused", *FAILURES.values(), "most memory added"]
    lines = ["| reader | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    rows = {name: _counts(results[name]) for name in READERS if name in results}
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
        end = time.monotonic() + given.seconds
        for i, reader in enumerate(readers):
            samples, started = Samples(place / "samples" / reader.name), time.monotonic()
            result = results.setdefault(reader.name, new_result())
            share = started + (end - started) / (len(readers) - i)
            while result["cases"] < given.cases and time.monotonic() < share:
                tick = time.monotonic()
                fuzz(reader, samples, place, given.seed, result, given.cases, min(share, tick + SAVE_SECONDS))
                result["seconds"] = round(result["seconds"] + time.monotonic() - tick, 1)
                save(given.output, given.seed, results)
            print(summary({reader.name: result})[2], flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    lines = failures({name: results[name] for name in names})
    print("\n".join(lines))
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
