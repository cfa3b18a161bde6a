"""What the released code does besides the paper: running averages of the risks."""

import itertools

import numpy as np
import oracle_layers
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import GRAPHS, SIZES, after, initial, oracle_rounds, setting

from refimpl import aggregate, released, train


def smoothed(share):
    """An engine for `train`."""
    return lambda s: released.engine(s, share)


def test_smoothing_by_hand():
    assert_array_equal(released.smooth(np.array([4.0, 0.0]), np.array([8.0, 1.0]), 0.25), [5, 0.25])


def test_an_average_that_is_lost_starts_again():
    average = released.smooth(np.array([np.inf, np.nan, 1.0]), np.array([2.0, 3.0, np.inf]), 0.5)
    assert_array_equal(average, [2, 3, np.inf])


def test_weights_come_from_a_running_average_that_starts_at_the_first_risk():
    first, second = itertools.islice(train.rounds(setting(attackers=[]), initial(), 0, smoothed(0.25)), 2)
    assert_array_equal(first.weights, aggregate.adaptive_weights(first.risks, np.arange(7)))
    averages = 0.75 * first.risks + 0.25 * second.risks
    assert_allclose(second.weights, aggregate.adaptive_weights(averages, np.arange(7)), rtol=1e-12)
    assert_allclose(second.state.W, second.weights @ second.sent, rtol=1e-12)


def test_a_round_returns_the_averages_that_the_next_one_starts_from():
    s = setting(attack="sign-flip", graph=GRAPHS["ring"])
    state, batch, before = after(s, 1).state, np.zeros((7, 5), int), np.full((7, 7), 2.0)
    result, averages = released.round_(s, state, batch, None, 0.25, before)
    heard = s.graph.copy()
    heard[s.attackers] = False
    assert_allclose(averages[heard], 1.5 + 0.25 * result.risks[heard], rtol=1e-12)


@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median"])
def test_rounds_equal_the_scalar_algorithm_with_smoothing(rule, risk, optimizer):
    options = {"rule": rule, "risk": risk, "optimizer": optimizer, "step_size": 0.05}
    s = setting(**options, graph=GRAPHS["a star and a path"], attack="sign-flip")
    expected = oracle_rounds(s, initial(), 4, oracle_layers.mlp_shapes(SIZES), smoothing=0.25)
    assert_allclose(after(s, 4, engine=smoothed(0.25)).state.W, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", aggregate.RULES)
def test_without_smoothing_it_is_algorithm_1(rule):
    s = setting(rule=rule, attack="alie", attackers=[1, 4])
    one, other = after(s, 3), after(s, 3, engine=smoothed(1.0))
    assert_array_equal(other.state.W, one.state.W)
    assert_array_equal(other.risks, one.risks)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, np.nan])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match=r"smoothing must be in \(0, 1\]"):
        released.engine(setting(), share)
