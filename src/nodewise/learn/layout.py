"""The columns of a row: diffused features, and what the full recipe sets beside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from nodewise._typing import FloatArray
from nodewise.features import normalize


@dataclass(frozen=True)
class Layout:
    """Which columns a row has, in this order.

    ``diffused``: a number for each of ``features``, or ``hops`` numbers side by side where hops are kept apart.
    ``raw``: the node's own features. ``labels``: the ``classes`` of labelled nodes in reach. ``corrections``: not for
    the network but for what comes after it.

    >>> Layout(features=3, raw=True, classes=2).spans
    {'diffused': slice(0, 3, None), 'raw': slice(3, 6, None), 'labels': slice(6, 8, None)}
    """

    features: int
    hops: int = 1
    raw: bool = False
    classes: int = 0
    corrections: int = 0

    @property
    def spans(self) -> dict[str, slice]:
        """The places of the parts that a row has."""
        widths = {
            "diffused": self.features * self.hops,
            "raw": self.features * self.raw,
            "labels": self.classes,
            "corrections": self.corrections,
        }
        ends = accumulate(widths.values(), initial=0)
        places = {name: slice(*ends) for name, ends in zip(widths, pairwise(ends), strict=True)}
        return {name: place for name, place in places.items() if name == "diffused" or place.stop > place.start}

    @property
    def width(self) -> int:
        return self.seen + self.corrections

    @property
    def seen(self) -> int:
        """Columns that the network sees: all but the corrections."""
        return self.features * (self.hops + self.raw) + self.classes

    def finish(self, rows: FloatArray, norm: str) -> FloatArray:
        """Rows as the network sees them: features brought to ``norm``, labels to shares of the classes.

        Where hops are apart the network mixes them first, and brings the mixture to ``norm`` itself.
        """
        if self.width == self.features:
            return normalize(rows, norm)
        done = np.empty_like(rows)
        norms = {"diffused": norm if self.hops == 1 else "none", "raw": norm, "labels": "l1", "corrections": "none"}
        for name, place in self.spans.items():
            done[:, place] = normalize(np.ascontiguousarray(rows[:, place]), norms[name])
        return done
