"""Figure 1: three shapes of GHD, two of them checked against their closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import geom, poisson

from nodewise._util.plotting import BLUE, GREY
from nodewise._util.types import DoubleArray
from nodewise.diffusion.ghd import ghd, last_hop
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table

MOST = 0.99  # of the weight


def run(context: Context) -> Result:
    del context  # the curves depend on nothing
    curves = {name: (omega, rho, ghd(omega, rho, hops)) for name, (omega, rho, hops) in facts("ghd")["rows"].items()}
    errors = {name: np.abs(curves[name][2] - _closed_form(name, curves[name][0], curves[name][2].size)).max()
              for name in ("PPR", "HKPR")}  # fmt: skip
    sentences = [
        f"{name}: U(l) differs from the closed form by at most {error:.1e} on the hops shown."
        for name, error in errors.items()
    ]
    smooth = curves["smooth"][2]
    sentences.append(
        f"smooth: the largest and smallest weight of the first {smooth.size} hops differ by a factor of "
        f"{smooth.max() / smooth.min():.1f}."
    )
    return Result(sentences, [_curve_table(), _dataset_table()], [_figure(curves)], ["closed forms; no graph"])


def _closed_form(name: str, omega: float, hops: int) -> DoubleArray:
    """PageRank weighs hops by a geometric distribution, the heat kernel by a Poisson distribution."""
    hop = np.arange(hops)
    return np.asarray(geom.pmf(hop + 1, 1 - omega) if name == "PPR" else poisson.pmf(hop, omega))


def _shape(omega: float, rho: float) -> list[Cell]:
    weights = ghd(omega, rho, last_hop(omega, rho))
    peak, reach = int(weights.argmax()), int(np.searchsorted(np.cumsum(weights), MOST))
    return [omega, rho, peak, reach, float(weights[0])]


_COLUMNS = [
    Column("omega", "g"), Column("rho", "g"), Column("heaviest hop", ".0f"), Column("hops that hold 99%", ".0f"),
    Column("weight of the node itself", ".3f"),
]  # fmt: skip


def _curve_table() -> Table:
    rows: list[list[Cell]] = [[name, *_shape(omega, rho)] for name, (omega, rho, _) in facts("ghd")["rows"].items()]
    return Table(f"The three shapes ({facts('ghd')['source']})", [Column("shape"), *_COLUMNS], rows)


def _dataset_table() -> Table:
    table = facts("hyperparameters")
    rows: list[list[Cell]] = [[name, *_shape(*values[:2])] for name, values in table["rows"].items()]
    return Table(f"The shapes chosen for the data sets ({table['source']})", [Column("data set"), *_COLUMNS], rows)


def _figure(curves: dict[str, tuple[float, float, DoubleArray]]) -> Figure:
    def draw(*axes: Any) -> None:
        for axis, (name, (omega, rho, weights)) in zip(axes, curves.items(), strict=True):
            hops = np.arange(weights.size)
            axis.vlines(hops, 0, weights, color=GREY, linewidth=0.8)
            axis.plot(hops, weights, "o", color=BLUE)
            axis.set_title(f"{name}: ω = {omega:g}, ρ = {rho:g}")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_xlabel("hop l")
            axis.set_ylim(0, 1.15 * weights.max())
        axes[0].set_ylabel("weight U(l)")

    return Figure("ghd", picture(draw, columns=3, height=2.8), "The weight of a hop, as Figure 1 of the paper.")
