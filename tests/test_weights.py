"""Eq. (5), (6) and (3): the weights and the sum."""

import math

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate


def inverse_risk(risks, own):
    """The rule of that name, which looks at no model."""
    return aggregate.RULES["inverse-risk"].compute(None, risks, own, 0)


# --- Eq. (5) and (6) ----------------------------------------------------------------------------------------


def test_weights_by_hand():
    assert_array_equal(aggregate.inverse_risk_weights(np.array([1.0, 2.0, 4.0])), np.array([4, 2, 1]) / 7)
    assert_array_equal(aggregate.adaptive_weights(np.array([1.0, 2.0, 4.0]), 1), np.array([2, 1, 0]) / 3)
    # <=, not <: a neighbour as good as the receiver is kept
    assert_array_equal(aggregate.adaptive_weights(np.array([2.0, 2.0, 4.0]), 1), [0.5, 0.5, 0])


@given(strategies.risks())
@example((np.array([0.0, 0.0, 1.0]), 2))
@example((np.array([5e-324, 1e308]), 1))
@example((np.array([np.nan, np.inf]), 0))
def test_weights_equal_the_oracle(case):
    r, own = case
    tiny = 1e-300  # a weight may underflow
    expected = oracles.inverse_risk_weights(r.tolist())
    assert_allclose(aggregate.inverse_risk_weights(r), expected, rtol=1e-12, atol=tiny)
    expected = oracles.adaptive_weights(r.tolist(), own)
    assert_allclose(aggregate.adaptive_weights(r, own), expected, rtol=1e-12, atol=tiny)


@given(strategies.risks())
def test_weights_are_on_the_simplex(case):
    """Subject to sum c = 1 and c >= 0, the second line of Eq. (3)."""
    r, own = case
    for c in (aggregate.adaptive_weights(r, own), inverse_risk(r, own)):
        assert (c >= 0).all()
        assert c.sum() == pytest.approx(1, abs=1e-14)


@given(strategies.risks())
@example((np.array([1.0, 1.0]), 0))
def test_weights_are_positive_exactly_where_the_filter_lets_through(case):
    """N_k^+ = {l : r_l <= r_k}, zero risks and underflow apart: there a weight may be 0 inside N_k^+."""
    r, own = case
    passes = np.isfinite(r) & ((r <= r[own]) | ~np.isfinite(r[own]))
    c = aggregate.adaptive_weights(r, own)
    if passes.any():
        assert_array_equal(c[~passes], 0)
        if r[passes].min() > 1e-5 * r[passes].max():
            assert (c[passes] > 0).all()
    else:
        assert_array_equal(c, np.arange(len(r)) == own)


@given(strategies.risks())
def test_a_smaller_risk_never_has_a_smaller_weight(case):
    r, own = case
    assume(np.isfinite(r[own]))
    for c in (aggregate.adaptive_weights(r, own), aggregate.inverse_risk_weights(r)):
        order = np.argsort(r)  # NaN last
        assert (np.diff(c[order]) <= 0).all()


@given(strategies.risks(elements=strategies.positive), st.floats(1e-3, 1e3))
def test_weights_do_not_depend_on_the_scale_of_the_risks(case, scale):
    r, own = case
    assume(((r * scale <= r[own] * scale) == (r <= r[own])).all())  # rounding may make a tie
    assert_allclose(aggregate.adaptive_weights(r * scale, own), aggregate.adaptive_weights(r, own), rtol=1e-12)
    assert_allclose(aggregate.inverse_risk_weights(r * scale), aggregate.inverse_risk_weights(r), rtol=1e-12)


@given(strategies.risks(), st.randoms(use_true_random=False))
def test_weights_move_with_the_neighbours(case, random):
    r, own = case
    order = random.sample(range(len(r)), len(r))
    c = aggregate.adaptive_weights(r, own)
    assert_allclose(aggregate.adaptive_weights(r[order], order.index(own)), c[order], rtol=1e-13)
    c = aggregate.inverse_risk_weights(r)
    assert_allclose(aggregate.inverse_risk_weights(r[order]), c[order], rtol=1e-13)


def test_nothing_finite_is_weight_zero_and_the_receiver_keeps_its_own():
    r = np.array([np.inf, np.nan, np.inf])
    assert_array_equal(aggregate.inverse_risk_weights(r), 0)
    assert_array_equal(inverse_risk(r, 1), [0, 1, 0])
    assert_array_equal(aggregate.adaptive_weights(r, 2), [0, 0, 1])


def test_a_receiver_whose_own_risk_is_lost_takes_every_finite_neighbour():
    assert_array_equal(aggregate.adaptive_weights(np.array([np.nan, 1.0, np.inf, 1.0]), 0), [0, 0.5, 0, 0.5])


@pytest.mark.parametrize("own", [-1, 3, np.int64(-1)])
def test_own_must_be_one_of_the_neighbours(own):
    with pytest.raises(ValueError, match=f"0 <= own < n, got own={own}, n=3"):
        aggregate.adaptive_weights(np.ones(3), own)


# --- Eq. (3) ------------------------------------------------------------------------------------------------


def test_combine_by_hand():
    W = np.array([[1.0, 0.0], [3.0, 8.0]])
    assert_array_equal(aggregate.combine(np.array([0.25, 0.75]), W), [2.5, 6.0])


@given(strategies.weighted(elements=strategies.hard))
def test_combine_equals_the_oracle(case):
    c, W = case
    result = aggregate.combine(c, W)
    largest = max((abs(x) for w, ci in zip(W, c) if ci > 0 for x in w if math.isfinite(x)), default=0)
    assert_allclose(result, oracles.combine(c.tolist(), W.tolist()), rtol=1e-12, atol=1e-14 * largest)


@given(strategies.weighted())
def test_a_combination_stays_in_the_hull_and_moves_with_a_translation(case):
    c, W = case
    result = aggregate.combine(c, W)
    slack = 1e-12 * (1 + np.abs(W).max())
    assert (result >= W[c > 0].min(axis=0) - slack).all()
    assert (result <= W[c > 0].max(axis=0) + slack).all()
    assert_allclose(aggregate.combine(c, W + 10), result + 10, rtol=1e-12, atol=slack)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_combine_ignores_a_lost_model_of_weight_zero_and_only_that(bad):
    W = np.array([[1.0, 2.0], [bad, 3.0]])
    assert_array_equal(aggregate.combine(np.array([1.0, 0.0]), W), [1, 2])
    assert_array_equal(aggregate.combine(np.array([0.5, 0.5]), W), [np.nan, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_and_combine_keep_dtype(dtype):
    r = np.array([1.0, 2.0, np.inf], dtype)
    assert aggregate.inverse_risk_weights(r).dtype == dtype
    assert aggregate.adaptive_weights(r, 2).dtype == dtype
    assert aggregate.combine(aggregate.adaptive_weights(r, 0), np.ones((3, 2), dtype)).dtype == dtype


def test_the_guard_against_models_that_are_not_finite_changes_no_bit():
    rng = np.random.default_rng(0)
    c, W = rng.random(9), rng.normal(size=(9, 300))
    c[4], W[4] = 0, 0  # the guard puts zeros where a model is lost, and is not needed where none is
    lost = W.copy()
    lost[4, 7] = np.nan
    assert_array_equal(aggregate.combine(c, lost), aggregate.combine(c, W))
