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


def slope(f, x, direction, h=1e-3):
    """The derivative of f at x along the direction: central differences, error O(h^6)."""
    at = [float(f(x + i * h * direction)) for i in (-3, -2, -1, 1, 2, 3)]
    return np.dot(at, [-1 / 60, 3 / 20, -3 / 4, 3 / 4, -3 / 20, 1 / 60]) / h


def check_slopes(f, x, dx):
    """dx is the gradient of the scalar f at x, along random directions."""
    for seed in range(5):
        direction = normal(*x.shape, seed=100 + seed)
        assert slope(f, x, direction) == pytest.approx((dx * direction).sum(), rel=1e-7, abs=1e-9)


# --- affine and ReLU ----------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), forms)
def test_affine_is_its_definition(n, p, h, form):
    x, W, b, dy = normal(n, p, form=form), normal(p, h, form=form), normal(h), normal(n, h, seed=1, form=form)
    assert_allclose(
        layers.affine(x, W, b), [oracle_layers.affine(row, W, b) for row in x], rtol=1e-12, atol=1e-13
    )
    dx, dW, db = zip(*[oracle_layers.affine_backward(d, row, W) for d, row in zip(dy, x)])
    assert_allclose(layers.affine_backward_input(dy, W), dx, rtol=1e-12, atol=1e-13)
    computed = layers.affine_backward_parameters(dy, x)
    assert_allclose(computed[0], np.sum(dW, axis=0), rtol=1e-12, atol=1e-13)
    assert_allclose(computed[1], np.sum(db, axis=0), rtol=1e-12, atol=1e-13)


def test_affine_gradients():
    x, W, b, dy = normal(4, 3), normal(3, 2), normal(2), normal(4, 2, seed=1)
    check_slopes(lambda x: (dy * layers.affine(x, W, b)).sum(), x, layers.affine_backward_input(dy, W))
    dW, db = layers.affine_backward_parameters(dy, x)
    check_slopes(lambda W: (dy * layers.affine(x, W, b)).sum(), W, dW)
    check_slopes(lambda b: (dy * layers.affine(x, W, b)).sum(), b, db)


def test_affine_backward_parameters_fills_what_it_is_given():
    dy, x = normal(2, 4, 3), normal(2, 4, 5)
    memory = np.full((2, 18), np.nan)
    out = memory[:, :15].reshape(2, 5, 3), memory[:, 15:]
    layers.affine_backward_parameters(dy, x, out)
    dW, db = layers.affine_backward_parameters(dy, x)
    assert_array_equal(memory, np.concatenate([dW.reshape(2, 15), db], axis=1))


@given(hnp.arrays(float, 6, elements=strategies.finite | strategies.tiny), forms)
def test_relu_is_its_definition(x, form):
    x, dy = frozen(x, form), normal(6)
    assert_array_equal(layers.relu(x), oracle_layers.relu(x))
    assert_array_equal(layers.relu_backward(dy, layers.relu(x)), oracle_layers.relu_backward(dy, x))


def test_relu_and_its_kink():
    x = frozen(np.array([-2.0, -0.0, 0.0, 5e-324, 3.0, np.inf, -np.inf, np.nan]))
    assert_array_equal(layers.relu(x), [0, 0, 0, 5e-324, 3, np.inf, 0, np.nan])
    assert_array_equal(layers.relu_backward(np.full(8, 7.0), layers.relu(x)), [0, 0, 0, 7, 7, 7, 0, 0])


def test_relu_backward_does_not_lose_nan():
    assert np.isnan(layers.relu_backward(np.array([np.nan]), np.array([np.nan]))).all()


# --- convolution --------------------------------------------------------------------------------------------


sizes = st.tuples(*[st.integers(1, 5)] * 2, *[st.integers(1, 3)] * 2)


