"""GDC's diffusion against closed forms, and its sparse form against brute force."""

import numpy as np
import pytest
from dense_oracles import pagerank, propagation, small_graph
from scipy.linalg import expm

from nodewise.lab.rivals.gdc import GDC, heat_shares


def closed_form(graph, model):
    S = propagation(graph)
    return pagerank(S, model.alpha) if model.kernel == "ppr" else expm(-model.t * (np.eye(len(S)) - S))


def brute_force(rows, top_k, threshold):
    """One row after the other."""
    out = np.zeros_like(rows)
    for i, row in enumerate(rows):
        kept = np.argsort(-row, kind="stable")[:top_k] if top_k is not None else np.flatnonzero(row >= threshold)
        out[i, kept] = row[kept] / row[kept].sum()
    return out


KERNELS = [{"kernel": "ppr", "alpha": 0.1}, {"kernel": "heat", "t": 3.0}]


@pytest.mark.parametrize("how", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_diffusion_is_the_closed_form(how, weighted):
    graph, model = small_graph(9, 40, 90, weighted), GDC(**how, tolerance=1e-9)
    nodes = np.array([0, 7, 39])
    assert np.allclose(model._diffused(graph, nodes).toarray(), closed_form(graph, model)[nodes], atol=2e-6)


@pytest.mark.parametrize("how", KERNELS)
def test_a_tolerance_is_kept(how):
    """An entry falls short by the tolerance times ``sqrt(d_u d_v)``, for the heat kernel ``t + 1`` times that."""
    graph, model = small_graph(9, 40, 90, weighted=True), GDC(**how, tolerance=1e-3)
    nodes = np.arange(graph.num_nodes)
    short = closed_form(graph, model) - model._diffused(graph, nodes).toarray()
    roots = np.sqrt(graph.degrees)
    factor = 1 if how["kernel"] == "ppr" else how["t"] + 1
    assert short.min() > -1e-6
    assert np.all(short <= factor * 1e-3 * roots[:, None] * roots + 1e-6)
    assert short.max() > 1e-4  # it does leave something out


@pytest.mark.parametrize("how", KERNELS)
@pytest.mark.parametrize("keep", [{"top_k": 5}, {"top_k": 100}, {"top_k": None, "threshold": 0.03}])
def test_the_sparse_form_is_that_of_brute_force(how, keep):
    graph = small_graph(9, 40, 90, weighted=True)  # no two weights are equal
    model = GDC(**how, **{"threshold": 0.0, **keep}, tolerance=1e-9)
    nodes = np.arange(graph.num_nodes)
    expected = brute_force(closed_form(graph, model), model.top_k, model.threshold)
    assert np.allclose(model._matrix(graph, nodes).toarray(), expected, atol=1e-5)


def test_rows_are_made_for_nodes_that_answers_need():
    graph, model = small_graph(9, 40, 90, weighted=True), GDC(top_k=2, tolerance=1e-9)
    matrix = model._matrix(graph, np.array([3]))
    whole = model._matrix(graph, np.arange(graph.num_nodes))
    needed = np.union1d([3], whole[3].indices)
    assert np.array_equal(np.flatnonzero(np.diff(matrix.indptr)), needed)
    assert np.allclose(matrix[needed].toarray(), whole[needed].toarray())


def test_groups_do_not_matter(monkeypatch):
    graph, model, nodes = small_graph(9, 40, 90, weighted=True), GDC(top_k=4), np.arange(40)
    together = model._matrix(graph, nodes)
    monkeypatch.setattr("nodewise.lab.rivals.gdc.GROUP_ENTRIES", 7 * graph.num_nodes)
    assert (model._matrix(graph, nodes) != together).nnz == 0


def test_heat_shares_sum_to_one():
    assert np.isclose(heat_shares(5.0).sum(), 1, atol=1e-5)
    assert np.isclose(heat_shares(5.0)[3], np.exp(-5) * 125 / 6)
