"""The rules for many neighbourhoods at once equal the specification's, neighbourhood by neighbourhood."""

from unittest import mock

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from refimpl import aggregate, attacks
from refimpl.aggregate import RULES
from refimpl.arrays import quiet
from refimpl.fast import rules
from refimpl.fast.rules import TWINS, Twin

GIVE_MODELS = [name for name, rule in RULES.items() if TWINS.get(rule.compute, Twin()).models]
WEIGH = [name for name, rule in RULES.items() if TWINS.get(rule.compute, Twin()).weights]


def test_every_rule_of_the_table_has_a_twin():
    assert {name for name, rule in RULES.items() if rule.compute not in TWINS} == set()
    assert [name for name, rule in RULES.items() if rule.weighs] == WEIGH
    assert [name for name, rule in RULES.items() if TWINS[rule.compute] == Twin()] == ["local"]


@pytest.mark.parametrize("name", GIVE_MODELS)
@given(W=strategies.models(strategies.hard, least=5), f=st.integers(0, 1))
@quiet
def test_a_rule_for_many_neighbourhoods_is_the_rule_for_each(name, W, f):
    two = strategies.frozen(np.stack([W, W[::-1]]))
    made = TWINS[RULES[name].compute].models(two, f)
    expected = np.array([RULES[name].compute(V, None, 0, f) for V in two])
    for j, column in enumerate(W.T):  # 1 + 1e300 - 1e300 is 0 or 1, by the order in which a device adds
        largest = abs(column[np.isfinite(column)]).max(initial=0) if name in ("average", "trimmed-mean") else 0
        assert_allclose(made[:, j], expected[:, j], rtol=1e-12, atol=1e-15 * len(W) * largest)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("floats", [0, 200, 2**20])
@pytest.mark.parametrize("name", ["median", "trimmed-mean"])
def test_a_few_coordinates_at_a_time_change_nothing(name, floats, dtype):
    W = np.random.default_rng(0).normal(size=(3, 6, 40)).astype(dtype)
    W[0, 2], W[1, 3, ::2], W[1, 4, ::3] = np.nan, np.inf, -np.inf
    with mock.patch.object(rules, "FLOATS", floats), mock.patch.object(rules, "device_factor", return_value=1):
        made = TWINS[RULES[name].compute].models(strategies.frozen(W), 2)
    assert made.dtype == dtype
    expected = [RULES[name].compute(V, None, 0, 2) for V in W]
    assert_allclose(made, expected, rtol=1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("name", WEIGH)
@given(data=st.data())
@quiet
def test_a_message_of_several_senders_may_be_weighed_once(name, data):
    """And its weight multiplied by their number: the same as if all of them were there."""
    risks, own = data.draw(strategies.risks())
    count = data.draw(st.lists(st.integers(1, 3), min_size=len(risks), max_size=len(risks)))
    count[own] = 1
    each = RULES[name].compute(None, np.repeat(risks, count), sum(count[:own]), 0)
    once = TWINS[RULES[name].compute].weights(risks[None, None], np.array([[own]]))[0, 0] * count
    first = np.cumsum(count) - count
    assert_allclose(once / once.sum(), np.add.reduceat(each, first), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", WEIGH)
@quiet
def test_weights_for_many_receivers_are_those_of_each(name):
    risks, own = np.random.default_rng(0).random((2, 3, 5)), np.array([[0, 4, 1], [2, 2, 3]])
    risks[0, 1, 2:], risks[1, 0], risks[1, 1, 2] = np.inf, np.nan, 0
    ordinary = np.abs(np.nan_to_num(risks, posinf=3)) + 0.1
    one_is_lost = np.where(np.arange(6).reshape(2, 3, 1) == 4, np.inf, ordinary)  # with all that it hears
    for some in (risks, ordinary, one_is_lost):
        made = TWINS[RULES[name].compute].weights(strategies.frozen(some), own)
        for i in np.ndindex(2, 3):
            assert_allclose(made[i], RULES[name].compute(None, some[i], int(own[i]), 0), rtol=1e-14)


@pytest.mark.parametrize("name", WEIGH)
@given(
    R=hnp.arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=strategies.any_risk),
    data=st.data(),
)
@quiet
def test_weights_of_any_risks_are_those_of_each(name, R, data):
    own = data.draw(hnp.arrays(int, len(R), elements=st.integers(0, R.shape[1] - 1)))
    made = TWINS[RULES[name].compute].weights(R[None], own[None])[0]
    for r, k, c in zip(R, own, made):
        assert_allclose(c, RULES[name].compute(None, r, int(k), 0), rtol=1e-14, atol=1e-320)


@given(
    hnp.arrays(float, (3, 4, 2), elements=strategies.hard),
    hnp.arrays(float, (3, 5, 4), elements=st.floats(0, 1)),
)
@quiet
def test_combine_for_many_receivers_equals_one_at_a_time(W, c):
    result = rules.combine(c, W)
    for i, k in np.ndindex(3, 5):
        size = np.abs(W[i][np.isfinite(W[i])]).max(initial=0)
        assert_allclose(result[i, k], aggregate.combine(c[i, k], W[i]), rtol=1e-12, atol=1e-14 * size)


@pytest.mark.parametrize("columns", [1, 7, 4096])
@pytest.mark.parametrize("receivers", [[0, 1, 2], [4, 0, 2]], ids=str)
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("u", [1, 2])
@quiet  # as a round is
def test_combine_is_that_of_the_specification(u, lost, receivers, columns):
    rng = np.random.default_rng(0)
    weights, M = rng.random((u, 3, 5)), rng.normal(size=(u, 5, 40))
    weights[:, 0, 2] = 0
    if lost:
        M[0, 2], M[-1, 2, 7] = np.nan, np.inf
    assert rules.all_finite(M) != lost
    W, k = np.zeros((10, 40)), np.array(receivers) + 5 * np.arange(u)[:, None]
    only = slice(0, 3) if receivers == [0, 1, 2] else k[0]
    with mock.patch.object(rules, "COLUMNS", columns):
        rules.combine_into(strategies.frozen(weights), strategies.frozen(M), not lost, W, k, only)
    for i, j in np.ndindex(u, 3):
        assert_allclose(W[k[i, j]], aggregate.combine(weights[i, j], M[i]), rtol=1e-12, atol=1e-14)
    assert np.isfinite(W[k][:, 0]).all()
    assert not np.delete(W, k.ravel(), axis=0).any()


@pytest.mark.parametrize("spread", [1, 1e-4, 0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_little_is_enough_also_of_models_that_nearly_agree(dtype, spread):
    rng = np.random.default_rng(0)
    honest = (rng.normal(size=40) + spread * rng.normal(size=(7, 40))).astype(dtype)
    expected = attacks.a_little_is_enough(honest.astype("float64"), 0.7)
    made = rules.a_little_is_enough(strategies.frozen(honest), 0.7)
    assert made.dtype == dtype
    assert_allclose(made, expected, rtol=0, atol=16 * np.finfo(dtype).eps)


@quiet
def test_a_little_is_enough_passes_on_what_is_not_finite():
    honest = np.ones((4, 3))
    honest[1, 1], honest[2, 2] = np.inf, np.nan
    assert_allclose(rules.a_little_is_enough(honest, 0.7), attacks.a_little_is_enough(honest, 0.7))


def test_a_sum_that_overflows_only_costs_the_shortcut():
    assert not rules.all_finite(np.full((1, 2, 4), 1e308))
