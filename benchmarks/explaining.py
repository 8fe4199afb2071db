"""Explanations: do the neighbours that they name matter, and what does one cost?

    NODEWISE_DATA=... python benchmarks/explaining.py cora -o docs/results/explaining.json
    python benchmarks/explaining.py --folder FOLDER million papers -o docs/results/explaining.json

On Cora: for 200 test nodes, take away the five neighbours that carry most of the decision, predict again, and count how
often the label changes. The same for GNNExplainer (PyTorch Geometric) on a GCN trained on the same split, and for five
random neighbours; each model is asked about its own neighbours. Each smallest set of neighbours that flips a label is
verified by predicting without it. On stores that `serving.py` made: seconds per explanation.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nodewise as nw
from learning import splits_of
from measuring import keep, kept

NODES, TOP = 200, 5


def without(graph: nw.Graph, gone: list[int], node: int) -> tuple[nw.Graph, int]:
    """The graph without some nodes, and where ``node`` is in it."""
    rest = np.setdiff1d(np.arange(graph.num_nodes), gone)
    return graph.subgraph(rest), int(np.searchsorted(rest, node))


def by_nodewise(graph: nw.Graph, split: Any) -> dict[str, Any]:
    model = nw.NIGCN(seed=0).fit(graph, split.train, split.val)
    random = np.random.default_rng(0)
    flips, by_chance, changed, verified, seconds = 0, 0, 0, 0, []
    for node in split.test[:NODES].tolist():
        started = time.perf_counter()
        why = nw.explain(model, graph, node, top=50)
        seconds.append(time.perf_counter() - started)
        said = model.predict(graph, [node])[0]
        near = [one.node for one in why.neighbours if one.node != node and one.contribution > 0]
        rows = nw.diffuse(graph, [node], **vars(model.row_maker.on(graph))).matrix
        others = random.permutation(rows.indices[rows.indices != node])[:TOP].tolist()
        for gone, kind in ((near[:TOP], "top"), (others, "random")):
            less, place = without(graph, gone, node)
            other = model.predict(less, [place])[0] != said
            flips, by_chance = flips + (other and kind == "top"), by_chance + (other and kind == "random")
        if why.flip is not None:
            changed += 1
            verified += why.predicted[0] not in why.flip.predicted
    return {
        "nodes": NODES,
        "micro_f1": model.score(graph, split.test),
        "flips": int(flips),
        "flips_at_random": int(by_chance),
        "flip_found": changed,
        "flip_verified": verified,
        "seconds": float(np.median(seconds)),
    }


def by_gnn_explainer(graph: nw.Graph, split: Any) -> dict[str, Any]:
    from torch_geometric.explain import Explainer, GNNExplainer
    from torch_geometric.nn import GCN
    from torch_geometric.utils import k_hop_subgraph

    from gcn_pyg import trained

    torch.manual_seed(0)
    data = graph.to_pyg()
    model = GCN(data.num_features, 64, 2, int(data.y.max()) + 1, dropout=0.5)
    trained(model, data.x, data.edge_index, data.y, torch.from_numpy(split.train), torch.from_numpy(split.val))
    with torch.no_grad():
        said = model(data.x, data.edge_index).argmax(1)
    explainer = Explainer(
        model, GNNExplainer(epochs=100), explanation_type="model", node_mask_type="object", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    flips, by_chance, seconds, random = 0, 0, [], np.random.default_rng(0)
    for node in split.test[:NODES].tolist():
        near, edges, place, _ = k_hop_subgraph(node, 2, data.edge_index, relabel_nodes=True)
        started = time.perf_counter()
        found = explainer(data.x[near], edges, index=int(place))
        seconds.append(time.perf_counter() - started)
        mask = found.node_mask.sum(1).numpy().copy()
        mask[int(place)] = -1
        top = near[np.argsort(-mask)[: min(TOP, near.numel() - 1)]].tolist()
        others = random.permutation(near[near != node].numpy())[:TOP].tolist()
        for gone, kind in ((top, "top"), (others, "random")):
            less, at = without(graph, gone, node)
            rest = less.to_pyg()
            with torch.no_grad():
                other = bool(model(rest.x, rest.edge_index)[at].argmax() != said[node])
            flips, by_chance = flips + (other and kind == "top"), by_chance + (other and kind == "random")
    test = torch.from_numpy(split.test)
    right = float((said[test] == data.y[test]).float().mean())
    return {
        "nodes": NODES, "micro_f1": right, "flips": flips, "flips_at_random": by_chance,
        "seconds": float(np.median(seconds)),
    }  # fmt: skip


def seconds_per_node(folder: Path, name: str) -> dict[str, Any]:
    graph, model = nw.open_store(folder / name, verify=False), nw.NIGCN.load(folder / f"{name}-model")
    nodes = np.random.default_rng(0).integers(0, graph.num_nodes, 60).tolist()
    for node in nodes[:10]:
        nw.explain(model, graph, node)
    spent = []
    for node in nodes[10:]:
        started = time.perf_counter()
        nw.explain(model, graph, node)
        spent.append(time.perf_counter() - started)
    return {"nodes": graph.num_nodes, "edges": graph.num_edges, "median": float(np.median(spent)), "most": max(spent)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--folder", type=Path, help="where serving.py keeps its graphs")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = kept(options.output)
    for name in options.names:
        if options.folder is not None:
            found[name] = seconds_per_node(options.folder, name)
        else:
            graph, split = nw.load(name), splits_of(name)[0]
            found[name] = {"nodewise": by_nodewise(graph, split), "GNNExplainer": by_gnn_explainer(graph, split)}
        print(name, json.dumps(found[name]), flush=True)
        keep(found, options.output)


if __name__ == "__main__":
    main()
