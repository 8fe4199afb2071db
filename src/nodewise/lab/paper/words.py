"""Sentences made from numbers, so that no claim can outlive the run that it was made from."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def effect(name: str, scores: Sequence[float], than: str, others: Sequence[float]) -> str:
    """How one variant fares against another on the same splits; scores in percent.

    An effect is seen where the mean of the differences is more than one standard deviation of them from 0.

    >>> effect("NFK", [50.0, 52.0], "NIGCN", [60.0, 61.0])
    'NFK scores 9.50 points less than NIGCN (differences ± 0.50): an effect is seen.'
    >>> effect("UDL", [60.0, 62.0], "NIGCN", [61.0, 61.0])
    'UDL scores the same as NIGCN (differences ± 1.00): no effect is seen.'
    """
    pairs = [a - b for a, b in zip(scores, others, strict=True)]
    mean, spread = statistics.fmean(pairs), statistics.pstdev(pairs)
    how = f"{abs(mean):.2f} points {'more' if mean > 0 else 'less'} than" if abs(mean) >= 0.005 else "the same as"
    if len(pairs) < 2:
        return f"{name} scores {how} {than} on the one split that was run: too few to tell."
    seen = "an effect is seen" if abs(mean) > spread else "no effect is seen"
    return f"{name} scores {how} {than} (differences ± {spread:.2f}): {seen}."


def order(names: Sequence[str]) -> str:
    """A list in a sentence.

    >>> order(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def mean_and_spread(scores: Sequence[float]) -> list[float] | None:
    """The mean and the standard deviation, as a cell of a table."""
    return [statistics.fmean(scores), statistics.pstdev(scores)] if scores else None
