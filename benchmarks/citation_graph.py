"""A citation graph of any size, row by row: neither edges nor degrees are ever stored, and nothing is sorted but a row.

Nodes have positions, the famous ones first. Position ``p`` is rank ``p // C`` of community ``p % C``, and ids are a
permutation of positions, so that neither fame nor community shows in the order of the files.

A *layer* lets each of the first ``citing`` ranks of a community (or positions of the graph) cite one other. A
permutation scatters those who cite, and the place ``x`` where one lands decides whom it cites: rank
``floor(size * (x / citing)^3)``. So rank ``r`` is cited from an interval of places, about ``r^(-2/3)`` long, which the
permutation takes back to those who cite it. That is a power law of exponent 2.5, and it gives each row directly:
references by permutations forwards, citations backwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from feistel import MAX_SIZE, back, digit_bits, forth, origin, permute, permuted, scramble, unpermute
from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray

COMMUNITIES = 172
LAYERS_WITHIN, LAYERS_ACROSS = 22, 6  # 79% of the references stay in their community
ROUNDING = 1e-4  # far above the error of a double below MAX_SIZE


class Layers(NamedTuple):
    """Who cites among ``size`` ranks: of layer ``i`` the first ``citing[i]``, scattered by ``keys[i]``."""

    size: int
    bits: np.uint32
    citing: AnyArray
    keys: AnyArray


class Plan(NamedTuple):
    """All that the rows follow from. Communities differ in size by one node: ``larger`` of them have one more."""

    nodes: int
    key: np.uint32
    bits: np.uint32
    across: Layers
    small: Layers
    large: Layers
    larger: int


def make_plan(nodes: int, edges: int, seed: int) -> Plan:
    """A graph of so many nodes and about so many edges: to one in a hundred from a million nodes on."""
    if not COMMUNITIES <= nodes <= MAX_SIZE:
        raise InputError(f"nodes={nodes:,}: expected {COMMUNITIES} to {MAX_SIZE:,}, one a community at least")
    keys = np.random.default_rng(seed).integers(0, 2**32, 1 + LAYERS_ACROSS + LAYERS_WITHIN, np.uint32)
    across, within = keys[1 : 1 + LAYERS_ACROSS], keys[1 + LAYERS_ACROSS :]
    size, larger = divmod(nodes, COMMUNITIES)
    least = _least_share(nodes, edges)
    return Plan(
        nodes,
        keys[0],
        np.uint32(digit_bits(nodes)),
        _layers(nodes, across, least),
        _layers(size, within, least),
        _layers(size + 1, within, least),
        larger,
    )


def _layers(size: int, keys: AnyArray, least: float) -> Layers:
    citing = np.ceil(size * np.linspace(1.0, least, keys.size)).astype(np.uint32)
    return Layers(size, np.uint32(digit_bits(size)), citing, keys)


def _least_share(nodes: int, edges: int) -> float:
    """The share of nodes that cite in the last layer, all citing in the first, so that there are so many edges."""
    least = 0.0
    for _ in range(20):  # each round takes back what the last one lost to repeats
        repeats = _repeats(nodes, LAYERS_ACROSS, least) + _repeats(nodes // COMMUNITIES, LAYERS_WITHIN, least)
        least = 2 * (edges / nodes + repeats) / (LAYERS_ACROSS + LAYERS_WITHIN) - 1
        least = min(max(least, 0.0), 1.0)
    return least


def _repeats(size: int, layers: int, least: float) -> float:
    """References a node, about, that name whom it cites in an earlier layer too."""
    shares = np.diff(np.cbrt(np.arange(min(size, 10**5) + 1) / size))  # the famous: others are hardly cited twice
    pairs = np.linspace(1.0, least, layers) @ np.arange(layers)
    return float(pairs * (shares**2).sum())


def positions(plan: Plan, first: int, last: int) -> AnyArray:
    """The positions of the nodes ``first`` to ``last``."""
    found = np.arange(first, last, dtype=np.uint32)
    unpermute(found, np.uint32(plan.nodes), plan.bits, plan.key)
    return found


def ids(plan: Plan, places: AnyArray) -> IntArray:
    """The nodes at some positions."""
    found = np.asarray(places, np.uint32).copy()
    permute(found, np.uint32(plan.nodes), plan.bits, plan.key)
    return found.astype(np.int64)


def labels(plan: Plan, first: int, last: int) -> IntArray:
    """The communities of the nodes ``first`` to ``last``."""
    return positions(plan, first, last).astype(np.int64) % COMMUNITIES


def rows(plan: Plan, first: int, last: int) -> tuple[IntArray, AnyArray]:
    """The lengths of the rows of the nodes ``first`` to ``last``, and the rows: sorted, merged, with a loop each."""
    places = positions(plan, first, last)
    most = _most_entries(plan, places)
    lengths = np.empty(last - first, np.int64)
    out = np.empty(int(most.sum()), np.uint32)
    row, layer = np.empty(int(most.max()), np.uint32), np.empty(int(most.max()), np.uint32)
    starts = np.empty(row.size + 1, np.int64)
    used = _rows(
        np.uint32(plan.nodes), plan.bits, plan.key, *plan.across, *plan.small, *plan.large, plan.larger,
        first, places, row, layer, starts, lengths, out,
    )  # fmt: skip
    return lengths, out[:used]


def _most_entries(plan: Plan, places: AnyArray) -> IntArray:
    """A bound on the length of each row: the intervals of places, each up to one longer by rounding, and itself."""
    most = np.full(places.size, 1.0)
    for layers, ranks in ((plan.across, places), (plan.small, places // np.uint32(COMMUNITIES))):
        begin = np.cbrt(np.minimum(ranks / layers.size, 1.0))
        end = np.cbrt(np.minimum((ranks + 1.0) / layers.size, 1.0))
        most += (layers.citing.sum() + layers.citing.size) * (end - begin) + 3 * layers.citing.size
    return most.astype(np.int64)


@njit(cache=True, nogil=True)
def _rows(
    nodes, bits, key,
    all_size, all_bits, all_citing, all_keys,
    small_size, small_bits, small_citing, small_keys,
    large_size, large_bits, large_citing, large_keys,
    larger, first, places, row, layer, starts, lengths, out,
):  # fmt: skip
    """Rows of the nodes at ``places``, one after the other in ``out``; how many entries they take."""
    communities = np.uint32(COMMUNITIES)
    used = 0
    for i in range(places.size):
        rank, community = np.uint32(places[i] // communities), np.uint32(places[i] % communities)
        own = scramble(community, np.uint32(0))  # so that no community is the image of another
        if community < larger:
            found = _neighbours(rank, large_size, large_bits, large_citing, large_keys, own, row, layer, 0)
        else:
            found = _neighbours(rank, small_size, small_bits, small_citing, small_keys, own, row, layer, 0)
        for j in range(found):
            row[j] = np.uint32(row[j] * communities + community)
        found = _neighbours(places[i], all_size, all_bits, all_citing, all_keys, np.uint32(0), row, layer, found)
        permute(row[:found], nodes, bits, key)
        row[found] = np.uint32(first + i)
        lengths[i] = _merge(row[: found + 1], nodes, starts, out[used:])
        used += lengths[i]
    return used


@njit(cache=True, nogil=True)
def _neighbours(rank, size, bits, citing, keys, own, row, layer, found):
    """Whom ``rank`` cites and who cites it, over all layers, from ``row[found]`` on; where they end.

    The loops that permute have no branch, so that they are vectorised; the rare misses are mended after them.
    """
    cites = 0
    while cites < citing.size and rank < citing[cites]:  # in later layers, fewer cite
        cites += 1
    for i in range(cites):
        row[found + i] = forth(rank, citing[i], bits, np.uint32(keys[i] ^ own))
    for i in range(cites):
        if row[found + i] >= citing[i]:
            row[found + i] = permuted(row[found + i], citing[i], bits, np.uint32(keys[i] ^ own))
        row[found + i] = _cited(np.int64(row[found + i]), citing[i], size)
    cited = found + cites
    found = _places(rank, size, citing, row, layer, cited)
    for i in range(cited, found):
        row[i] = back(row[i], citing[layer[i]], bits, np.uint32(keys[layer[i]] ^ own))
    for i in range(cited, found):
        if row[i] >= citing[layer[i]]:
            row[i] = origin(row[i], citing[layer[i]], bits, np.uint32(keys[layer[i]] ^ own))
    return found


@njit(cache=True, nogil=True)
def _places(rank, size, citing, row, layer, found):
    """The places that cite ``rank``, and the layer of each, from ``row[found]`` on; where they end."""
    begin, end = np.cbrt(rank / size), np.cbrt((rank + 1.0) / size)
    for i in range(citing.size):
        first = _first_place(begin, np.int64(rank), citing[i], size)
        last = _first_place(end, np.int64(rank) + 1, citing[i], size)
        for place in range(first, last):
            row[found] = place
            layer[found] = i
            found += 1
    return found


@njit(cache=True, nogil=True)
def _cited(place, citing, size):
    """The rank that whoever lands at ``place`` cites; never falls as ``place`` grows."""
    share = place / np.float64(citing)
    return np.int64(size * (share * share * share))


@njit(cache=True, nogil=True)
def _first_place(share, rank, citing, size):
    """The first place that cites ``rank`` or one behind it, by the cube root ``share`` of ``rank / size``.

    Where rounding could make a difference, :func:`_cited` has the word.
    """
    guess = citing * share
    place = np.int64(np.ceil(guess))
    if ROUNDING < place - guess < 1 - ROUNDING:
        return place
    place = min(place, np.int64(citing))
    while place > 0 and _cited(place - 1, citing, size) >= rank:
        place -= 1
    while place < citing and _cited(place, citing, size) < rank:
        place += 1
    return place


@njit(cache=True, nogil=True)
def _merge(row, nodes, starts, out):
    """``row`` to ``out``, sorted, repeats merged; how many are left.

    Ids are evenly spread, so dealing them out to as many buckets as there are ids all but sorts them.
    """
    scale = (np.uint64(row.size) << np.uint64(32)) // np.uint64(nodes)
    starts[: row.size + 1] = 0
    for i in range(row.size):
        starts[((row[i] * scale) >> np.uint64(32)) + np.uint64(1)] += 1
    for i in range(row.size):
        starts[i + 1] += starts[i]
    for i in range(row.size):
        bucket = (row[i] * scale) >> np.uint64(32)
        out[starts[bucket]] = row[i]
        starts[bucket] += 1
    for i in range(1, row.size):
        value, j = out[i], i
        while j > 0 and out[j - 1] > value:
            out[j] = out[j - 1]
            j -= 1
        out[j] = value
    kept = 1
    for i in range(1, row.size):
        new = out[i] != out[kept - 1]
        out[kept] = out[i]
        kept += new
    return kept
