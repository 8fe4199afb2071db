"""nodewise describe: what a saved model learned from, how good it is, and what it chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodewise.cli.console import print_json, print_table
from nodewise.cli.options import Json
from nodewise.cli.predict import Model

SHOWN_CLASSES = 20


def describe(model: Model, json: Json = False) -> None:
    """Describe MODEL: what it learned from, its score on held-out nodes, what was chosen, its classes and files."""
    from nodewise.report.model import describe_model

    about = describe_model(model)
    if json:
        print_json(about)
    else:
        print_table(("", about["model"]), _lines(about))


def _lines(about: dict[str, Any]) -> list[tuple[str, str]]:
    """A line per fact that the model has."""
    lines = []
    if learned := about.get("learned_from"):
        features = f"{learned['features']:,} features" if learned["features"] else "no features (random vectors)"
        graph = f"{learned['graph']}: {learned['nodes']:,} nodes, {learned['edges']:,} edges, {features}"
        lines.append(("learned from", f"{graph}, {learned['labels']:,} labels"))
    else:
        lines.append(("features", f"{about['features']:,}"))
    if scores := about.get("scores"):
        lines.append(("held-out score", score_in_words(scores)))
    classes = about["classes"]
    more = ", …" if len(classes) > SHOWN_CLASSES else ""
    several = ", several per node" if about["several_labels_per_node"] else ""
    lines.append(("classes", f"{len(classes):,}{several}: {', '.join(classes[:SHOWN_CLASSES])}{more}"))
    chosen = {**about["chosen"], "engine": about["engine"]}
    values = (f"{name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in chosen.items())
    lines.append(("chosen", ", ".join(values)))
    lines.append(("votes", "; ".join(f"{100 * vote:.0f}% {name}" for name, vote in about["votes"].items())))
    lines.append(("temperature", f"{about['temperature']:.3g}"))
    if "threshold" in about:
        lines.append(("threshold", f"{about['threshold']:.3g}"))
    lines.append(("files", ", ".join(f"{name} {size:,} bytes" for name, size in about["files"].items())))
    if "written_by" in about:
        lines.append(("written by", about["written_by"]))
    return lines


def score_in_words(scores: Mapping[str, Any]) -> str:
    """Scores by the names of :class:`nodewise.learn.evaluate.ModelScore`."""
    low, high = (100 * end for end in scores["interval"])
    doubt = ", which chose the model: too good" if scores.get("chose_the_model") else ""
    return (
        f"micro-F1 {100 * scores['micro_f1']:.2f}% ({scores['nodes']:,} nodes{doubt}; 95% interval {low:.1f} to "
        f"{high:.1f}), macro-F1 {100 * scores['macro_f1']:.2f}%, log-loss {scores['log_loss']:.3f}, calibration error "
        f"{scores['calibration_error']:.3f}"
    )
