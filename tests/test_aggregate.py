"""The paper's baselines: average, medoid, median, trimmed mean, Krum. The weights are in test_weights.py."""

import itertools
import math
import re

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate

# One form for all rules that look at models alone, and the least n for f.
RULES = {
    "average": (lambda W, f: aggregate.average(W), lambda f: 1),
    "median": (lambda W, f: aggregate.coordinate_median(W), lambda f: 1),
    "medoid": (lambda W, f: aggregate.medoid(W), lambda f: 1),
    "trimmed-mean": (lambda W, f: aggregate.trimmed_mean(W, f), lambda f: 2 * f + 1),
    "krum": (lambda W, f: aggregate.krum(W, f), lambda f: 2 * f + 3),
}
ORACLES = {
    "average": lambda W, f: oracles.average(W),
    "median": lambda W, f: oracles.coordinate_median(W),
    "trimmed-mean": oracles.trimmed_mean,
}
SCORES = {"medoid": lambda W, f: oracles.medoid_scores(W), "krum": oracles.krum_scores}
every_rule = pytest.mark.parametrize("name", RULES)


def attackers_for(name, n):
    """Every f that the rule allows for n models."""
    return [f for f in range(n) if RULES[name][1](f) <= n]


def least_honest(name):
    """How many honest models the rule needs beside f attackers, to be defined and to keep its promise."""
    return lambda f: max(RULES[name][1](f) - f, f + 1)


# --- By hand ------------------------------------------------------------------------------------------------


def test_rules_that_a_table_of_round_numbers_cannot_tell_apart():
    """One column on which mean, median and trimmed mean are all different."""
    W = np.array([[0.0], [1.0], [3.0], [10.0], [111.0]])
    assert aggregate.average(W) == 25
    assert aggregate.coordinate_median(W) == 3
    assert aggregate.trimmed_mean(W, 1) == pytest.approx(14 / 3)
    assert aggregate.trimmed_mean(W, 0) == 25
    assert aggregate.medoid(W) == 3


def test_even_median_is_the_mean_of_the_middle_two():
    assert aggregate.coordinate_median(np.array([[4.0], [1.0], [2.0], [100.0]])) == 3


def test_krum_counts_n_minus_f_minus_2_squared_distances():
    """Three definitions in use choose three different models here."""
    W = np.array([[5, 0], [1, 0], [2, 8], [6, 6], [9, 4], [0, 1]], dtype=float)
    D = [sorted(math.dist(a, b) for b in W) for a in W]  # [0] is itself

    def choice(neighbours, power):
        score = [sum(d**power for d in row[1 : neighbours + 1]) for row in D]
        return score.index(min(score))

    n, f = 6, 1
    assert (choice(n - f - 2, 2), choice(n - f - 1, 2), choice(n - f - 2, 1)) == (3, 0, 1)
    assert_array_equal(aggregate.krum(W, f), W[3])


def test_medoid_does_not_square_its_distances():
    """With squares it would be the model next to the mean, 8.4, instead of the one in the middle."""
    W = np.array([[0.0], [1.0], [2.0], [9.0], [30.0]])
    assert aggregate.medoid(W) == 2


def test_ties_go_to_the_lowest_index():
    """Models that cannot be told apart by their distances, but by their last coordinate."""
    W = np.array([[0.0, 7.0], [1.0, 7.0], [0.0, 8.0], [1.0, 8.0]])  # a square: all alike
    for order in itertools.permutations(range(4)):
        W = W[list(order)]
        assert_array_equal(aggregate.medoid(W), W[0])
        assert_array_equal(aggregate.krum(W, 0), W[0])


# --- Against the oracle -------------------------------------------------------------------------------------


