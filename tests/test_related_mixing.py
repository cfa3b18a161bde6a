"""Mixing matrices, the sum that they are used in, and a compressor."""

import numpy as np
import oracle_related as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate, graphs, related
from refimpl.related import mixing, schedules


@given(st.integers(0, 2**32), st.sampled_from([0, np.nan, np.inf, -np.inf, 1e308]), st.booleans())
def test_mixing_is_eq_3_to_the_bit(seed, odd, ignored):
    """Also with a model that is not finite, of weight 0 or not, and where the sum overflows."""
    rng = np.random.default_rng(seed)
    W, c = rng.normal(size=(5, 7)), rng.random(5)
    W[rng.integers(5), rng.integers(7, size=2)] = odd
    W[0] = W[1] if odd == 1e308 else W[0]
    c[~np.isfinite(W).all(axis=1) & ignored] = 0
    before = W.copy()
    assert_array_equal(mixing.combine(c, W), aggregate.combine(c, W))
    assert_array_equal(W, before)


@given(st.integers(1, 8), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_metropolis_weights_are_symmetric_and_doubly_stochastic(n, p, seed):
    graph = graphs.erdos_renyi(n, p, np.random.default_rng(seed))
    W = related.metropolis_weights(graph)
    assert_array_equal(W, W.T)
    assert_allclose(W.sum(axis=0), 1, rtol=1e-12)
    assert_array_equal(W > 0, graph)
    assert_allclose(
        W, oracle.metropolis([np.flatnonzero(row).tolist() for row in graph]), rtol=1e-12, atol=1e-15
    )


def test_metropolis_weights_on_a_path_and_an_even_ring():
    """1/3 at both edges of the path; on the ring no eigenvalue is -1, as without the "+ 1"."""
    assert_allclose(
        related.metropolis_weights(graphs.from_edges(3, [(0, 1), (1, 2)])),
        [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]],
    )
    assert np.linalg.eigvalsh(related.metropolis_weights(graphs.ring(6))).min() == pytest.approx(-1 / 3)


def test_push_weights_share_out_what_is_sent():
    graph = schedules.one_way(graphs.complete(6), 0.5, np.random.default_rng(0))
    P = related.push_weights(graph)
    assert not np.array_equal(graph, graph.T)
    assert_allclose(P.sum(axis=0), 1)
    assert_array_equal(P > 0, graph)


def test_top_k_by_hand():
    x = np.array([1.0, -3.0, 2.0, -2.0, 0.5])
    assert_array_equal(mixing.top_k(x, 2), [0, -3, 2, 0, 0])  # of 2 and -2 the first
    assert_array_equal(mixing.top_k(x, 5), x)
    ties = np.tile([1.0, -2.0, 2.0, 3.0], 100)  # enough for a sort that is not stable to mix them up
    assert_array_equal(
        mixing.top_k(ties, 103), np.where((ties == 3) | (np.arange(400) < 6) & (ties**2 == 4), ties, 0)
    )
    assert mixing.count_of(0.01, 26) == 1
    assert mixing.count_of(0.01, 250) == 3  # halves up, also where the lower number is even
