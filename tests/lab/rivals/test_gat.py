"""GAT against attention computed densely."""

import numpy as np
import pytest
import torch
from dense_oracles import small_graph

from nodewise.lab.rivals.gat import GAT


def dense_attention(layer, mapped, adjacency, weighted):
    """``softmax over neighbours of LeakyReLU(a [W h_i, W h_j])``, one matrix a head (the paper's Equation 3)."""
    rows = mapped.reshape(mapped.shape[0], layer.heads, layer.out_channels)
    scores = [(rows * a.detach().numpy()).sum(2) for a in (layer.att_dst, layer.att_src)]
    logits = scores[0][:, None] + scores[1][None]
    if weighted:
        edge = layer.lin_edge.weight.detach().numpy().reshape(layer.heads, -1) * layer.att_edge.detach().numpy()[0]
        logits = logits + adjacency[:, :, None] * edge.sum(1)
    logits = np.where(logits > 0, logits, 0.2 * logits)
    raised = np.exp(logits) * (adjacency > 0)[:, :, None]
    attention = raised / raised.sum(1, keepdims=True)
    return attention, np.einsum("ijh,jhc->ihc", attention, rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_dense_attention(weighted):
    graph = small_graph(6, 20, 40, weighted)
    model = GAT(epochs=3, heads=3, out_heads=2, hidden=4).fit(graph, np.arange(10))
    nodes = np.array([5, 19, 0])
    network = model.networks_
    out = model._out(network, model._view(graph, nodes), nodes).detach().numpy()
    adjacency = graph.to_scipy().toarray()
    maps = [m.weight.detach().numpy() for m in network.maps]
    bias = [layer.bias.detach().numpy() for layer in network.layers]
    attention, heads = dense_attention(network.layers[0], graph.features @ maps[0], adjacency, weighted)
    assert np.allclose(attention.sum(1), 1)
    hidden = heads.reshape(graph.num_nodes, -1) + bias[0]
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    _, heads = dense_attention(network.layers[1], hidden @ maps[1], adjacency, weighted)
    assert np.allclose(out, (heads.mean(1) + bias[1])[nodes], atol=1e-4)


def test_attention_sums_to_one():
    graph = small_graph(6, 20, 40)
    model = GAT(epochs=2).fit(graph, np.arange(10))
    nodes = np.arange(graph.num_nodes)
    view = model._view(graph, nodes)
    inputs, layers = view.layers(nodes)
    mapped, index = model.networks_.maps[0](inputs), layers[0].edges[0]
    attend = model.networks_.layers[0]
    _, (_, attention) = attend((mapped, mapped[layers[0].own]), index, return_attention_weights=True)
    sums = torch.zeros(graph.num_nodes, 8).index_add(0, index[1], attention)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    assert attention.std() > 1e-3
