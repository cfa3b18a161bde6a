"""Every layer against scalar loops written from its definition, and every gradient against differences."""

import itertools

import numpy as np
import oracle_layers
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from strategies import forms, frozen

from refimpl import layers
from refimpl.arrays import quiet


def normal(*shape, seed=0, dtype=float, form=0):
    return frozen(np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype), form)


def check_slopes(f, x, dx):
    """dx is the gradient of the scalar f at x, along random directions."""
    for seed in range(5):
        direction = normal(*x.shape, seed=100 + seed)
        numeric = oracle_layers.slope(f, x, direction, h=1e-3)
        assert numeric == pytest.approx((dx * direction).sum(), rel=1e-7, abs=1e-9)


# --- affine and ReLU ----------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), forms)
def test_affine_is_its_definition(n, p, h, form):
    x, W, b, dy = normal(n, p, form=form), normal(p, h, form=form), normal(h), normal(n, h, seed=1, form=form)
    assert_allclose(
        layers.affine(x, W, b), [oracle_layers.affine(row, W, b) for row in x], rtol=1e-12, atol=1e-13
    )
    dx, dW, db = zip(*[oracle_layers.affine_backward(d, row, W) for d, row in zip(dy, x)])
    computed = layers.affine_backward(dy, x, W, b)
    for part, expected in zip(computed, (dx, np.sum(dW, axis=0), np.sum(db, axis=0)), strict=True):
        assert_allclose(part, expected, rtol=1e-12, atol=1e-13)


def test_affine_gradients():
    x, W, b, dy = normal(4, 3), normal(3, 2), normal(2), normal(4, 2, seed=1)
    dx, dW, db = layers.affine_backward(dy, x, W, b)
    check_slopes(lambda x: (dy * layers.affine(x, W, b)).sum(), x, dx)
    check_slopes(lambda W: (dy * layers.affine(x, W, b)).sum(), W, dW)
    check_slopes(lambda b: (dy * layers.affine(x, W, b)).sum(), b, db)


@given(hnp.arrays(float, 6, elements=strategies.finite | strategies.tiny), forms)
def test_relu_is_its_definition(x, form):
    x, dy = frozen(x, form), normal(6)
    assert_array_equal(layers.relu(x), oracle_layers.relu(x))
    for either in (x, layers.relu(x)):  # the output may stand for the input
        assert_array_equal(layers.relu_backward(dy, either)[0], oracle_layers.relu_backward(dy, x))


def test_relu_and_its_kink():
    x = frozen(np.array([-2.0, -0.0, 0.0, 5e-324, 3.0, np.inf, -np.inf, np.nan]))
    assert_array_equal(layers.relu(x), [0, 0, 0, 5e-324, 3, np.inf, 0, np.nan])
    assert_array_equal(layers.relu_backward(np.full(8, 7.0), x)[0], [0, 0, 0, 7, 7, 7, 0, 0])


def test_relu_backward_does_not_lose_nan():
    assert np.isnan(layers.relu_backward(np.array([np.nan]), np.array([np.nan]))[0]).all()


# --- convolution --------------------------------------------------------------------------------------------


sizes = st.tuples(*[st.integers(1, 5)] * 2, *[st.integers(1, 3)] * 2)


