"""The pictures of README.md and docs/method.md.    python docs/figures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import nodewise as nw

HERE = Path(__file__).parent / "figures"
BLUE, ORANGE, GREY = "#2563a8", "#d9822b", "#9aa3ad"
mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 140})


def overview() -> None:
    """What nodewise does: weigh one node's neighbours, add up their features, label the sum."""
    graph = nw.synthetic.dcsbm(150, avg_degree=4, classes=3, homophily=0.95, features=6, signal=2.0, seed=5)
    model = nw.NIGCN(omega=1.0, rho=0.5, tau=0.8, engine="exact").fit(graph, range(60), range(60, 110))
    node = 110 + int(np.argmax(graph.degrees[110:] == 6))  # neither trained on nor validated
    made = nw.diffuse(graph, [node], omega=1.0, rho=0.5, tau=0.8, engine="exact")
    weights, row = made.matrix.toarray()[0], made.apply(graph.features)[0]
    layout = nx.kamada_kawai_layout(nx.from_scipy_sparse_array(graph.to_scipy()))
    x, y = np.array([layout[i] for i in range(graph.num_nodes)]).T
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(9.6, 3.3), layout="constrained", width_ratios=(4, 1.6, 1.6)
    )
    ends = np.array(graph.to_scipy().nonzero())
    left.plot(x[ends], y[ends], color=GREY, linewidth=0.4, zorder=1)
    left.scatter(x, y, 8, color=GREY, zorder=2)
    left.scatter(x, y, 900 * weights / weights.max(), color=BLUE, alpha=0.6, linewidth=0, zorder=3)
    left.scatter(x[node], y[node], 60, color=ORANGE, zorder=4)
    left.set_title("1. Weigh the neighbours of the node asked about", fontsize=9.5)
    left.axis("off")
    middle.barh(np.arange(row.size), row, color=BLUE, height=0.6)
    middle.set_title("2. Add up their features", fontsize=9.5)
    right.barh(["A", "B", "C"], model.predict_proba(graph, [node])[0], color=ORANGE, height=0.5)
    right.set_title("3. Label the sum", fontsize=9.5)
    right.set_xticks([0, 0.5, 1])
    right.set_xlabel("probability of each class")
    middle.set_xlabel("the node's row")
    for axis in (middle, right):
        axis.tick_params(length=0)
    middle.set_yticks([])
    figure.savefig(HERE / "overview.png")


def three_shapes() -> None:
    """GHD as the paper draws it: smooth, falling, peaked (its Figure 1)."""
    shapes = (
        ("smooth: far hops count almost as much", 1.1, 0.05, 20),
        ("falling: PageRank", 0.5, 0.0, 10),
        ("peaked: heat kernel", 5.0, 1.0, 15),
    )
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.6), layout="constrained")
    for axis, (title, omega, rho, hops) in zip(axes, shapes, strict=True):
        weights = nw.ghd(omega, rho, hops)
        axis.bar(np.arange(hops + 1), weights, color=BLUE, width=0.8)
        axis.set_title(f"{title}\nomega = {omega}, rho = {rho:g}", fontsize=9.5)
        axis.set_xlabel("hop")
        axis.set_ylim(0, 1.15 * weights.max())
    axes[0].set_ylabel("weight of the hop, U")
    figure.savefig(HERE / "ghd.png")


def neighbour_weights() -> None:
    """The weights of one PubMed paper's neighbours, heaviest first: exact, by walks, by stratified walks."""
    graph = nw.load("pubmed")
    settings = {"omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.02, "convention": "reference", "mass": "walks"}
    node = int(np.argsort(graph.degrees)[graph.num_nodes // 2])
    rows = {
        engine: nw.diffuse(graph, [node], engine=engine, **settings).matrix.toarray()[0]
        for engine in ("exact", "walks", "stratified")
    }
    order = np.argsort(-rows["exact"])[: np.count_nonzero(rows["exact"] > 1e-6)]
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained", sharey=True)
    for axis, engine, colour in zip(axes, ("walks", "stratified"), (ORANGE, BLUE), strict=True):
        found = rows[engine][order]
        seen = found > 0
        error = np.abs(rows[engine] - rows["exact"]).sum()
        axis.plot(np.flatnonzero(seen) + 1, found[seen], ".", color=colour, markersize=3, label=engine)
        axis.plot(np.arange(order.size) + 1, rows["exact"][order], color="black", linewidth=1, label="exact")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("neighbour, heaviest first")
        axis.set_title(f"{engine}: error {error:.3f} of {rows['exact'].sum():.3f} in all", fontsize=9.5)
        axis.legend(frameon=False, loc="lower left")
    axes[0].set_ylabel("weight")
    half = np.searchsorted(np.cumsum(rows["exact"][order]), rows["exact"].sum() / 2) + 1
    figure.suptitle(f"PubMed node {node}: {half} of {order.size:,} neighbours hold half of the weight", fontsize=10)
    figure.savefig(HERE / "weights.png")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    overview()
    three_shapes()
    neighbour_weights()
