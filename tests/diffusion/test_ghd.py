"""GHD against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise import InputError, ghd
from nodewise.diffusion.ghd import NEGLIGIBLE, last_hop


@pytest.mark.parametrize("omega", [0.3, 1.0, 5.0, 20.0])
def test_rho_one_is_the_heat_kernel(omega):
    expected = [math.exp(-omega) * omega**l / math.factorial(l) for l in range(60)]
    assert np.allclose(ghd(omega, 1.0, 59), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("omega", [0.1, 0.5, 0.9, 0.99])
def test_rho_zero_is_pagerank(omega):
    expected = (1 - omega) * omega ** np.arange(60)
    assert np.allclose(ghd(omega, 0.0, 59), expected, rtol=1e-9)


@given(st.floats(0.05, 10), st.floats(0.3, 2))
def test_the_hops_sum_to_one_and_the_tail_is_negligible(omega, rho):
    last = last_hop(omega, rho)
    weights = ghd(omega, rho, last + 50)
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    assert weights[last] >= NEGLIGIBLE * (1 - 1e-9)
    assert np.all(weights[last + 1 :] < NEGLIGIBLE * (1 + 1e-9))


def test_the_papers_smooth_shape_needs_hundreds_of_hops():
    """A fixed number of terms would miss a third of the weight here."""
    direct = np.exp(np.arange(20000) * math.log(1.5) - 0.05 * np.array([math.lgamma(l + 1) for l in range(20000)]) - 90)
    assert np.allclose(ghd(1.5, 0.05, 4000), (direct / direct.sum())[:4001], rtol=1e-8, atol=1e-300)


def test_chosen_hops_are_those_of_the_whole():
    assert np.array_equal(ghd(1.15, 0.1, np.array([7, 0])), ghd(1.15, 0.1, 9)[[7, 0]])


@pytest.mark.parametrize(
    ("omega", "rho", "message"),
    [
        (1.0, 0.0, "no finite sum"),
        (2.0, 0.0, "no finite sum"),
        (0.0, 1.0, "omega=0.0"),
        (-1.0, 1.0, "omega=-1.0"),
        (math.nan, 1.0, "omega=nan"),
        (1.0, -0.1, "rho=-0.1"),
        (1.0, math.inf, "rho=inf"),
        (1.5, 0.01, "around hop 4e+17"),
        (0.99999, 0.0, "still matter"),
    ],
)
def test_parameters_without_a_sum_are_refused(omega, rho, message):
    with pytest.raises(InputError) as caught:
        ghd(omega, rho, 5)
    assert message in str(caught.value)


def test_negative_hops_are_refused():
    with pytest.raises(InputError, match="hops"):
        ghd(1.0, 1.0, -1)