@given(sizes, st.integers(0, 3), forms, forms)
def test_conv2d_is_its_definition(size, n, form_x, form_K):
    H, W, C, O = size
    x, K, dy = normal(n, H, W, C, form=form_x), normal(3, 3, C, O, form=form_K), normal(n, H, W, O, form=form_x)
    b = normal(O)
    y, (dx, dK, db) = layers.conv2d(x, K, b), layers.conv2d_backward(dy, x, K, b)
    dK_sum, db_sum = np.zeros(K.shape), np.zeros(O)
    assert (y.shape, dx.shape) == (dy.shape, x.shape)
    for i in range(n):
        dx_i, dK_i, db_i = oracle_layers.conv2d_backward(dy[i], x[i], K)
        assert_allclose(y[i], oracle_layers.conv2d(x[i], K, b), rtol=1e-12, atol=1e-13)
        assert_allclose(dx[i], dx_i, rtol=1e-12, atol=1e-13)
        dK_sum += dK_i
        db_sum += db_i
    assert_allclose(dK, dK_sum, rtol=1e-12, atol=1e-13)
    assert_allclose(db, db_sum, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("C", [1, 2])
def test_conv2d_gradients(C):
    x, K, b, dy = normal(2, 4, 5, C), normal(3, 3, C, 3), normal(3), normal(2, 4, 5, 3, seed=1)
    dx, dK, db = layers.conv2d_backward(dy, x, K, b)
    check_slopes(lambda x: (dy * layers.conv2d(x, K, b)).sum(), x, dx)
    check_slopes(lambda K: (dy * layers.conv2d(x, K, b)).sum(), K, dK)
    check_slopes(lambda b: (dy * layers.conv2d(x, K, b)).sum(), b, db)


def test_conv2d_is_not_flipped():
    x = np.zeros((1, 3, 3, 1))
    x[0, 0, 0, 0] = 1.0  # seen from the pixel to the lower right, it is at the upper left: K[0, 0]
    K = np.arange(9.0).reshape(3, 3, 1, 1)
    assert_array_equal(layers.conv2d(x, K, np.zeros(1))[0, :, :, 0], [[4, 3, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("C", [1, 3])
def test_shifts_are_the_surroundings_in_kernel_order(C):
    x = np.arange(1.0, 2 * 3 * 4 * C + 1).reshape(2, 3, 4, C)
    for s, t in np.ndindex(3, 3):
        shifted = layers.shifted(x, s, t)
        for n, i, j in np.ndindex(2, 3, 4):
            inside = 0 <= i + s - 1 < 3 and 0 <= j + t - 1 < 4
            assert_array_equal(shifted[n, i, j], x[n, i + s - 1, j + t - 1] if inside else np.zeros(C))


# --- max-pooling --------------------------------------------------------------------------------------------


@given(st.data(), st.integers(2, 7), st.integers(2, 7), st.integers(1, 2), forms)
def test_maxpool2d_is_its_definition(data, H, W, C, form):
    x = frozen(data.draw(hnp.arrays(float, (2, H, W, C), elements=strategies.few)), form)
    dy = normal(2, H // 2, W // 2, C, form=form)
    y = layers.maxpool2d(x)
    (dx,) = layers.maxpool2d_backward(dy, x)
    for i in range(2):
        y_i, where = oracle_layers.maxpool2d(x[i])
        assert_array_equal(y[i], y_i)
        assert_array_equal(dx[i], oracle_layers.maxpool2d_backward(dy[i], x[i], where))


def test_maxpool2d_ties_go_to_the_first():
    for window in itertools.product([0.0, 1.0], repeat=4):
        x = np.array(window).reshape(1, 2, 2, 1)
        (dx,) = layers.maxpool2d_backward(np.ones((1, 1, 1, 1)), x)
        assert dx.ravel().tolist().index(1.0) == window.index(max(window))
        assert dx.sum() == 1.0


def test_maxpool2d_drops_an_odd_last_row_and_column():
    x = np.zeros((1, 7, 5, 1))
    x[0, 6, :, 0] = x[0, :, 4, 0] = 9.0
    y = layers.maxpool2d(x)
    assert y.shape == (1, 3, 2, 1)
    assert not y.any()
    (dx,) = layers.maxpool2d_backward(np.ones(y.shape), x)
    assert dx[0, :6, :4].sum() == dx.sum() == 6


@pytest.mark.parametrize("position", range(4))
def test_maxpool2d_keeps_nan(position):
    x = np.zeros((1, 2, 4, 1))
    x[0, position // 2, position % 2, 0] = np.nan
    y = layers.maxpool2d(x)
    assert_array_equal(y.ravel(), [np.nan, 0.0])
    (dx,) = layers.maxpool2d_backward(np.full(y.shape, np.nan), x)
    assert np.isnan(dx).any()


def test_maxpool2d_gradient():
    x, dy = normal(2, 5, 4, 3), normal(2, 2, 2, 3, seed=1)
    (dx,) = layers.maxpool2d_backward(dy, x)
    for seed in range(5):
        direction = normal(*x.shape, seed=100 + seed)
        numeric = oracle_layers.slope(lambda x: (dy * layers.maxpool2d(x)).sum(), x, direction, h=1e-5)
        assert numeric == pytest.approx((dx * direction).sum(), rel=1e-7)


# --- softmax cross-entropy ----------------------------------------------------------------------------------


@given(
    hnp.arrays(float, (3, 4), elements=st.floats(-800, 800)),
    hnp.arrays(int, 3, elements=st.integers(-1, 3)),
    forms,
)
def test_softmax_cross_entropy_is_its_definition(z, y, form):
    loss = layers.softmax_cross_entropy(frozen(z, form), frozen(y))
    expected = [oracle_layers.cross_entropy(*row) for row in zip(z.tolist(), y)]
    assert_allclose(loss, expected, rtol=1e-12, atol=1e-14)
    dz = layers.softmax_cross_entropy_backward(frozen(z, form), frozen(y))
    expected = [oracle_layers.cross_entropy_backward(*row) for row in zip(z.tolist(), y)]
    assert_allclose(dz, expected, rtol=1e-10, atol=1e-14)


def test_softmax_cross_entropy_gradient():
    z, y = normal(5, 3), frozen(np.array([0, 2, -1, 1, 1]))
    check_slopes(
        lambda z: layers.softmax_cross_entropy(z, y).sum(), z, layers.softmax_cross_entropy_backward(z, y)
    )


@quiet
def test_softmax_cross_entropy_of_huge_logits():
    inf, nan = np.inf, np.nan
    z = frozen(
        np.array([[1e300, -1e300], [1e300, -1e300], [1e308, -1e308], [inf, 0], [-inf, 0], [nan, 0], [nan, inf]])
    )
    y = frozen(np.array([0, 1, 1, 0, 0, 0, -1]))
    assert_array_equal(layers.softmax_cross_entropy(z, y), [0, 2e300, inf, nan, inf, nan, 0])
    dz = layers.softmax_cross_entropy_backward(z, y)
    assert_array_equal(dz, [[0, 0], [1, -1], [1, -1], [nan, nan], [-1, 1], [nan, nan], [0, 0]])


# --- shapes, dtypes -----------------------------------------------------------------------------------------


def test_flatten_is_row_column_channel_and_back():
    x = normal(2, 3, 4, 5)
    flat = layers.flatten(x)
    assert flat.shape == (2, 60)
    assert flat[1, 1 * 20 + 2 * 5 + 3] == x[1, 1, 2, 3]
    assert_array_equal(layers.flatten_backward(flat, x)[0], x)
    assert layers.flatten(x[:0]).shape == (0, 60)


def test_add_channel_and_back():
    x = normal(2, 3, 4)
    y = layers.add_channel(x)
    assert y.shape == (2, 3, 4, 1)
    assert_array_equal(layers.add_channel_backward(y, x)[0], x)


CASES = {
    "affine": (layers.affine, (4, 3), (3, 2), (2,)),
    "affine_backward": (layers.affine_backward, (4, 2), (4, 3), (3, 2), (2,)),
    "relu": (layers.relu, (4, 3)),
    "relu_backward": (layers.relu_backward, (4, 3), (4, 3)),
    "conv2d": (layers.conv2d, (2, 5, 4, 3), (3, 3, 3, 2), (2,)),
    "conv2d of one channel": (layers.conv2d, (2, 5, 4, 1), (3, 3, 1, 2), (2,)),
    "conv2d_backward": (layers.conv2d_backward, (2, 5, 4, 2), (2, 5, 4, 3), (3, 3, 3, 2), (2,)),
    "maxpool2d": (layers.maxpool2d, (2, 5, 4, 3)),
    "maxpool2d_backward": (layers.maxpool2d_backward, (2, 2, 2, 3), (2, 5, 4, 3)),
    "softmax_cross_entropy": (lambda z: layers.softmax_cross_entropy(z, np.array([0, -1, 2, 1])), (4, 3)),
    "softmax_cross_entropy_backward": (
        lambda z: layers.softmax_cross_entropy_backward(z, np.array([0, -1, 2, 1])),
        (4, 3),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_layers_keep_dtype_and_inputs_in_any_order(name, form, dtype):
    """Inputs are read-only; float32 in gives float32 out, which is the float64 result up to its rounding."""
    layer, *shapes = CASES[name]
    inputs = [normal(*shape, seed=i, dtype=dtype, form=form) for i, shape in enumerate(shapes)]
    results = layer(*inputs)
    expected = layer(*(x.astype(float, order="C") for x in inputs))
    if not isinstance(results, tuple):
        results, expected = (results,), (expected,)
    eps = 100 * np.finfo(dtype).eps
    for y, exact in zip(results, expected, strict=True):
        assert y.dtype == dtype
        assert_allclose(y, exact, rtol=eps, atol=eps)


def test_batches_of_no_rows():
    x, K, b = normal(0, 5, 4, 3), normal(3, 3, 3, 2), normal(2)
    y = layers.conv2d(x, K, b)
    assert y.shape == (0, 5, 4, 2)
    dx, dK, db = layers.conv2d_backward(y, x, K, b)
    assert dx.shape == x.shape
    assert not dK.any()
    assert not db.any()
