"""Distances by products equal those by differences, and decide as they do."""

import contextlib
import itertools
import math

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate
from refimpl.fast import distances


@contextlib.contextmanager
def distances_by(products):
    """By products also of few numbers, or by differences also of many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "PRODUCTS", 0 if products else math.inf)
        yield


def squared_distances(V):
    """What the choice among the models V (n, d) is made by, in their dtype."""
    V = aggregate.as_float(V)
    if V.dtype.kind != "f":
        return distances.or_infinite(distances.by_differences(V))
    with np.errstate(all="ignore"):
        return distances.between(V).astype(V.dtype)


both = pytest.mark.parametrize("products", [False, True], ids=["differences", "products"])


@both
def test_distances_between_models_that_agree_to_ten_digits_far_from_the_origin(products):
    rng = np.random.default_rng(0)
    offsets = rng.integers(-512, 512, size=(6, 50)) / 2**24  # exact beside 1e6, and below its tenth digit
    W = 1e6 + offsets
    exact = ((offsets[:, None] - offsets) ** 2).sum(axis=-1)
    with distances_by(products):
        assert_allclose(squared_distances(W), exact, rtol=1e-9)
    gram = (W**2).sum(1)[:, None] + (W**2).sum(1) - 2 * W @ W.T
    assert np.abs(gram - exact).max() > 0.1 * exact.max()  # the identity that must not be used here


@both
@given(strategies.models(strategies.hard))
def test_squared_distances_equal_the_oracle(products, W):
    exact = oracles.squared_distances(W.tolist())
    expected = [[math.inf if d is None else float(d) for d in row] for row in exact]
    with distances_by(products):
        assert_allclose(squared_distances(W), expected, rtol=1e-9, atol=1e-300)


@both
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_seven_corners_as_far_apart_are_a_tie(products, dtype):
    """Which products alone would break, by rounding."""
    W = np.eye(7, 20, dtype=dtype)
    with distances_by(products):
        for order in itertools.islice(itertools.permutations(range(7)), 0, 5040, 97):
            V = W[list(order)]
            assert_array_equal(distances.krum(V, 2), V[0])
            assert_array_equal(distances.medoid(V), V[0])
            assert_array_equal(distances.krum(np.stack([V, V[::-1]]), 2), V[[0, -1]])


def mirrored(seed):
    """Nine models of which two honest ones, and no other, are nearest to the rest: mirror images of each other.

    They differ in the sign of the first coordinate, in which five others are 0, so by differences they are
    exactly as far from all of these. Products are taken about a model in the midst of all, as far as every
    other coordinate shows: here an attacker, which is far away in the rest. That costs them three digits.
    """
    rng = np.random.default_rng(seed)
    W = np.zeros((9, 600))
    W[:2, 1:] = rng.normal(size=599) / 2
    W[:2, 0] = 0.2, -0.2
    W[2:7, 1:] = rng.normal(size=(5, 599))
    W[7, 0], W[7, 1::2] = 0.05, 20 * rng.normal(size=300)
    W[8] = 60 * rng.normal(size=600)
    return strategies.frozen(W[rng.permutation(9)])


@both
def test_mirrored_models_among_others_are_a_tie(products):
    """A tie of two alone, and one that products see only within their rounding: the lowest index wins it."""
    with distances_by(products):
        for seed in range(40):
            W = mirrored(seed)
            tied = W[np.flatnonzero(abs(W[:, 0]) == 0.2)]
            assert_array_equal(*(aggregate.squared_distances(np.vstack([w, W[W[:, 0] == 0]]))[0] for w in tied))
            assert_array_equal(distances.krum(W, 2), tied[0])
            assert_array_equal(aggregate.krum(W, 2), tied[0])


def test_sums_that_products_cannot_tell_apart_are_rivals():
    """Distances are right to 1e-9: below that, differences have to decide, also between two."""
    best, rivals = distances.smallest(np.array([[1 + 5e-10], [1.0], [1 + 1e-8]]))
    assert best == 1
    assert_array_equal(rivals, [True, True, False])


@both
def test_rounding_decides_no_tie(products):
    """Each model has the same eight numbers in a place of its own: as far apart, but not for a product."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        W = np.kron(np.eye(7), rng.normal(size=8))
        assert np.ptp(aggregate.squared_distances(W)[~np.eye(7, dtype=bool)]) == 0
        with distances_by(products):
            assert_array_equal(distances.krum(W, 2), W[0])
            assert_array_equal(distances.medoid(W), W[0])


def test_distances_of_models_that_begin_alike():
    W = np.random.default_rng(0).normal(size=(4, 40))
    W[:, :30] = W[0, :30]
    assert_allclose(distances.by_products(W), aggregate.squared_distances(W), rtol=1e-9)