@every_rule
@given(
    W=strategies.models(strategies.hard)
    | strategies.models()
    | strategies.models(strategies.single, dtype=np.float32),
    data=st.data(),
)
@example(W=np.array([[0.0], [1e300], [np.nan], [-1e300], [1.0]]), data=-1)
@example(W=np.array([[5e-324], [0.0], [5e-324], [-5e-324], [1e-310], [0.0]]), data=-1)
@example(W=np.array([[0.0], [0.0], [3.59e-43]], dtype=np.float32), data=0)
@example(W=np.array([[3.59e-43], [0.0], [0.0]], dtype=np.float32), data=0)
def test_rules_equal_the_oracle(name, W, data):
    """For any numbers at all. Selecting rules: the chosen model's exact score is the least, up to rounding.

    The examples give the position of f among the allowed ones.
    """
    allowed = attackers_for(name, len(W))
    assume(allowed)
    f = allowed[data] if isinstance(data, int) else data.draw(st.sampled_from(allowed))
    result, rows = RULES[name][0](W, f), W.tolist()
    eps, step = (float(x) for x in (1e4 * np.finfo(W.dtype).eps, np.finfo(W.dtype).smallest_subnormal))
    if name in SCORES:
        scores = SCORES[name](rows, f)
        far, near = next(s for s, w in zip(scores, rows) if np.array_equal(w, result, equal_nan=True))
        assert far == min(scores)[0]
        assert float(near) <= float(min(scores)[1]) * (1 + eps) + 100 * step**0.5  # a square may underflow
    else:
        size = np.abs(np.where(np.isfinite(W), W, 0)).max(axis=0).astype(float)
        expected = np.array(ORACLES[name](rows, f))
        assert_array_equal(np.isfinite(result), np.isfinite(expected))
        assert_array_equal(result[~np.isfinite(result)], expected[~np.isfinite(expected)])
        ok = np.isfinite(expected)
        assert (np.abs(result[ok] - expected[ok]) <= (eps * size + step)[ok]).all()


@pytest.mark.parametrize("name", SCORES)
@given(data=st.data())
def test_among_exact_ties_the_lowest_index_is_chosen(name, data):
    """Small whole numbers: the sums of squares are exact, and so are distances along a line."""
    width = 1 if name == "medoid" else data.draw(st.integers(1, 3))
    n = data.draw(st.integers(3, 8))
    W = data.draw(hnp.arrays(float, (n, width), elements=strategies.few))
    f = data.draw(st.sampled_from(attackers_for(name, n)))
    scores = SCORES[name](W.tolist(), f)
    assert_array_equal(RULES[name][0](W, f), W[scores.index(min(scores))])


@every_rule
@given(W=strategies.models(), random=st.randoms(use_true_random=False))
def test_rules_do_not_depend_on_the_order_of_the_models(name, W, random):
    allowed = attackers_for(name, len(W))
    assume(allowed)
    f = allowed[-1]
    if name in SCORES:
        (_, near), *others = sorted(SCORES[name](W.tolist(), f))
        assume(others and float(others[0][1]) > float(near) * (1 + 1e-9))  # a clear winner
    order = random.sample(range(len(W)), len(W))
    rule = RULES[name][0]
    assert_allclose(rule(W[order], f), rule(W, f), rtol=1e-12, atol=1e-12)


@every_rule
@given(W=strategies.models(elements=strategies.whole), shift=st.integers(-1000, 1000))
def test_rules_move_with_a_translation(name, W, shift):
    """Whole numbers, so that the translated distances are exactly the same."""
    allowed = attackers_for(name, len(W))
    assume(allowed)
    rule = RULES[name][0]
    for f in allowed:
        assert_allclose(rule(W + shift, f), rule(W, f) + shift, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", ["median", "trimmed-mean"])
@given(data=st.data())
def test_few_attackers_cannot_leave_the_honest_hull(name, data):
    """f attackers send anything, NaN and infinity included; every coordinate stays between honest values."""
    honest, W, f = data.draw(strategies.attacked(least_honest(name)))
    result = RULES[name][0](W, f)
    slack = 1e-12 * np.abs(honest).max()
    assert (result >= honest.min(axis=0) - slack).all()
    assert (result <= honest.max(axis=0) + slack).all()


@pytest.mark.parametrize("name", SCORES)
@given(data=st.data())
def test_few_attackers_far_away_are_not_chosen(name, data):
    """Krum and medoid promise no hull: an attacker's model may be the best one. But not from afar."""
    honest, W, f = data.draw(
        strategies.attacked(least_honest(name), attackers=strategies.huge | strategies.poison)
    )
    assert RULES[name][0](W, f).tolist() in honest.tolist()


def test_average_does_not_survive_nan_by_definition():
    assert np.isnan(aggregate.average(np.array([[1.0], [np.nan]]))).all()


@every_rule
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_rules_keep_dtype_and_inputs(name, dtype, form):
    W = strategies.frozen(np.random.default_rng(1).normal(size=(9, 4)).astype(dtype), form)
    before = W.copy()
    rule = RULES[name][0]
    result = rule(W, 3)
    assert result.dtype == dtype
    assert type(result) is np.ndarray
    assert_allclose(result, rule(before.astype(float), 3), rtol=10 * np.finfo(dtype).eps)
    assert not np.shares_memory(result, W)
    assert_array_equal(W, before)


# --- Limits and names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aggregate.krum(np.ones((6, 2)), 2), r"krum needs n >= 2f \+ 3 models, got n=6, f=2"),
        (
            lambda: aggregate.trimmed_mean(np.ones((6, 2)), 3),
            r"trimmed_mean needs n >= 2f \+ 1 models, got n=6, f=3",
        ),
        (lambda: aggregate.krum(np.ones((6, 2)), -1), "f=-1"),
        (lambda: aggregate.trimmed_mean(np.ones((6, 2)), -1), "f=-1"),
    ],
)
def test_too_few_models_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["krum", "trimmed-mean"])
def test_as_few_models_as_allowed_are_accepted(name):
    least = RULES[name][1]
    for f in range(4):
        assert_array_equal(RULES[name][0](np.ones((least(f), 2)), f), [1, 1])


