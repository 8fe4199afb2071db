"""Synthetic graphs: the shape that was ordered."""

import numpy as np
import pytest

from nodewise import InputError
from nodewise.graph.synthetic import dcsbm
from nodewise.report.describe import edge_homophily


def test_the_same_seed_gives_the_same_graph_on_any_number_of_threads():
    first, second = (dcsbm(5000, 12, 3, features=4, seed=9, threads=t) for t in (1, 3))
    assert np.array_equal(first.indices, second.indices)
    assert np.array_equal(first.features, second.features)
    assert not np.array_equal(first.indices[:100], dcsbm(5000, 12, 3, seed=10).indices[:100])


@pytest.mark.parametrize("homophily", [0.0, 0.4, 0.9, 1.0])
def test_homophily_is_the_share_of_edges_within_a_class(homophily):
    """About 10^5 edges: five standard errors of a share are under 0.008; merging repeats takes a little from hubs."""
    graph = dcsbm(20_000, 10, 5, homophily=homophily, seed=1)
    assert edge_homophily(graph) == pytest.approx(homophily, abs=0.015)


def test_degrees_are_as_ordered_and_heavy_tailed():
    graph = dcsbm(50_000, 16, 4, exponent=2.2, seed=0)
    neighbours = np.diff(graph.indptr) - 1
    assert neighbours.mean() == pytest.approx(16, rel=0.1)
    assert neighbours.max() > 20 * neighbours.mean()
    flat = np.diff(dcsbm(50_000, 16, 4, exponent=8.0, seed=0).indptr) - 1
    assert flat.max() < 8 * flat.mean()


def test_features_tell_classes_apart_as_far_as_signal_says():
    graph = dcsbm(30_000, 2, 3, features=10, signal=4.0, seed=0)
    centres = np.stack([graph.features[graph.labels == c].mean(0) for c in range(3)])
    assert np.allclose(np.linalg.norm(centres, axis=1), 4.0, atol=0.1)
    assert np.allclose(graph.features[graph.labels == 0].std(0), 1.0, atol=0.05)


def test_where_every_node_falls_in_one_class_edges_stay_there():
    for seed in range(20):
        graph = dcsbm(2, avg_degree=4, classes=2, homophily=0.0, seed=seed)
        assert graph.num_nodes == 2


def test_one_class_one_node_and_no_edges_are_graphs_too():
    assert dcsbm(100, 4, 1, homophily=0.0).num_nodes == 100
    assert dcsbm(1, 0, 1).num_edges == 0
    assert dcsbm(10, 0, 2).num_edges == 0


@pytest.mark.parametrize(
    "change",
    [
        {"num_nodes": 0},
        {"avg_degree": -1},
        {"classes": 0},
        {"homophily": 1.1},
        {"features": -1},
        {"exponent": 2.0},
        {"seed": -1},
    ],
)
def test_bad_orders_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        dcsbm(**{"num_nodes": 100, **change})