def test_models_sent_twice_are_looked_at_once(monkeypatch):
    looked, about_one = [], distances._about_one
    monkeypatch.setattr(distances, "_about_one", lambda V: looked.append(len(V)) or about_one(V))
    W = np.random.default_rng(0).normal(size=(9, 40))
    W[[0, 3, 4, 7]] = W[0]
    W[8] = np.nan
    assert_allclose(distances.by_products(W)[:8, :8], aggregate.squared_distances(W[:8]), rtol=1e-9)
    assert looked == [5]


@both
@given(strategies.models(strategies.few | strategies.poison, least=7), st.integers(1, 2))
def test_choices_are_those_of_the_specification(products, W, f):
    with distances_by(products):
        assert_array_equal(distances.krum(W, f), aggregate.krum(W, f))
        assert_array_equal(distances.medoid(W), aggregate.medoid(W))
        two = np.stack([W, W[::-1]])
        assert_array_equal(distances.medoid(two), [aggregate.medoid(V) for V in two])


@both
def test_float32_overflows_as_in_the_specification(products):
    """Products are in float64, where squares of 1e30 are numbers: by these the five far away would win."""
    W = np.random.default_rng(0).normal(size=(9, 40)).astype("float32")
    W[[0, 3, 4, 6, 7]] = 1e30 * np.array([1, 1, 1, 0.97, 0.97])[:, None]
    with distances_by(products):
        assert_array_equal(distances.medoid(W), aggregate.medoid(W))
        assert_array_equal(distances.krum(W, 2), aggregate.krum(W, 2))
        assert_array_equal(np.isinf(squared_distances(W)), np.isinf(aggregate.squared_distances(W)))


@both
def test_distances_of_whole_numbers_are_whole(products):
    W = np.random.default_rng(0).integers(-3, 4, (5, 60))
    with distances_by(products):
        assert_array_equal(squared_distances(W), ((W[:, None] - W) ** 2).sum(axis=-1))


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bool"])
def test_narrow_numbers_are_taken_as_float64(products, dtype):
    """In their own type differences wrap around, squares overflow, or booleans have none."""
    rng = np.random.default_rng(0)
    W = rng.integers(0, 2, (7, 50)) if dtype == "bool" else rng.integers(0, 128, (7, 50))
    exact = ((W[:, None] - W) ** 2).sum(axis=-1)
    narrow = W.astype(dtype)
    with distances_by(products):
        for module, distances_of in ((aggregate, aggregate.squared_distances), (distances, squared_distances)):
            assert distances_of(narrow).dtype == "float64"
            assert_allclose(distances_of(narrow), exact, rtol=1e-9)
            for chosen, expected in (
                (module.krum(narrow, 2), aggregate.krum(W.astype("float64"), 2)),
                (module.medoid(narrow), aggregate.medoid(W.astype("float64"))),
            ):
                assert chosen.dtype == dtype
                assert_array_equal(chosen, expected)


@pytest.mark.parametrize("floats", [0, 50, 1000])
def test_a_few_coordinates_at_a_time_change_nothing(floats, monkeypatch):
    W = np.random.default_rng(0).normal(size=(3, 5, 40))
    expected = [aggregate.squared_distances(V) for V in W]
    monkeypatch.setattr(distances, "FLOATS", floats)
    monkeypatch.setattr(distances, "device_factor", lambda xp: 1)
    for products in (False, True):
        with distances_by(products):
            assert_allclose([squared_distances(V) for V in W], expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [600, 56806])
@pytest.mark.parametrize("what", ["spread", "clusters", "pairs", "repeated", "chain", "nested", "lost"])
def test_distances_by_products_are_those_by_differences(what, d, dtype):
    """What makes pairs close: attackers far away from the others, models sent twice, one near the next."""
    rng = np.random.default_rng(d)
    W = rng.normal(size=(8, d))
    if what == "clusters":
        W = 1e4 * W[[0, 0, 0, 1, 1, 2, 2, 2]] + 1e-4 * W
    if what == "pairs":  # far from each other, and each nearly equal: products would be off by 1e-7
        W = W[[0, 0, 1, 1, 2, 2, 3, 3]] + 1e-4 * W
    if what == "repeated":
        W[2:6] = W[2]
    if what == "chain":
        W = W[0] + 1e-6 * np.arange(8)[:, None] ** 4 * W[1]
    if what == "nested":
        W = W[0] + 10.0 ** -np.arange(8)[:, None] * W
    if what == "lost":
        W[3, 5], W[4, 6], W[5] = np.nan, np.inf, 1e15 * W[5]
    W = strategies.frozen(np.stack([W, W[::-1]]).astype(dtype))
    expected = np.stack([aggregate.squared_distances(V.astype("float64")) for V in W])
    with distances_by(products=True):
        computed = np.stack([squared_distances(V) for V in W])
    assert computed.dtype == dtype
    assert_array_equal(computed, computed.swapaxes(1, 2))
    assert_allclose(computed, expected.astype(dtype), rtol=1e-9 if dtype == "float64" else 1e-6)


def test_too_few_models_are_refused():
    with pytest.raises(ValueError, match=r"krum needs n >= 2f \+ 3 models, got n=6, f=2"):
        distances.krum(np.ones((6, 2)), 2)
