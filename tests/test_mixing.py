"""Mixing weights, by hand and by what they promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from refimpl import graphs
from refimpl.mixing import metropolis_weights


def test_a_path_of_three_by_hand():
    """Degrees 1, 2, 1: every edge weighs 1 / 3."""
    path = graphs.from_edges(3, [(0, 1), (1, 2)])
    assert_allclose(metropolis_weights(path) * 3, [[2, 1, 0], [1, 1, 1], [0, 1, 2]])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("p", [0.2, 0.7])
def test_symmetric_and_doubly_stochastic(n, p):
    graph = graphs.erdos_renyi(n, p, np.random.default_rng(n))
    W = metropolis_weights(graph)
    assert_allclose(W, W.T)
    assert_allclose(W.sum(axis=0), 1)
    assert (W.diagonal() > 0).all()
    assert ((W > 0) == graph).all()


def test_a_directed_graph_is_refused():
    graph = np.eye(3, dtype=bool)
    graph[2, 0] = True
    with pytest.raises(ValueError, match="needs an undirected graph, but worker 0 sends to 2 only"):
        metropolis_weights(graph)
