import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import optim


def test_sgd_by_hand():
    W, state = optim.sgd(np.array([1.0, 2.0]), np.array([10.0, -10.0]), None, 0.1)
    assert_array_equal(W, [0, 3])
    assert state is None


def adam_by_the_book(w, gradients, lr):
    """Kingma and Ba 2015, Algorithm 1, for one parameter."""
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        w -= lr * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


@given(st.lists(st.lists(st.floats(-10, 10), min_size=2, max_size=2), min_size=1, max_size=6))
def test_adam_equals_the_book(gradients):
    W, state = np.array([0.5, -3.0]), None
    for g in gradients:
        W, state = optim.adam(W, np.array(g), state, 0.02)
    for i in range(2):
        expected = adam_by_the_book([0.5, -3.0][i], [g[i] for g in gradients], 0.02)
        assert W[i] == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", optim.OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_keep_dtype_and_inputs_and_treat_workers_apart(name, dtype):
    step, rng = optim.OPTIMIZERS[name], np.random.default_rng(0)
    W, G = (rng.normal(size=(3, 4)).astype(dtype) for _ in range(2))
    for array in (W, G):
        array.flags.writeable = False
    once, state = step(W, G, None, 0.1)
    twice, _ = step(once, G, state, 0.1)
    assert twice.dtype == dtype
    for k in range(3):
        one, own = step(W[k], G[k], None, 0.1)
        assert_allclose(step(one, G[k], own, 0.1)[0], twice[k], rtol=1e-6)