def test_distances_between_models_that_agree_to_ten_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    offsets = rng.integers(-512, 512, size=(6, 50)) / 2**24  # exact beside 1e6, and below its tenth digit
    W = 1e6 + offsets
    exact = ((offsets[:, None] - offsets) ** 2).sum(axis=-1)
    assert_allclose(aggregate.squared_distances(W), exact, rtol=1e-9)
    gram = (W**2).sum(1)[:, None] + (W**2).sum(1) - 2 * W @ W.T
    assert np.abs(gram - exact).max() > 0.1 * exact.max()  # the identity that must not be used here


@given(strategies.models(strategies.hard))
def test_squared_distances_equal_the_oracle(W):
    exact = oracles.squared_distances(W.tolist())
    expected = [[math.inf if d is None else float(d) for d in row] for row in exact]
    assert_allclose(aggregate.squared_distances(W), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_seven_corners_as_far_apart_are_a_tie(dtype):
    W = np.eye(7, 20, dtype=dtype)
    for order in itertools.islice(itertools.permutations(range(7)), 0, 5040, 97):
        V = W[list(order)]
        assert_array_equal(aggregate.krum(V, 2), V[0])
        assert_array_equal(aggregate.medoid(V), V[0])


def test_distances_of_whole_numbers_are_whole():
    W = np.random.default_rng(0).integers(-3, 4, (5, 60))
    assert_array_equal(aggregate.squared_distances(W), ((W[:, None] - W) ** 2).sum(axis=-1))


# --- The table ----------------------------------------------------------------------------------------------


def test_trimmed_mean_by_name_trims_a_tenth_without_attackers():
    W = np.arange(20.0)[:, None] ** 2
    trimmed_mean = aggregate.RULES["trimmed-mean"].compute
    assert_array_equal(trimmed_mean(W, None, 0, 0), aggregate.trimmed_mean(W, 2))
    assert_array_equal(trimmed_mean(W, None, 0, 5), aggregate.trimmed_mean(W, 5))


@pytest.mark.parametrize("name", aggregate.RULES)
def test_a_rule_requires_what_it_needs(name):
    """What `require` lets through can be computed, and what it refuses is refused with the same words."""
    rule = aggregate.RULES[name]
    for n, f in itertools.product(range(1, 12), range(5)):
        W, r = np.arange(2.0 * n).reshape(n, 2), np.arange(1.0, n + 1)
        try:
            rule.require(n, f)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                rule.compute(W, r, 0, f)
        else:
            assert rule.compute(W, r, 0, f).shape == ((n,) if rule.weighs else (2,))


def test_local_keeps_its_own_model():
    W = np.arange(6.0).reshape(3, 2)
    assert_array_equal(aggregate.RULES["local"].compute(W, None, 1, 2), [2, 3])
