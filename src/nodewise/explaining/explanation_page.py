"""An explanation as one page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence

from nodewise._util.page import bars, facts, figures, page, paragraph, section, table
from nodewise._util.words import counted
from nodewise.explaining.explanation import Explanation, FeatureShare
from nodewise.explaining.picture import svg

MOST_BARS, MOST_FLIPPED = 12, 20  # classes with a bar, nodes named in a sentence


def html(found: Explanation) -> str:
    """The whole page."""
    heading = f"Node {found}: why {'' if found.class_ in found.predicted else 'not '}{found.class_}?"
    parts = [_summary(found), _picture(found), _neighbours(found), _features(found), _nodes(found)]
    return page(heading, heading, parts)


def sentences(found: Explanation) -> dict[str, str]:
    """What the numbers say, for the page and for the terminal."""
    said = {"sum": _sum(found), "what would have to go": _flip(found), "note": _sampling(found)}
    return {about: text for about, text in said.items() if text}


def rows_of_neighbours(found: Explanation) -> tuple[list[str], list[list[str]]]:
    """Head and cells of the table of neighbours, the others on the last line."""
    head = ["", "neighbour", *_added(found), "steps", "weight", "known label"]
    rows = [
        [str(place), str(v) + " (itself)" * (v.hop == 0), *_signed(v.contribution, v.margin),
         "far" if v.hop is None else str(v.hop), f"{v.weight:.4f}", ", ".join(v.labels)]
        for place, v in enumerate(found.neighbours, 1)
    ]  # fmt: skip
    if found.rest.count:
        rows.append(
            ["", counted(found.rest.count, "other"), *_signed(found.rest.contribution, found.rest.margin), "", "", ""]
        )
    return head, [*rows, ["", "bias", *_signed(found.bias, found.bias_margin), "", "", ""]]


def rows_of_features(found: Explanation) -> tuple[list[str], list[list[str]]]:
    """Head and cells of the table of features."""
    listed: Sequence[FeatureShare] = found.features or ()
    rows = [[one.name, *_signed(one.contribution, one.margin)] for one in listed]
    rest = found.rest_of_features
    if rest is not None and rest.count:
        rows.append([counted(rest.count, "other"), *_signed(rest.contribution, rest.margin)])
    return ["feature", *_added(found)], rows


def rows_of_ridge(found: Explanation) -> tuple[list[str], list[list[str]]]:
    """Head and cells of the table of labelled nodes, where ridges vote."""
    ridge = found.ridge
    head = ["labelled node", *_added(found), "label"]
    if ridge is None:
        return head, []
    rows = [[str(v), *_signed(v.contribution, v.margin), ", ".join(v.labels)] for v in ridge.nodes]
    if ridge.rest.count:
        rows.append([counted(ridge.rest.count, "other"), *_signed(ridge.rest.contribution, ridge.rest.margin), ""])
    if any(member != "+0.000" for member in _signed(ridge.other_rows, ridge.other_rows_margin)):
        rows.append(["nodes it labelled itself", *_signed(ridge.other_rows, ridge.other_rows_margin), ""])
    return head, [*rows, ["all", *_signed(ridge.contribution, ridge.margin), ""]]


def _added(found: Explanation) -> list[str]:
    return [f"for {found.class_}", *([] if found.runner_up is None else [f"over {found.runner_up}"])]


def _signed(*values: float | None) -> list[str]:
    return [f"{value:+.3f}" for value in values if value is not None]


def _sum(found: Explanation) -> str:
    neighbours = found.logit - found.bias
    words = (
        f"The logit of {found.class_} is {found.logit:.3f}: {neighbours:+.3f} from neighbours, {found.bias:+.3f} bias."
    )
    if found.margin is not None:
        words += f" Its margin over {found.runner_up}, the most probable other class, is {found.margin:+.3f}."
    return words


def _flip(found: Explanation) -> str:
    given, flip = found.class_ in found.predicted, found.flip
    if flip is None:
        side, stays = ("for", "would still be") if given else ("against", "would still not be")
        return f"Even without all neighbours that speak {side} it, {found.class_} {stays} the answer."
    named = str(flip) if len(flip.nodes) <= MOST_FLIPPED else ""
    which = (
        f"{counted(len(flip.nodes), 'neighbour')} ({100 * flip.share:.1f}% of the weight{': ' * bool(named)}{named})"
    )
    now, then = found.probabilities[found.class_], flip.probability
    answer = ", ".join(flip.predicted) or "none"
    return (
        f"Without {which} the answer would be {answer}: the probability of {found.class_} would go from "
        f"{100 * now:.1f}% to {100 * then:.1f}%."
    )


def _sampling(found: Explanation) -> str:
    if not found.sampled_instead:
        return ""
    return (
        "The model uses exact weights. In a graph of this size they would take a pass over all of it, so weights were "
        "sampled here (stratified walks), and probabilities differ a little from a prediction."
    )


def _summary(found: Explanation) -> str:
    shown = [(", ".join(found.predicted) or "none", "predicted")]
    shown.append((f"{100 * found.probabilities[found.class_]:.1f}%", f"probability of {found.class_}"))
    if found.runner_up is not None:
        shown.append((f"{100 * found.probabilities[found.runner_up]:.1f}%", f"{found.runner_up}, the runner-up"))
    shown.append((", ".join(found.labels) or "not known", "known label"))
    return facts(*shown) + "".join(map(paragraph, sentences(found).values()))


def _picture(found: Explanation) -> str:
    first = list(found.probabilities.items())[:MOST_BARS]
    more = len(found.probabilities) - len(first)
    chart = bars(first) + (paragraph(f"{more:,} more have less.") if more else "")
    return section(f"In the graph {found.graph}", figures(("Its neighbours", svg(found)), ("Probabilities", chart)))


def _neighbours(found: Explanation) -> str:
    words = (
        "What each neighbour adds to the logit of a class, and to its lead over the runner-up. The column sums to the "
        "logit: nothing is left over. Weight is how often walks from the node visit the neighbour; labels are shown to "
        "compare, and the model does not read them."
    )
    head, rows = rows_of_neighbours(found)
    cells = [[f"{row[0]}. {row[1]}" if row[0] else row[1], *row[2:]] for row in rows]
    return section("Neighbours", paragraph(words), table(head[1:], cells))


def _features(found: Explanation) -> str:
    if found.features is None:
        return ""
    words = "The same sum cut by feature: what each adds over all neighbours together."
    return section("Features", paragraph(words), table(*rows_of_features(found)))


def _nodes(found: Explanation) -> str:
    parts = []
    if found.reached:
        cells = [(one.label, f"{one.nodes:,}", f"{100 * one.share:.1f}") for one in found.reached]
        parts.append("<h3>Known labels in reach</h3>" + table(("label", "nodes", "share of the weight, %"), cells))
    if found.similar:
        cells = [(str(one), ", ".join(one.labels), f"{one.similarity:.3f}") for one in found.similar]
        words = paragraph("Of the nodes that the model learned from, those with the most similar rows (cosine).")
        parts.append("<h3>Similar training nodes</h3>" + words + table(("node", "label", "similarity"), cells))
    if found.ridge:
        words = paragraph(
            f"A ridge regression has {100 * found.ridge.votes:.0f}% of the votes. It is a sum over the nodes that it "
            "learned from, so each one's part of its answer is known."
        )
        parts.append("<h3>What labelled nodes add through the ridge</h3>" + words + table(*rows_of_ridge(found)))
    return section("Labelled nodes", *parts) if parts else ""
