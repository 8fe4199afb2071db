"""GCN against its formula in dense matrices."""

import sys

import numpy as np
import pytest
import torch
from dense_oracles import propagation, small_graph

from nodewise import InputError
from nodewise.graph import synthetic
from nodewise.lab.rivals.gcn import GCN


def fitted(graph, **params):
    model = GCN(epochs=3, **params)
    return model.fit(graph, np.arange(10))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_scores_are_those_of_the_formula(weighted, sparse, layers):
    graph = small_graph(5, 30, 60, weighted, sparse, alone=2)
    model = fitted(graph, layers=layers)
    nodes = np.array([3, 29, 3, 11])
    out = model._out(model.networks_, model._view(graph, nodes), nodes).detach().numpy()
    expected = graph.features.toarray() if sparse else graph.features
    S = propagation(graph)
    for i, layer in enumerate(model.networks_.layers):
        weight = layer.lin.weight.detach().numpy()
        weight = weight if i == 0 else weight.T
        assert weight.any()
        expected = S @ ((np.maximum(expected, 0) if i else expected) @ weight) + layer.bias.detach().numpy()
    assert np.allclose(out, expected[nodes], atol=1e-4)


def test_gradients_are_those_of_the_formula():
    """Full batch: leaving out nodes that no answer needs changes no gradient."""
    graph = small_graph(5, 30, 60, weighted=True)
    model = fitted(graph, dropout=0.0)
    network, nodes = model.networks_, np.arange(4)
    first, last = network.layers
    weights = [first.lin.weight, last.lin.weight, first.bias, last.bias]
    network.zero_grad()  # what the last step left
    model._out(network, model._view(graph, nodes), nodes).square().sum().backward()
    found = [w.grad.clone() for w in weights]
    S, X = (torch.from_numpy(a.astype(np.float32)) for a in (propagation(graph), graph.features))
    out = S @ (torch.relu(S @ (X @ weights[0]) + weights[2]) @ weights[1].T) + weights[3]
    expected = torch.autograd.grad(out[:4].square().sum(), weights)
    assert all(torch.allclose(a, b, atol=1e-3, rtol=1e-3) for a, b in zip(found, expected, strict=True))


def test_the_layers_are_those_of_pytorch_geometric():
    from torch_geometric.nn import GCNConv

    assert all(type(layer) is GCNConv for layer in fitted(small_graph(5, 30, 60)).networks_.layers)


@pytest.mark.parametrize("name", ["GCN", "GAT", "GDC", "FastGCN"])
def test_without_pytorch_geometric_one_line_says_what_to_install(name, monkeypatch):
    from nodewise.lab.rivals import method

    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    graph = synthetic.dcsbm(50, avg_degree=4, classes=2, features=3, seed=0)
    with pytest.raises(InputError, match=r"pip install 'nodewise\[baselines\]'") as caught:
        method(name)().fit(graph, range(20))
    assert "\n" not in str(caught.value)
