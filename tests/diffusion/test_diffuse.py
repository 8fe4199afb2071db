"""diffuse: engines against dense matrix powers, conventions, and what does not change a result."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nodewise import Graph, InputError, diffuse, ghd
from nodewise.diffusion import aggregate, exact
from nodewise.diffusion.kernels import walking
from nodewise.diffusion.walks import first_k_neighbours, number_of_walks
from nodewise.graph import synthetic
from oracles import dense_weights, graphs

ENGINES = ("exact", "walks", "stratified")
parameters = st.fixed_dictionaries(
    {"omega": st.floats(0.2, 3), "rho": st.floats(0.3, 1.5), "tau": st.floats(0.2, 2), "seed": st.integers(0, 2**40)}
)


def oracle(d, omega, rho):
    return dense_weights(d.graph, d.nodes, d.lengths, ghd(omega, rho, int(d.lengths.max(initial=0))))


@pytest.fixture(scope="module")
def crowd():
    return synthetic.dcsbm(3000, avg_degree=12, classes=4, features=20, seed=5)


# ---------------------------------------------------------------------- exact


@given(graphs(features=True), parameters, st.sampled_from(["paper", "reference"]))
def test_exact_equals_matrix_powers(g, how, convention):
    d = diffuse(g, np.arange(g.num_nodes), **how, engine="exact", convention=convention)
    expected = oracle(d, how["omega"], how["rho"])
    assert np.allclose(d.matrix.toarray(), expected, atol=1e-5)
    for side in (exact.by_features, exact.by_targets):
        for features in (g.features, sp.csr_matrix(g.features)):
            rows = side(d._task(), features)
            assert np.allclose(rows, expected @ g.features, atol=1e-5)


def test_exact_in_blocks_of_columns_is_the_same(monkeypatch, crowd):
    whole = diffuse(crowd, range(50), engine="exact").apply(crowd.features)
    monkeypatch.setattr(exact, "CACHED_BYTES", 1)
    monkeypatch.setattr(exact, "MOST_BYTES", 1)
    blocks = diffuse(crowd, range(50), engine="exact").apply(crowd.features)
    assert np.array_equal(whole, blocks)


@pytest.mark.parametrize("weight", [1e18, 1e-16, 1e-44])
@pytest.mark.parametrize("value", [1e16, 1e-20])
def test_exact_is_right_at_the_ends_of_what_a_graph_takes(weight, value):
    """Matrix powers in float64. Loops at the least weight that they may have, hubs of more edges than one run."""
    ends = np.concatenate((np.stack([np.zeros(600, int), np.arange(1, 601)]), np.tile(np.arange(601), (2, 1))), axis=1)
    weights = np.where(ends[0] == ends[1], max(weight, 1e-16), weight)
    features = (value * np.random.default_rng(0).standard_normal((601, 3))).clip(-1e16, 1e16).astype(np.float32)
    g = Graph.from_edges(ends, features=features, edge_weight=weights)
    d = diffuse(g, np.arange(20), engine="exact", tau=1.0)
    expected = oracle(d, 1.15, 0.1) @ features.astype(np.float64)
    for side in (exact.by_features, exact.by_targets):
        assert np.allclose(side(d._task(), features), expected, rtol=1e-4, atol=1e-6 * value)


def test_each_target_is_cut_at_its_own_length(lollipop):
    d = diffuse(lollipop, np.arange(8), omega=0.9, rho=0.1, tau=2.0, engine="exact")
    assert len(set(d.lengths.tolist())) > 1
    sums = d.matrix.sum(1).A1
    assert np.allclose(sums, [ghd(0.9, 0.1, int(l)).sum() for l in d.lengths], atol=1e-6)


# ---------------------------------------------------------------------- samplers


@given(graphs(), parameters, st.sampled_from(ENGINES), st.sampled_from(["theta", "walks", "reference"]))
def test_weights_lie_on_reachable_nodes_and_have_the_mass_of_the_hops(g, how, engine, mass):
    d = diffuse(g, np.arange(g.num_nodes), **how, epsilon=0.3, engine=engine, mass=mass, first_k=False)
    expected = oracle(d, how["omega"], how["rho"])
    matrix = d.matrix.toarray()
    assert np.all(matrix[expected == 0] == 0)
    assert np.allclose(matrix.sum(1), expected.sum(1), atol=1e-5)


def test_a_node_without_neighbours_keeps_everything(two_islands):
    for engine in ENGINES:
        d = diffuse(two_islands, [6], omega=0.5, rho=0.0, length=3, epsilon=0.2, engine=engine)
        assert d.matrix.toarray()[0, 6] == pytest.approx(1 - 0.5**4, abs=1e-6)


def test_the_number_of_walks_is_lemma_4_2():
    assert number_of_walks(0.02) == int(np.ceil(8 / 0.02 * np.log(1 / (0.01 * 0.02))))
    assert number_of_walks(0.1, eta=3.0, delta=0.5) == int(np.ceil(18 / 0.1 * np.log(1 / 0.05)))
    assert [first_k_neighbours(e) for e in (0.5, 0.1, 0.05, 0.03, 0.02, 0.01)] == [4, 100, 400, 1112, 2500, 10000]


@pytest.mark.parametrize("seed", range(5))
def test_first_k_stops_after_the_walk_that_reaches_k(crowd, seed):
    """Walks are numbered: the first i walks of a long run are those of a run of i, so the stop can be replayed."""
    epsilon = 0.09
    stopped = diffuse(crowd, [7], epsilon=epsilon, length=5, engine="walks", seed=seed, mass="walks")
    made = int(stopped.walks[0])
    assert 1 < made < number_of_walks(epsilon)
    k = first_k_neighbours(epsilon)
    assert visited_after(crowd, made - 1, seed) < k <= visited_after(crowd, made, seed) == stopped.matrix.nnz


def visited_after(graph, walks, seed):
    from nodewise.diffusion.walks import Sampling, walk

    how = Sampling(ghd(1.15, 0.1, 5), walks, 10**9, "walks", seed, 1)
    return walk(graph, np.array([7]), np.array([5]), how).weights.nodes.size


def test_at_least_one_walk_is_made_however_small_k_is(star):
    d = diffuse(star, [0], epsilon=0.99, length=2, engine="walks")
    assert d.walks.tolist() == [1]


def test_masses_differ_as_defined_when_first_k_stops(crowd):
    how = dict(epsilon=0.09, length=5, engine="walks", seed=3)
    theta, walks, reference = (diffuse(crowd, [7], **how, mass=m) for m in ("theta", "walks", "reference"))
    share = walks.walks[0] / number_of_walks(0.09)
    full = ghd(1.15, 0.1, 5)
    assert share < 0.5
    assert theta.matrix.sum() == pytest.approx(full.sum() * share, rel=1e-5)
    assert walks.matrix.sum() == pytest.approx(full.sum(), rel=1e-5)
    assert reference.matrix.sum() == pytest.approx(full[0] + full[1:].sum() * share, rel=1e-5)
    difference = (reference.matrix - theta.matrix).toarray()[0]
    assert difference[7] == pytest.approx(full[0] * (1 - share), rel=1e-4)
    assert np.all(np.delete(difference, 7) == 0)


@pytest.fixture
def wide_star():
    """Walkers return to its centre: 24 of them visit less than half of 124 nodes, four times as many visit more."""
    return Graph.from_edges(np.stack([np.zeros(2000, int), np.arange(1, 2001)]))


def test_stratified_keeps_as_many_nodes_as_first_k_says(wide_star):
    how = dict(epsilon=0.09, length=5, engine="stratified", seed=1)
    k = first_k_neighbours(0.09)
    found = diffuse(wide_star, [0], **how)
    assert found.walks[0] == 4 * (k // 5)
    assert found.matrix.nnz == k < diffuse(wide_star, [0], **how, first_k=False).matrix.nnz
    everything = diffuse(wide_star, [0], **how, first_k=False).matrix.sum()
    assert found.matrix.sum() < 0.99 * everything  # the others are gone
    scaled = diffuse(wide_star, [0], **how, mass="walks").matrix
    assert scaled.sum() == pytest.approx(everything, rel=1e-5)
    assert np.array_equal(scaled.indices, found.matrix.indices)


def test_walkers_that_move_together_are_as_many_as_find_half_of_k_nodes(crowd):
    """At first K / length, then four times as many, at most theta; in a small graph, soon visited whole, theta."""
    how = dict(epsilon=0.05, length=5, engine="stratified")
    found, theta = diffuse(crowd, range(50), **how), number_of_walks(0.05)
    assert set(found.walks.tolist()) == {80, 320, theta}
    assert (np.diff(found.matrix.indptr)[found.walks < theta] >= 200).all()
    triangle = Graph.from_edges(np.array([[0, 1, 2], [1, 2, 0]]))
    assert diffuse(triangle, [0], **how).walks[0] == theta
    assert diffuse(crowd, [0], **how, first_k=False).walks[0] == theta


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 40))
def test_the_heaviest_over_all_hops_are_kept_and_what_share_of_the_weight_they_have(hops, most):
    """Brute force: sort. Slots are scattered, so that a place in the list is not the place in the table."""
    size, weights = len(hops), [sum(one) for one in hops]
    slots = np.random.default_rng(0).permutation(64)[:size].astype(np.int32)
    keys, values, used = np.zeros(64, np.uint32), np.zeros((64, 2)), slots.copy()
    keys[slots], values[slots] = np.arange(size) + 1, hops
    kept, factor = walking._keep_heaviest(keys, values.ravel(), used, size, 2, most, np.empty(size))
    order = np.argsort(-np.array(weights), kind="stable")[:most]
    assert sorted(keys[used[:kept]] - 1) == sorted(order)
    assert np.count_nonzero(keys) == kept
    assert factor == pytest.approx(sum(weights) / sum(weights[i] for i in order))


def test_weighted_walks_follow_the_weights():
    """A hundred to one: of 7,369 walkers about 73 go the other way; 25 to 150 are nine standard deviations."""
    g = Graph.from_edges(np.array([[0, 0, 0], [0, 1, 2]]), edge_weight=np.array([1e-6, 100.0, 1.0]))
    for engine in ("walks", "stratified"):
        row = diffuse(g, [0], omega=1.0, rho=1.0, length=1, engine=engine).matrix.toarray()[0]
        assert 25 / 7369 < row[2] / (row[1] + row[2]) < 150 / 7369


# ---------------------------------------------------------------------- what does not change a result


@pytest.mark.parametrize("engine", ENGINES)
def test_neither_threads_nor_company_nor_order_change_a_row(crowd, engine):
    how = dict(epsilon=0.05, tau=1.0, engine=engine, seed=11)
    nodes = np.arange(0, 3000, 37)
    together = diffuse(crowd, nodes, **how, threads=1)
    rows, weights = together.apply(crowd.features), together.matrix
    threaded = diffuse(crowd, nodes, **how, threads=3)
    assert np.array_equal(threaded.apply(crowd.features), rows)
    backwards = diffuse(crowd, nodes[::-1], **how, threads=2)
    assert np.array_equal(backwards.apply(crowd.features)[::-1], rows)
    for i in (0, 40, nodes.size - 1):
        alone = diffuse(crowd, nodes[i : i + 1], **how)
        assert abs(alone.matrix - weights[i]).max() == 0
        if engine != "exact":  # alone, exact may propagate the target instead of the features
            assert np.array_equal(alone.apply(crowd.features)[0], rows[i])


def test_seeds_differ_and_repeat(crowd):
    how = dict(epsilon=0.05, engine="walks")
    first, again, other = (diffuse(crowd, [5], **how, seed=s).matrix for s in (1, 1, 2))
    assert abs(first - again).max() == 0
    assert abs(first - other).max() > 0


def test_a_target_named_twice_gets_the_same_row_twice(crowd):
    for engine in ENGINES:
        rows = diffuse(crowd, [9, 9], epsilon=0.1, engine=engine).matrix
        assert abs(rows[0] - rows[1]).max() == 0


# ---------------------------------------------------------------------- features


@pytest.mark.parametrize("engine", ENGINES)
def test_apply_is_the_matrix_product_for_every_kind_of_features(crowd, engine):
    d = diffuse(crowd, range(0, 3000, 100), epsilon=0.05, engine=engine)
    x = crowd.features
    half = x.astype(np.float16)
    frozen = x.copy()
    frozen.flags.writeable = False
    expected = d.matrix @ x.astype(np.float64)
    for features in (x, frozen, sp.csr_matrix(x), np.asfortranarray(x)):
        assert np.allclose(d.apply(features), expected, atol=1e-5)
    assert np.allclose(d.apply(half), d.matrix @ half.astype(np.float64), atol=1e-5)
    assert d.apply(x).dtype == np.float32


def test_memory_mapped_features_need_not_be_in_memory(tmp_path, crowd):
    np.save(tmp_path / "x.npy", crowd.features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for engine in ENGINES:
        d = diffuse(crowd, range(10), epsilon=0.1, engine=engine)
        assert np.array_equal(d.apply(mapped), d.apply(crowd.features))


@given(st.integers(0, 30), st.integers(1, 40), st.integers(1, 9), st.integers(0, 99))
def test_tiles_do_not_change_a_sum(targets, nodes, width, seed):
    rng = np.random.default_rng(seed)
    matrix = sp.random(targets, nodes, 0.3, format="csr", rng=rng, dtype=np.float32)
    weights = aggregate.Weights(matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32), matrix.data)
    x = rng.standard_normal((nodes, width)).astype(np.float32)
    whole = aggregate.weighted_sum(weights, x, threads=1)
    assert np.allclose(whole, matrix @ x, atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "SUMS_BYTES", 16 * width)
        patch.setattr(aggregate, "TILE_ENTRIES", 7)
        assert np.array_equal(aggregate.weighted_sum(weights, x, threads=3), whole)


# ---------------------------------------------------------------------- the planner


def test_auto_is_the_engine_it_names(crowd):
    auto = diffuse(crowd, range(100), epsilon=0.1, seed=4)
    named = diffuse(crowd, range(100), epsilon=0.1, seed=4, engine=auto.engine)
    assert np.array_equal(auto.apply(crowd.features), named.apply(crowd.features))
    assert auto.engine in str(auto.plan)
    assert set(auto.plan.seconds) == {"exact", "stratified"}
    assert auto.plan.seconds[auto.engine] == min(auto.plan.seconds.values())
    assert auto.seconds > 0


def test_a_small_graph_with_many_targets_is_exact_and_a_large_one_with_few_is_sampled(crowd):
    assert diffuse(crowd, np.arange(3000)).engine == "exact"
    large = synthetic.dcsbm(200_000, avg_degree=20, features=64, seed=0)
    assert diffuse(large, range(20), epsilon=0.05).engine != "exact"


def test_no_targets_give_no_rows(crowd):
    for engine in ("auto", *ENGINES):
        d = diffuse(crowd, [], engine=engine)
        assert d.apply(crowd.features).shape == (0, 20)
        assert d.matrix.shape == (0, 3000)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"epsilon": 1.0}, "epsilon=1.0"),
        ({"epsilon": -0.1}, "epsilon=-0.1"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"tau": 0.0}, "tau=0.0"),
        ({"tau": -2.0}, "tau=-2.0"),
        ({"rho": 0.0, "omega": 1.0}, "no finite sum"),
        ({"engine": "magic"}, "engine='magic'"),
        ({"mass": "light"}, "mass='light'"),
        ({"convention": "mine"}, "convention='mine'"),
        ({"threads": 0}, "threads=0"),
        ({"length": -1}, "length=-1"),
        ({"length": 2.7}, "length=2.7"),
        ({"epsilon": 1e-200}, "walks per target"),
        ({"eta": 1e9}, "walks per target"),
        ({"eta": float("inf")}, "eta=inf"),
        ({"tau": "far"}, "tau='far'"),
        ({"epsilon": None}, "epsilon=None"),
        ({"omega": 1000.0, "rho": 0.001}, "around hop"),
        ({"eta": 1.0}, "eta=1.0"),
        ({"delta": 0.0}, "delta=0.0"),
        ({"seed": -1}, "seed=-1"),
        ({"nodes": [99]}, "nodes: entry 0 is 99"),
        ({"nodes": [-1]}, "nodes: entry 0 is -1"),
        ({"nodes": [0.5]}, "whole numbers"),
        ({"nodes": [[0]]}, "list of node ids"),
    ],
)
def test_bad_parameters_are_named(star, change, message):
    arguments = {"nodes": [0], **change}
    with pytest.raises(InputError) as caught:
        diffuse(star, **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("engine", ["exact", "walks"])
@pytest.mark.parametrize(("omega", "rho"), [(5.0, 0.2), (150.0, 1.0)])
def test_weights_that_lie_beyond_all_nodes_are_refused(crowd, engine, omega, rho):
    with pytest.raises(InputError, match="hops that the nodes go; lower omega"):
        diffuse(crowd, [0, 1], omega=omega, rho=rho, length=3, engine=engine)


@pytest.mark.parametrize("per_hop", [False, True])
@pytest.mark.parametrize("targets", [2, 400])  # few are propagated themselves, for many the features are
def test_half_precision_is_that_of_the_sums(targets, per_hop):
    graph = synthetic.dcsbm(400, avg_degree=6, classes=2, features=7, seed=0)
    found = diffuse(graph, np.arange(targets), engine="exact", length=3, per_hop=per_hop)
    half = found.apply(graph.features, dtype="float16")
    assert half.dtype == np.float16
    assert np.allclose(half, found.apply(graph.features), rtol=1e-3, atol=1e-3)


def test_exact_blocks_fit_the_memory_on_small_graphs_too():
    graph = synthetic.dcsbm(5000, avg_degree=4, classes=2, features=64, seed=0)
    for threads in (1, 3):
        found = diffuse(graph, np.arange(5000), engine="exact", threads=threads, memory="2MB")
        widest = max(block.stop - block.start for block in found.blocks(graph.features))
        assert widest * exact.COLUMN_BYTES * 5000 * threads <= 2_000_000


def test_features_of_another_graph_are_refused(star, crowd):
    with pytest.raises(InputError, match="3,000 rows for 5 nodes"):
        diffuse(star, [0]).apply(crowd.features)


def test_features_of_any_number_type_and_sparse_format_are_taken(star):
    for engine in ENGINES:
        d = diffuse(star, [0, 3], engine=engine, epsilon=0.2)
        expected = d.matrix.toarray()
        kinds = [np.eye(5), np.eye(5, dtype=int), sp.eye(5, format="csc"), sp.eye(5, format="coo"), np.eye(5).tolist()]
        for features in kinds:
            assert np.allclose(d.apply(features), expected, atol=1e-6)
    with pytest.raises(InputError, match="num_features"):
        d.apply(np.ones(5))


def test_a_hub_is_summed_exactly():
    """A float32 sum of 200,000 times 0.1 is off by far more than 1e-5."""
    leaves = np.arange(1, 200_001)
    hub = Graph.from_edges(np.stack([np.zeros_like(leaves), leaves]))
    constant = np.full((hub.num_nodes, 3), 0.1, np.float32)
    rows = exact.by_features(diffuse(hub, [0], omega=1.0, rho=1.0, length=1, engine="exact")._task(), constant)
    assert np.allclose(rows, 0.1 * ghd(1.0, 1.0, 1).sum(), rtol=1e-5)


def test_heavy_rows_do_not_blur_the_weights_of_others():
    g = Graph.from_edges(np.array([[0, 2, 2, 2], [1, 3, 4, 5]]), edge_weight=np.array([1e18, 1.0, 2.0, 3.0]))
    assert g.cumulative_weights[g.indptr[2] : g.indptr[3]].tolist() == [1.0, 2.0, 4.0, 7.0]
    expected = diffuse(g, [2], length=1, engine="exact").matrix.toarray()
    for engine in ("walks", "stratified"):
        assert np.allclose(diffuse(g, [2], length=1, engine=engine).matrix.toarray(), expected, atol=0.01)


def test_little_weight_within_reach_is_no_obstacle(crowd):
    """Rows are brought to a length anyhow; only what float32 cannot hold is refused, and never a list of no nodes."""
    far = {"omega": 30.0, "rho": 1.0, "length": 2, "engine": "exact"}  # within two hops 5e-11 of the weight
    rows = diffuse(crowd, [0, 1], **far).matrix.toarray()
    near = ghd(30.0, 1.0, 2)
    assert rows.sum(1) == pytest.approx([near.sum()] * 2, rel=1e-5)
    with pytest.raises(InputError, match="leaves a weight of"):
        diffuse(crowd, [0, 1], **{**far, "omega": 60.0})
    assert diffuse(crowd, [], omega=60.0, rho=1.0, tau=3.0).matrix.shape[0] == 0
