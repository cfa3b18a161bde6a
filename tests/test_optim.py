import numpy as np
import oracle_layers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import optim


def test_sgd_by_hand():
    W, state = optim.sgd(np.array([1.0, 2.0]), np.array([10.0, -10.0]), None, 0.1)
    assert_array_equal(W, [0, 3])
    assert state is None


def test_adams_first_step_is_the_learning_rate():
    """With both moments corrected, m_hat / sqrt(v_hat) is the sign of the gradient, whatever its size."""
    W, _ = optim.adam(np.zeros(4), np.array([1e-3, -1.0, 50.0, 0.0]), None, 0.02)
    assert_allclose(W, [-0.02, 0.02, -0.02, 0], rtol=1e-4)


@pytest.mark.parametrize("name", optim.OPTIMIZERS)
@given(st.lists(st.lists(st.floats(-10, 10), min_size=2, max_size=2), min_size=1, max_size=6))
def test_steps_equal_the_book(name, gradients):
    W, state = np.array([0.5, -3.0]), None
    w, s = [0.5, -3.0], None
    for g in gradients:
        W, state = optim.OPTIMIZERS[name](W, np.array(g), state, 0.02)
        w, s = oracle_layers.OPTIMIZERS[name](w, g, s, 0.02)
    assert_allclose(W, w, rtol=1e-12, atol=1e-15)


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