@given(sizes, st.integers(0, 3), forms, forms)
def test_conv2d_is_its_definition(size, n, form_x, form_K):
    H, W, C, O = size
    x, K, dy = normal(n, H, W, C, form=form_x), normal(3, 3, C, O, form=form_K), normal(n, H, W, O, form=form_x)
    y, dx = layers.conv2d(x, K), layers.conv2d_backward_input(dy, K, x.shape[-3:-1])
    dK = np.zeros(K.shape)
    assert (y.shape, dx.shape) == (dy.shape, x.shape)
    for i in range(n):
        dx_i, dK_i, _ = oracle_layers.conv2d_backward(dy[i], x[i], K)
        assert_allclose(y[i], oracle_layers.conv2d(x[i], K, [0.0] * O), rtol=1e-12, atol=1e-13)
        assert_allclose(dx[i], dx_i, rtol=1e-12, atol=1e-13)
        dK += dK_i
    assert_allclose(layers.conv2d_backward_kernel(dy, x), dK, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("C", [1, 2])
def test_conv2d_gradients(C):
    x, K, dy = normal(2, 4, 5, C), normal(3, 3, C, 3), normal(2, 4, 5, 3, seed=1)
    check_slopes(
        lambda x: (dy * layers.conv2d(x, K)).sum(), x, layers.conv2d_backward_input(dy, K, x.shape[-3:-1])
    )
    check_slopes(lambda K: (dy * layers.conv2d(x, K)).sum(), K, layers.conv2d_backward_kernel(dy, x))


@given(sizes, st.tuples(*[st.integers(1, 7)] * 2))
def test_conv2d_of_another_size_is_the_same_cut_or_continued(size, wanted):
    """What lies outside of y has no derivative; beyond the border of x, the definition still holds."""
    (H, W, C, O), (h, w) = size, wanted
    x, K, dy = normal(2, H, W, C), normal(3, 3, C, O), normal(2, h, w, O)
    larger = np.zeros((2, max(H, h), max(W, w), C))
    larger[:, :H, :W] = x
    wide_dy = np.zeros((2, *larger.shape[1:3], O))
    wide_dy[:, :h, :w] = dy
    assert_allclose(layers.conv2d(x, K, wanted), layers.conv2d(larger, K)[:, :h, :w], rtol=1e-12, atol=1e-13)
    dx = layers.conv2d_backward_input(wide_dy, K, larger.shape[1:3])[:, :H, :W]
    assert_allclose(layers.conv2d_backward_input(dy, K, (H, W)), dx, rtol=1e-12, atol=1e-13)
    dK = layers.conv2d_backward_kernel(wide_dy, larger)
    assert_allclose(layers.conv2d_backward_kernel(dy, x), dK, rtol=1e-12, atol=1e-13)


def test_conv2d_is_not_flipped():
    x = np.zeros((1, 3, 3, 1))
    x[0, 0, 0, 0] = 1.0  # seen from the pixel to the lower right, it is at the upper left: K[0, 0]
    K = np.arange(9.0).reshape(3, 3, 1, 1)
    assert_array_equal(layers.conv2d(x, K)[0, :, :, 0], [[4, 3, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("C", [1, 3])
def test_columns_are_the_surroundings_in_kernel_order(C):
    x = np.arange(1.0, 2 * 3 * 4 * C + 1).reshape(2, 3, 4, C)
    around = layers.columns(x, 3, 4).reshape(2, 3, 4, 3, 3, C)
    for n, i, j, s, t in np.ndindex(2, 3, 4, 3, 3):
        inside = 0 <= i + s - 1 < 3 and 0 <= j + t - 1 < 4
        assert_array_equal(around[n, i, j, s, t], x[n, i + s - 1, j + t - 1] if inside else np.zeros(C))


# --- max-pooling --------------------------------------------------------------------------------------------


@given(st.data(), st.integers(2, 7), st.integers(2, 7), st.integers(1, 2), forms)
def test_maxpool2d_is_its_definition(data, H, W, C, form):
    x = frozen(data.draw(hnp.arrays(float, (2, H, W, C), elements=strategies.few)), form)
    dy = normal(2, H // 2, W // 2, C, form=form)
    y = layers.maxpool2d(x)
    dx = layers.maxpool2d_backward(dy, x, y)
    for i in range(2):
        y_i, where = oracle_layers.maxpool2d(x[i])
        assert_array_equal(y[i], y_i)
        assert_array_equal(dx[i], oracle_layers.maxpool2d_backward(dy[i], x[i], where))


def test_maxpool2d_ties_go_to_the_first():
    for window in itertools.product([0.0, 1.0], repeat=4):
        x = np.array(window).reshape(1, 2, 2, 1)
        dx = layers.maxpool2d_backward(np.ones((1, 1, 1, 1)), x, layers.maxpool2d(x))
        assert dx.ravel().tolist().index(1.0) == window.index(max(window))
        assert dx.sum() == 1.0


def test_maxpool2d_drops_an_odd_last_row_and_column():
    x = np.zeros((1, 7, 5, 1))
    x[0, 6, :, 0] = x[0, :, 4, 0] = 9.0
    y = layers.maxpool2d(x)
    assert y.shape == (1, 3, 2, 1)
    assert not y.any()
    dx = layers.maxpool2d_backward(np.ones(y.shape), x, y)
    assert dx[0, :6, :4].sum() == dx.sum() == 6


@pytest.mark.parametrize("position", range(4))
def test_maxpool2d_keeps_nan(position):
    x = np.zeros((1, 2, 4, 1))
    x[0, position // 2, position % 2, 0] = np.nan
    y = layers.maxpool2d(x)
    assert_array_equal(y.ravel(), [np.nan, 0.0])
    dx = layers.maxpool2d_backward(np.full(y.shape, np.nan), x, y)
    assert np.isnan(dx).any()


def test_maxpool2d_gradient():
    x, dy = normal(2, 5, 4, 3), normal(2, 2, 2, 3, seed=1)
    dx = layers.maxpool2d_backward(dy, x, layers.maxpool2d(x))
    for seed in range(5):
        direction = normal(*x.shape, seed=100 + seed)
        numeric = slope(lambda x: (dy * layers.maxpool2d(x)).sum(), x, direction, h=1e-5)
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


def test_one_label_set_serves_several_models():
    z, y = normal(4, 6, 3), frozen(np.array([0, 1, 2, -1, 2, 0]))
    expected = np.stack([layers.softmax_cross_entropy(z_l, y) for z_l in z])
    assert_array_equal(layers.softmax_cross_entropy(z, y), expected)


# --- leading axes, dtypes -----------------------------------------------------------------------------------

CASES = {
    "affine": (layers.affine, (4, 3), (3, 2), (2,)),
    "affine_backward_input": (layers.affine_backward_input, (4, 2), (3, 2)),
    "affine_backward_parameters": (lambda dy, x: layers.affine_backward_parameters(dy, x)[0], (4, 2), (4, 3)),
    "affine_backward_bias": (lambda dy, x: layers.affine_backward_parameters(dy, x)[1], (4, 2), (4, 3)),
    "relu": (layers.relu, (4, 3)),
    "relu_backward": (layers.relu_backward, (4, 3), (4, 3)),
    "conv2d": (layers.conv2d, (2, 5, 4, 3), (3, 3, 3, 2)),
    "conv2d of one channel": (layers.conv2d, (2, 5, 4, 1), (3, 3, 1, 2)),
    "conv2d_backward_input": (
        lambda dy, K: layers.conv2d_backward_input(dy, K, (5, 4)),
        (2, 5, 4, 2),
        (3, 3, 3, 2),
    ),
    "conv2d_backward_kernel": (layers.conv2d_backward_kernel, (2, 5, 4, 2), (2, 5, 4, 3)),
    "conv2d_backward_kernel, one channel": (layers.conv2d_backward_kernel, (2, 5, 4, 2), (2, 5, 4, 1)),
    "maxpool2d": (layers.maxpool2d, (2, 5, 4, 3)),
    "maxpool2d_backward": (
        lambda dy, x: layers.maxpool2d_backward(dy, x, layers.maxpool2d(x)),
        (2, 2, 2, 3),
        (2, 5, 4, 3),
    ),
    "softmax_cross_entropy": (lambda z: layers.softmax_cross_entropy(z, np.array([0, -1, 2, 1])), (4, 3)),
    "softmax_cross_entropy_backward": (
        lambda z: layers.softmax_cross_entropy_backward(z, np.array([0, -1, 2, 1])),
        (4, 3),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_batched_equals_looped(name, form, dtype):
    layer, *shapes = CASES[name]
    inputs = [normal(2, 3, *shape, seed=i, dtype=dtype, form=form) for i, shape in enumerate(shapes)]
    y, eps = layer(*inputs), 100 * np.finfo(dtype).eps
    assert y.dtype == dtype
    for k in np.ndindex(2, 3):
        assert_allclose(y[k], layer(*[x[k] for x in inputs]), rtol=eps, atol=eps)
        one = layer(*[x[k][None] for x in inputs])
        assert_array_equal(one[0], layer(*[x[k] for x in inputs]))


@pytest.mark.parametrize("C", [1, 3])
def test_receivers_samples_meet_every_model(C):
    x, K = normal(4, 1, 2, 5, 4, C), normal(3, 3, 3, C, 2)
    y = layers.conv2d(x, K)
    assert y.shape == (4, 3, 2, 5, 4, 2)
    for k, l in np.ndindex(4, 3):
        assert_allclose(y[k, l], layers.conv2d(x[k, 0], K[l]), rtol=1e-13, atol=1e-14)
    a, W, b = normal(4, 1, 6, 5), normal(3, 5, 2), normal(3, 2)
    y = layers.affine(a, W, b)
    for k, l in np.ndindex(4, 3):
        assert_allclose(y[k, l], layers.affine(a[k, 0], W[l], b[l]), rtol=1e-13, atol=1e-14)
