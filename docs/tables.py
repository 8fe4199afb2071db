"""Writes comparison.md and learning.md in docs/results from what is kept beside them.    python docs/tables.py"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from nodewise.lab.paper.published import facts
from nodewise.lab.rivals import METHODS

RESULTS = Path(__file__).parent / "results"
PAPER = ("cora", "citeseer", "pubmed")
SPLITS = 10
OTHERS = ("amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics", "arxiv-standin")


def rows_of(dataset: str) -> dict[str, dict[str, Any]]:
    """A comparison's rows by method; of the methods that finished nothing in it, those of one with more time."""
    rows: dict[str, dict[str, Any]] = {}
    for file in (RESULTS / f"compare-{dataset}.json", RESULTS / f"compare-{dataset}-slow.json"):
        for row in json.loads(file.read_text())["rows"] if file.is_file() else []:
            if rows.get(row["method"], {}).get("test_f1_mean") is None:
                rows[row["method"]] = row
    return rows


def score(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    if row["test_f1_mean"] is None:
        return "none finished"
    count = len(row["splits"])
    few = "" if count == row["splits_asked"] else f" ({count} of {row['splits_asked']})"
    return f"{100 * row['test_f1_mean']:.2f} ± {100 * row['test_f1_std']:.2f}{few}"


def beside_the_paper() -> list[str]:
    """Here, the paper, and how far apart."""
    head = [f"{name}, here | paper | difference" for name in PAPER]
    lines = ["| | " + " | ".join(head) + " |", "| --- |" + " ---: |" * (3 * len(PAPER))]
    reported, found = facts("transductive_f1"), {name: rows_of(name) for name in PAPER}
    for method in METHODS:
        cells = []
        for name in PAPER:
            there = reported["rows"].get(method, {})
            mean = there[reported["columns"].index(name)][0] if there else None
            here = found[name].get(method)
            apart = "" if mean is None or here is None else f"{100 * here['test_f1_mean'] - mean:+.2f}"
            cells += [score(here), "" if mean is None else f"{mean:.2f}", apart]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines


def others() -> list[str]:
    found = {name: rows for name in OTHERS if (rows := rows_of(name))}
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for method in METHODS:
        lines.append(f"| {method} | " + " | ".join(score(rows.get(method)) for rows in found.values()) + " |")
    return lines


def against_nigcn() -> list[str]:
    """The mean difference on the splits that both finished."""
    found = {name: rows for name in OTHERS if (rows := rows_of(name))}
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for method in METHODS:
        if method != "NIGCN":
            cells = (_difference(rows.get(method), rows["NIGCN"]) for rows in found.values())
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines


def _difference(row: dict[str, Any] | None, nigcn: dict[str, Any]) -> str:
    theirs, ours = (
        {split["split"]: split["test_f1"] for split in one["splits"]} if one else {} for one in (row, nigcn)
    )
    both = sorted(theirs.keys() & ours.keys())
    return f"{100 * sum(theirs[i] - ours[i] for i in both) / len(both):+.2f} ({len(both)})" if both else "–"


def seconds() -> list[str]:
    found = {name: rows for name in (*PAPER, *OTHERS) if (rows := rows_of(name))}
    lines = ["| | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    for method in METHODS:
        cells = []
        for rows in found.values():
            row = rows.get(method)
            known = row is not None and row["seconds"] is not None
            cells.append(f"{row['preparation_seconds']:.2f} + {row['train_seconds']:.2f}" if known and row else "–")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines


def learning() -> list[str]:
    """Micro-F1 of the preset, the default, and the default refitted on validation labels too."""
    lines = [
        "| ten splits, micro-F1 | preset | default | refit | best published |",
        "| --- |" + " ---: |" * 4,
    ]
    for name, found in _learned().items():
        rows = found["rows"]
        cells = [_f1(rows["preset"], "test_f1"), _f1(rows["default"], "test_f1"), _f1(rows["default"], "refit_test_f1")]
        lines.append(f"| {name} | " + " | ".join([*cells, _best_published(name)]) + " |")
    return lines


def official() -> list[str]:
    """The public Planetoid splits, beside OGC (Wang et al. 2023), which learns from validation labels too."""
    lines = ["| the public split | default | refit | OGC |", "| --- |" + " ---: |" * 3]
    for name, found in _learned().items():
        if "official" in found:
            one = found["official"]
            cells = (f"{100 * one['test_f1']:.1f}", f"{100 * one['refit_test_f1']:.1f}", OGC[name])
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def trust() -> list[str]:
    """How far probabilities are from the truth, and how often sets hold it."""
    head = "| | preset, untempered | preset | default | least | log-loss | coverage of 90% sets | classes per set |"
    lines = [head, "| --- |" + " ---: |" * 7]
    for name, found in _learned().items():
        preset, default = found["rows"]["preset"], found["rows"]["default"]
        coverage = [row["coverage"] for row in default]
        cells = [
            f"{_mean(preset, 'untempered_calibration_error'):.3f}",
            f"{_mean(preset, 'calibration_error'):.3f}",
            f"{_mean(default, 'calibration_error'):.3f}",
            f"{_mean(default, 'least_calibration_error'):.3f}",
            f"{_mean(default, 'log_loss'):.3f}",
            f"{100 * statistics.fmean(coverage):.1f}",
            f"{_mean(default, 'set_size'):.2f}",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def fit_seconds() -> list[str]:
    """Seconds of a fit, and by stage."""
    stages = ("search", "rows", "training", "refit")
    head = ["default", "preset", "ratio", "GCN (PyG)", *stages]
    lines = ["| seconds | " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(head)]
    gcn = _kept("gcn-pyg.json") if (RESULTS / "gcn-pyg.json").is_file() else {}
    for name, found in _learned().items():
        ours, preset = (statistics.median(r["seconds"] for r in found["rows"][row]) for row in ("default", "preset"))
        spent = [statistics.median(r["stages"].get(stage, 0.0) for r in found["rows"]["default"]) for stage in stages]
        theirs = f"{gcn[name]['seconds']:.1f}" if name in gcn else "–"
        cells = [f"{ours:.2f}", f"{preset:.2f}", f"{ours / preset:.1f}", theirs, *(f"{value:.2f}" for value in spent)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def parts() -> list[str]:
    """What each part of the default, and parts that it does not have, gain in points, regime by regime."""
    found = _kept("parts.json")
    names = [part for part in next(iter(found.values())) if part not in ("default", "splits")]
    lines = ["| | default | " + " | ".join(names) + " |", "| --- |" + " ---: |" * (1 + len(names))]
    for regime in dict.fromkeys(key.split(", ")[1] for key in found):
        rows = {key: row for key, row in found.items() if key.endswith(regime)}
        for key, row in rows.items():
            apart = [f"{row[part] - row['default']:+.2f}" for part in names]
            few = " (one split)" if row["splits"] == 1 else ""
            lines.append(f"| {key}{few} | {row['default']:.2f} | " + " | ".join(apart) + " |")
        mean = [f"**{statistics.fmean(r[part] - r['default'] for r in rows.values()):+.2f}**" for part in names]
        lines.append(f"| **{regime}, mean** | {_mean(list(rows.values()), 'default'):.2f} | " + " | ".join(mean) + " |")
    return lines


OGC = {"cora": "86.9", "citeseer": "77.5", "pubmed": "83.4"}


def _learned() -> dict[str, Any]:
    files = {name: RESULTS / "learning" / f"{name}.json" for name in (*PAPER, *OTHERS)}
    return {name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.is_file()}


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def _f1(rows: list[dict[str, Any]], key: str) -> str:
    scores = [100 * row[key] for row in rows]
    few = "" if len(scores) == SPLITS else f" ({len(scores)} of {SPLITS})"
    return f"{statistics.fmean(scores):.2f} ± {statistics.pstdev(scores):.2f}{few}"


def _best_published(name: str) -> str:
    reported = facts("transductive_f1")
    if name not in reported["columns"]:
        return ""
    column = reported["columns"].index(name)
    mean, method = max((row[column][0], method) for method, row in reported["rows"].items() if row[column])
    return f"{mean:.2f} ({method})"


def _kept(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def write_learning() -> None:
    lines = [
        "# Learning: scores, trust and seconds\n",
        "Made by `python docs/tables.py` from `learning/*.json`, `gcn-pyg.json` and `parts.json`.\n",
        *learning(),
        "",
        *official(),
        "\n## Expected calibration error, and conformal sets\n",
        *trust(),
        "\n## Seconds\n",
        *fit_seconds(),
        "\n## Parts\n",
        *parts(),
    ]
    (RESULTS / "learning.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    write_learning()
    sections = [
        "# Micro-F1 on the same splits, and the paper's\n\nMade by `python docs/tables.py` from `compare-*.json`.\n",
        *beside_the_paper(),
        "\n## Other graphs\n",
        *others(),
        "\n## Against NIGCN, on the splits that the method finished (how many)\n",
        *against_nigcn(),
        "\n## Seconds per split: preparation + training, one thread\n",
        *seconds(),
    ]
    (RESULTS / "comparison.md").write_text("\n".join(sections) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
