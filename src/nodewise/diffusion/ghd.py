"""GHD, the general heat diffusion: how much weight a hop gets.  Eq. (4):  U(l) = omega^l / (l!)^rho / C."""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import gammaln

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, DoubleArray
from nodewise.graph.checks import check_number

NEGLIGIBLE = 1e-12  # a hop with less than this share of the total weight changes no float32 result
MOST_HOPS = 1_000_000


def ghd(omega: float, rho: float, hops: int | AnyArray) -> DoubleArray:
    """``U(l)`` for ``l = 0..hops``, or for an array of hops.

    ``rho = 1`` is the heat kernel (HKPR), ``rho = 0`` is personalised PageRank with ``alpha = 1 - omega``.

    >>> ghd(0.5, 0.0, 3)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    """
    check_ghd(omega, rho)
    wanted = np.arange(hops + 1) if isinstance(hops, int | np.integer) else np.asarray(hops)
    if np.min(hops, initial=0) < 0:
        raise InputError(f"hops={hops}: expected 0 or more")
    unscaled, log_total = _log_terms(omega, rho)
    return np.exp(_log_term(omega, rho, wanted) - unscaled - log_total)


def last_hop(omega: float, rho: float) -> int:
    """The hop after which each hop has less than ``NEGLIGIBLE`` of the total weight."""
    check_ghd(omega, rho)
    return _last_hop(omega, rho)


@functools.lru_cache(maxsize=256)
def _last_hop(omega: float, rho: float) -> int:
    peak, log_total = _log_terms(omega, rho)
    hop = _peak_hop(omega, rho)
    low, high = hop, max(1, 2 * hop)
    floor = peak + log_total + math.log(NEGLIGIBLE)
    while _log_term(omega, rho, high) >= floor:
        low, high = high, 2 * high
    while high - low > 1:  # past the peak the terms only fall
        middle = (low + high) // 2
        low, high = (middle, high) if _log_term(omega, rho, middle) >= floor else (low, middle)
    return low


def check_ghd(omega: float, rho: float) -> None:
    """Raise unless ``omega`` and ``rho`` give a sum that exists and a peak within reach."""
    check_number("omega", omega, "a number above 0", 0, strictly=True)
    check_number("rho", rho, "a number of at least 0", 0)
    if rho == 0 and omega >= 1:
        raise InputError(
            f"rho=0 with omega={omega}: the weights of the hops have no finite sum. Take omega below 1 (PageRank with "
            f"alpha = 1 - omega), or rho above 0"
        )
    if rho > 0 and math.log(omega) > rho * math.log(MOST_HOPS / 10):
        raise InputError(
            f"omega={omega} with rho={rho} puts the weight around hop {math.exp(min(700, math.log(omega) / rho)):.0e}, "
            f"too far to compute. Lower omega or raise rho"
        )


def _log_term(omega: float, rho: float, hop: AnyArray | int) -> DoubleArray:
    """``log(omega^l / (l!)^rho)``."""
    hop = np.asarray(hop, np.float64)
    return np.asarray(hop * math.log(omega) - rho * gammaln(hop + 1))


def _peak_hop(omega: float, rho: float) -> int:
    """The hop with the largest term: terms grow while ``omega > (l+1)^rho``."""
    return int(omega ** (1 / rho)) if rho > 0 and omega > 1 else 0


@functools.lru_cache(maxsize=256)
def _log_terms(omega: float, rho: float) -> tuple[float, float]:
    """The largest ``log`` term, and ``log C`` less that: the sum goes on until the next term is under 1e-12 of it."""
    peak = float(_log_term(omega, rho, _peak_hop(omega, rho)))
    total, first, size = 0.0, 0, 256
    while first < MOST_HOPS:
        terms = np.exp(_log_term(omega, rho, np.arange(first, first + size)) - peak)
        total += float(terms.sum())
        first += size
        if first > _peak_hop(omega, rho) and terms[-1] < NEGLIGIBLE * total:
            return peak, math.log(total)
        size *= 2
    raise InputError(
        f"omega={omega} with rho={rho}: the weights still matter after {MOST_HOPS:,} hops. Lower omega or raise rho"
    )
