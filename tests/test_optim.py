import numpy as np
import oracle_layers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl.optim import OPTIMIZERS, adam, sgd

every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def memory(name, *shape, dtype=float):
    """What an optimiser remembers before its first step; read-only."""
    zeros = np.zeros((OPTIMIZERS[name].slots, *shape), dtype)
    zeros.flags.writeable = False
    return zeros


def test_sgd_by_hand():
    w, after = sgd(np.array([1.0, 2.0]), np.array([10.0, -10.0]), memory("sgd", 2), 0.1, 1)
    assert_array_equal(w, [0, 3])
    assert after.shape == (0, 2)


def test_adams_first_step_is_the_step_size():
    """With both moments corrected, m_hat / sqrt(v_hat) is the sign of the gradient, whatever its size."""
    w, _ = adam(np.zeros(4), np.array([1e-3, -1.0, 50.0, 0.0]), memory("adam", 4), 0.02, 1)
    assert_allclose(w, [-0.02, 0.02, -0.02, 0], rtol=1e-4)


def test_adam_remembers_both_moments():
    """After the gradients 1 and 3: m = 0.9 * 0.1 * 1 + 0.1 * 3, v = 0.999 * 0.001 * 1 + 0.001 * 9."""
    w, both = np.zeros(1), memory("adam", 1)
    for t, g in ((1, 1.0), (2, 3.0)):
        w, both = adam(w, np.array([g]), both, 0.02, t)
    assert_allclose(both, [[0.39], [0.009999]], rtol=1e-12)


@every_optimizer
@given(st.lists(st.lists(st.floats(-10, 10), min_size=2, max_size=2), min_size=1, max_size=6))
def test_steps_equal_the_book(name, gradients):
    """With a step size of its own in each step."""
    W, remembered = np.array([0.5, -3.0]), memory(name, 2)
    w, state = [0.5, -3.0], None
    for t, g in enumerate(gradients, start=1):
        W, remembered = OPTIMIZERS[name].step(W, np.array(g), remembered, 0.02 / t, t)
        w, state = oracle_layers.OPTIMIZERS[name](w, g, state, 0.02 / t)
    assert_allclose(W, w, rtol=1e-12, atol=1e-15)


@every_optimizer
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_keep_dtype_and_inputs_and_treat_workers_apart(name, dtype):
    """All workers at once, with a step size each: what each would do alone."""
    step, rng = OPTIMIZERS[name].step, np.random.default_rng(0)
    W, G = (rng.normal(size=(3, 4)).astype(dtype) for _ in range(2))
    mu = np.array([[0.1], [0.2], [0.05]], dtype)
    for array in (W, G, mu):
        array.flags.writeable = False
    once, remembered = step(W, G, memory(name, 3, 4, dtype=dtype), mu, 1)
    twice, after = step(once, G, remembered, mu, 2)
    assert twice.dtype == after.dtype == dtype
    assert after.shape == (OPTIMIZERS[name].slots, 3, 4)
    for k in range(3):
        one, own = step(W[k], G[k], memory(name, 4, dtype=dtype), float(mu[k, 0]), 1)
        one, own = step(one, G[k], own, float(mu[k, 0]), 2)
        assert_allclose(one, twice[k], rtol=1e-6)
        assert_allclose(own, after[:, k], rtol=1e-6)
