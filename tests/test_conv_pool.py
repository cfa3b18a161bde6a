"""The fast convolution with pooling against the plain form of each, forwards and backwards."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import frozen

from refimpl import layers
from refimpl.fast import conv_pool
from refimpl.fast.conv_pool import conv_pool_backward


def normal(*shape, seed=0):
    return frozen(np.random.default_rng([seed, *shape]).normal(size=shape))


def inside(x):
    """(..., n, H, W, C), samples first as in `layers`, to (..., H, W, n, C)."""
    return np.moveaxis(x, -4, -2)


def outside(x):
    return np.moveaxis(x, -2, -4)


def convolved(x, K):
    """`layers.conv2d` without a bias."""
    return layers.conv2d(x, K, np.zeros(K.shape[-1], x.dtype))


def plain(x, K, dy):
    """y, dK and dx by the functions of `layers`, for each of the leading axes."""
    if x.ndim > 4:
        return [np.stack(parts) for parts in zip(*map(plain, x, K, dy), strict=True)]
    z = convolved(x, K)
    (dz,) = layers.maxpool2d_backward(dy, z)
    dx, dK, _ = layers.conv2d_backward(dz, x, K, np.zeros(K.shape[-1], x.dtype))
    return layers.maxpool2d(z), dK, dx


def fast(x, K, dy, image=False):
    saved = []
    y = conv_pool.conv_pool(inside(x), K, saved, image)
    assert_array_equal(y, conv_pool.conv_pool(inside(x), K, image=image))  # saving changes nothing
    dK, dx = conv_pool_backward(inside(dy), saved[0])
    return outside(y), dK, None if dx is None else outside(dx)


@pytest.mark.parametrize("step", [1, 2**17])  # a row of windows at a time, and all
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
@pytest.mark.parametrize(
    ("H", "W", "C", "O"), [(2, 2, 1, 1), (6, 6, 2, 3), (7, 7, 3, 2), (5, 8, 4, 1), (3, 2, 2, 2)]
)
def test_it_is_the_plain_form(H, W, C, O, lead, step, monkeypatch):
    monkeypatch.setattr(conv_pool, "FLOATS", step)
    x, K, dy = normal(*lead, 4, H, W, C), normal(*lead, 3, 3, C, O), normal(*lead, 4, H // 2, W // 2, O, seed=1)
    for computed, expected in zip(fast(x, K, dy), plain(x, K, dy), strict=True):
        assert_allclose(computed, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2**17])
@pytest.mark.parametrize(("H", "W"), [(2, 2), (6, 6), (7, 5)])
def test_an_image_is_not_transformed(H, W, step, monkeypatch):
    monkeypatch.setattr(conv_pool, "FLOATS", step)
    x, K, dy = normal(3, 4, H, W, 1), normal(3, 3, 3, 1, 5), normal(3, 4, H // 2, W // 2, 5, seed=1)
    y, dK, dx = fast(x, K, dy, image=True)
    expected = plain(x, K, dy)
    assert_allclose(y, expected[0], rtol=1e-12, atol=1e-14)
    assert_allclose(dK, expected[1], rtol=1e-12, atol=1e-14)
    assert dx is None


@pytest.mark.parametrize("image", [False, True])
def test_many_models_share_one_batch(image):
    x, K = normal(1, 4, 6, 6, 1 if image else 3), normal(5, 3, 3, 1 if image else 3, 2)
    y = conv_pool.conv_pool(inside(x), K, image=image)
    assert y.shape == (5, 3, 3, 4, 2)
    for k in range(5):
        assert_allclose(y[k], conv_pool.conv_pool(inside(x)[0], K[k], image=image), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("image", [False, True])
def test_ties_of_a_background_are_exact_and_go_to_the_first(image):
    """Much of a digit's picture has one value: all four pixels of a window are equal, at the border two.

    They must stay so, or rounding would decide which of them learns. 0.1 is not exact.
    """
    C = 1 if image else 3
    x, K = np.full((1, 10, 10, C), 0.1), normal(3, 3, C, 7)
    z = convolved(np.ones((1, 10, 10, C)), np.round(8 * K))  # the same ties, without rounding
    (where,) = layers.maxpool2d_backward(np.ones((1, 5, 5, 7)), z)
    expected = where.reshape(5, 2, 5, 2, 7).transpose(0, 1, 3, 2, 4).reshape(5, 4, 5, 1, 7)
    saved = []
    conv_pool.conv_pool(inside(x), np.round(8 * K), saved, image)
    assert_array_equal(np.concatenate([step[-1] for step in saved[0].steps]), expected)


def test_float32_loses_no_more_than_the_plain_form_times_ten():
    x, K = normal(8, 14, 14, 32), normal(3, 3, 32, 64) / 17
    exact = layers.maxpool2d(convolved(x, K))
    x, K = x.astype("f4"), K.astype("f4")
    y = outside(conv_pool.conv_pool(inside(x), K))
    assert y.dtype == np.float32
    error, usual = (abs(z - exact).max() for z in (y, layers.maxpool2d(convolved(x, K))))
    assert error < 10 * usual < 1e-4


@pytest.mark.parametrize("image", [False, True])
def test_mixed_precision_is_the_wider(image):
    C = 1 if image else 2
    x, K, dy = normal(2, 6, 6, C).astype("float32"), normal(3, 3, C, 3), normal(2, 3, 3, 3, seed=1)
    y, dK, _ = fast(x, K, dy, image)
    expected = plain(x.astype("float64"), K, dy)
    assert y.dtype == dK.dtype == np.float64
    assert_allclose(y, expected[0], rtol=1e-10, atol=1e-12)
    assert_allclose(dK, expected[1], rtol=1e-10, atol=1e-12)


def test_an_image_has_one_channel():
    with pytest.raises(ValueError, match="one channel, got 2"):
        conv_pool.conv_pool(np.ones((4, 4, 1, 2)), np.ones((3, 3, 2, 1)), image=True)


def test_nan_reaches_the_output():
    x, K = np.zeros((1, 6, 6, 2)), np.ones((3, 3, 2, 1))
    x[0, 2, 3, 1] = np.nan
    y = outside(conv_pool.conv_pool(inside(x), K))
    assert_array_equal(np.isnan(y), np.isnan(layers.maxpool2d(convolved(x, K))))


def test_no_samples():
    x, K, dy = np.zeros((0, 6, 6, 2)), np.ones((3, 3, 2, 4)), np.zeros((0, 3, 3, 4))
    y, dK, dx = fast(x, K, dy)
    assert y.shape == (0, 3, 3, 4)
    assert dx.shape == x.shape
    assert not dK.any()
