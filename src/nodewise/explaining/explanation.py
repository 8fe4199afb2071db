"""Explanation: what :func:`nodewise.explain` found about one node, as JSON, a page or a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nodewise._util.atomic import AnyPath, new_file
from nodewise._util.page import new_target

ENDINGS = (".html", ".svg", ".png")


@dataclass(frozen=True)
class NamedNode:
    """A node, its name if it has one, and its known labels: none, one or, where nodes have several, any number."""

    node: int
    name: str | None
    labels: list[str]

    def __str__(self) -> str:
        return str(self.node) if self.name is None else self.name


@dataclass(frozen=True)
class Neighbour(NamedNode):
    """A node in the weighted sum, with what it adds to the logit and to the margin over the runner-up.

    ``hop``: the fewest steps to it through other nodes of the sum, None where there is no such way.
    """

    hop: int | None
    weight: float
    contribution: float
    margin: float | None


@dataclass(frozen=True)
class SimilarNode(NamedNode):
    """A labelled node that the model learned from; ``similarity``: the cosine of its row and the explained node's."""

    similarity: float


@dataclass(frozen=True)
class LabelledShare(NamedNode):
    """A labelled node that the ridges learned from, with what it adds through them."""

    contribution: float
    margin: float | None


@dataclass(frozen=True)
class FeatureShare:
    """What one column of the features adds, summed over all neighbours; without names, its number is its name."""

    column: int
    name: str
    contribution: float
    margin: float | None


@dataclass(frozen=True)
class LabelShare:
    """The nodes in reach that have a label, and their share of the weight."""

    label: str
    nodes: int
    share: float


@dataclass(frozen=True)
class Rest:
    """What is not listed: how many, and what they add together."""

    count: int
    contribution: float
    margin: float | None


@dataclass(frozen=True)
class Ridge:
    """The part of the logit (and of the margin) that ridges have, who have ``votes`` of 1.

    ``nodes``, the first by contribution, ``rest``, the other labelled nodes, and ``other_rows``, the rows that a ridge
    labelled itself (and the bias, where nodes have several labels), sum to ``contribution``.
    """

    votes: float
    contribution: float
    margin: float | None
    nodes: list[LabelledShare]
    rest: Rest
    other_rows: float
    other_rows_margin: float | None


@dataclass(frozen=True)
class Flip:
    """Neighbours without which the answer is another one.

    ``share``: of the weight; ``predicted``: the labels then; ``probability``: of the class explained, then.
    """

    nodes: list[int]
    names: list[str] | None
    share: float
    predicted: list[str]
    probability: float

    def __str__(self) -> str:
        return ", ".join(self.names or map(str, self.nodes))


@dataclass(frozen=True)
class Explanation(NamedNode):
    """Why a node got its label: what all neighbours add, and the ``bias``, sum to the ``logit``; so do all features.

    ``probabilities``: by class, the most probable first. ``predicted``: the labels that the model gives. ``class_``:
    the one explained; ``runner_up``: the most probable other class, None where nodes have several labels. ``margin``:
    the logit less that of the runner-up. ``neighbours``: the first by contribution, the node itself among them;
    ``rest``: the others. ``features``: None where random vectors took their place. ``reached``: labels in reach, the
    node's own left out. ``similar``: None where the nodes learned from are not known in this graph. ``ridge``: what
    labelled nodes add through ridges, None where none votes or that is not known exactly. ``flip``: what would have to
    go, None if nothing would do. ``engine``: how weights were made; ``sampled_instead``: the model makes
    them exactly, which would take the whole graph. ``drawn`` and ``edges``: of the picture.
    """

    graph: str
    probabilities: dict[str, float]
    predicted: list[str]
    class_: str
    runner_up: str | None
    logit: float
    bias: float
    margin: float | None
    bias_margin: float | None
    neighbours: list[Neighbour]
    rest: Rest
    features: list[FeatureShare] | None
    rest_of_features: Rest | None
    reached: list[LabelShare]
    similar: list[SimilarNode] | None
    ridge: Ridge | None
    flip: Flip | None
    engine: str
    sampled_instead: bool
    drawn: list[Neighbour]
    edges: list[tuple[int, int]]

    def to_json(self) -> dict[str, Any]:
        """All but the picture, as plain numbers, strings, lists and dicts."""
        found = asdict(self)
        return {name.rstrip("_"): value for name, value in found.items() if name not in ("drawn", "edges")}

    def save(self, path: AnyPath, *, overwrite: bool = False) -> None:
        """Write a page (``.html``) or the picture alone (``.svg``, or ``.png`` with matplotlib)."""
        target = new_target(path, ENDINGS, overwrite)
        from nodewise.explaining import explanation_page, picture

        if target.suffix.lower() == ".png":
            content = picture.png(self)
        else:
            make = explanation_page.html if target.suffix.lower() == ".html" else picture.standalone_svg
            content = make(self).encode()
        with new_file(target, overwrite) as temporary:
            temporary.write_bytes(content)
