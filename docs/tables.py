"""Writes comparison.md and recipes.md in docs/results from what is kept beside them.    python docs/tables.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nodewise.baselines import METHODS
from nodewise.experiments.paper import facts

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


def recipes(names: tuple[str, ...], rows: tuple[str, ...]) -> list[str]:
    """Micro-F1 and seconds a split, a line a data set, beside the best that the paper reports."""
    head = [*(f"{row} | s" for row in rows), "best published"]
    lines = ["| | " + " | ".join(head) + " |", "| --- |" + " ---: |" * (2 * len(rows) + 1)]
    for name in names:
        found = rows_of_recipes(name)
        cells = []
        for row in rows:
            told = found.get(row)
            cells += ["–", ""] if told is None else [_f1(told), f"{told['seconds_a_split']:.1f}"]
        lines.append(f"| {name} | " + " | ".join([*cells, _best_published(name)]) + " |")
    return lines


def rows_of_recipes(name: str) -> dict[str, dict[str, Any]]:
    file = RESULTS / "recipes" / f"{name}.json"
    rows: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8"))["rows"] if file.is_file() else {}
    return rows


def _best_published(name: str) -> str:
    reported = facts("transductive_f1")
    if name not in reported["columns"]:
        return ""
    column = reported["columns"].index(name)
    mean, method = max((row[column][0], method) for method, row in reported["rows"].items() if row[column])
    return f"{mean:.2f} ({method})"


def parts() -> list[str]:
    """What each part alone adds to a preset with one network, and how often the full recipe kept it."""
    found = {name: rows for name in PAPER if "one network" in (rows := rows_of_recipes(name))}
    lines = ["| | " + " | ".join(f"{name} | kept" for name in found) + " |", "| --- |" + " ---: | ---: |" * len(found)]
    names = [row for rows in found.values() for row in rows if row not in ("paper", "auto", "full")]
    for row in dict.fromkeys(names):
        cells = []
        for rows in found.values():
            kept = [times for part, times in rows["full"]["kept"].items() if part.startswith(row)]
            cells += [_f1(rows[row]) if row in rows else "–", f"{max(kept, default=0)} of 10" if row in KEPT else ""]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines


KEPT = (
    "hop attention",
    "raw features",
    "label reuse",
    "consistency",
    "self-training",
    "class shares",
    "correct and smooth",
)


def _f1(row: dict[str, Any]) -> str:
    count = len(row["test_f1"])
    few = "" if count == SPLITS else f" ({count} of {SPLITS})"
    return f"{100 * row['test_f1_mean']:.2f} ± {100 * row['test_f1_std']:.2f}{few}"


def trials() -> list[str]:
    """What one hop bank saves a search, a line a graph."""
    lines = ["| | labels | diffusing anew | one hop bank | times as many |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in _kept("tuning.json")["rows"]:
        name = f"{row['graph']}: {row['nodes']:,} nodes, {row['edges']:,} edges"
        hour = row["trials_an_hour"]
        cells = (f"{row['labels']:,}", f"{hour['anew']:,.0f}", f"{hour['bank']:,.0f}", f"{row['times_as_many']:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def training() -> list[str]:
    """The paper's training and this one on the same rows."""
    head = "| | micro-F1 | s | epochs | paper's: micro-F1 | s | epochs | share of the time |"
    lines = [head, "| --- |" + " ---: |" * 7]
    for row in _kept("training.json")["recipes"]:
        cells = [
            cell
            for way in ("here", "paper")
            for cell in (
                f"{100 * row[f'{way}_test_f1']:.2f}",
                f"{row[f'{way}_seconds']:.2f}",
                f"{row[f'{way}_epochs']:,.0f}",
            )
        ]
        lines.append(f"| {row['dataset']} | " + " | ".join([*cells, f"{row['share_of_the_time']:.3f}"]) + " |")
    return lines


def _kept(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def write_recipes() -> None:
    lines = [
        "# Recipes: micro-F1 on ten splits, and seconds a split on one thread\n",
        "Made by `python docs/tables.py` from `recipes/*.json`.\n",
        *recipes((*PAPER, *OTHERS), ("paper", "auto", "full")),
        "\n## Each part alone, added to the preset with one network, and how often the full recipe kept it\n",
        *parts(),
        "\n## Trials an hour, from `tuning.json`\n",
        *trials(),
        "\n## Training, from `training.json`\n",
        *training(),
    ]
    (RESULTS / "recipes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    write_recipes()
    sections = [
        "# Micro-F1 on the same splits, and the paper's\n\nMade by `python docs/tables.py` from `compare-*.json`.\n",
        *beside_the_paper(),
        "\n## Other graphs\n",
        *others(),
        "\n## Against NIGCN, on the splits that the method finished (how many)\n",
        *against_nigcn(),
        "\n## Seconds a split: preparation + training, one thread\n",
        *seconds(),
    ]
    (RESULTS / "comparison.md").write_text("\n".join(sections) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
