import math

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate

# One form for all rules that look at models alone, and the least n for f.
RULES = {
    "average": (lambda W, f: aggregate.average(W), lambda f: 1),
    "median": (lambda W, f: aggregate.coordinate_median(W), lambda f: 1),
    "medoid": (lambda W, f: aggregate.medoid(W), lambda f: 1),
    "trimmed-mean": (aggregate.trimmed_mean, lambda f: 2 * f + 1),
    "krum": (aggregate.krum, lambda f: 2 * f + 3),
}
SELECTING = ("medoid", "krum")
every_rule = pytest.mark.parametrize("name", RULES)


def attackers_for(name, n):
    """The largest f that the rule allows for n models, or None."""
    return max((f for f in range(n) if RULES[name][1](f) <= n), default=None)


def lists(W):
    return [list(map(float, row)) for row in W]


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
    assert_allclose(aggregate.inverse_risk_weights(r), oracles.inverse_risk_weights(r.tolist()), rtol=1e-12)
    assert_allclose(aggregate.adaptive_weights(r, own), oracles.adaptive_weights(r.tolist(), own), rtol=1e-12)


@given(strategies.risks())
def test_adaptive_weights_are_a_filtered_convex_combination(case):
    r, own = case
    c = aggregate.adaptive_weights(r, own)
    assert (c >= 0).all()
    assert c.sum() == pytest.approx(1, abs=1e-14)
    if math.isfinite(r[own]):
        assert_array_equal(c[~(r <= r[own])], 0)  # worse, or NaN
        if (r > 1e-200).all():
            assert (c[r <= r[own]] > 0).all() or r.max() / r.min() > 1e300
    elif not np.isfinite(r).any():
        assert c[own] == 1
    else:
        assert_array_equal(c > 0, np.isfinite(r) & (c > 0))


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


@given(st.lists(st.lists(strategies.any_risk, min_size=4, max_size=4), min_size=1, max_size=4), st.data())
def test_batched_weights_equal_one_at_a_time(rows, data):
    R = np.array(rows)
    own = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(R), max_size=len(R))))
    one = [aggregate.adaptive_weights(r, int(k)) for r, k in zip(R, own, strict=True)]
    assert_array_equal(aggregate.adaptive_weights(R, own), one)
    assert_array_equal(aggregate.inverse_risk_weights(R), [aggregate.inverse_risk_weights(r) for r in R])


def test_nothing_finite_is_weight_zero_and_the_receiver_keeps_its_own():
    r = np.array([np.inf, np.nan, np.inf])
    assert_array_equal(aggregate.inverse_risk_weights(r), 0)
    assert_array_equal(aggregate.WEIGHTS["inverse-risk"](r, 1), [0, 1, 0])
    assert_array_equal(aggregate.adaptive_weights(r, 2), [0, 0, 1])


def test_a_receiver_whose_own_risk_is_lost_takes_every_finite_neighbour():
    assert_array_equal(aggregate.adaptive_weights(np.array([np.nan, 1.0, np.inf, 1.0]), 0), [0, 0.5, 0, 0.5])


@pytest.mark.parametrize("own", [-1, 3])
def test_own_must_be_one_of_the_neighbours(own):
    with pytest.raises(ValueError, match=f"0 <= own < n, got own={own}, n=3"):
        aggregate.adaptive_weights(np.ones(3), own)


# --- Eq. (3) ------------------------------------------------------------------------------------------------


def test_combine_by_hand():
    W = np.array([[1.0, 0.0], [3.0, 8.0]])
    assert_array_equal(aggregate.combine(np.array([0.25, 0.75]), W), [2.5, 6.0])
    assert_array_equal(aggregate.combine(np.eye(2), W), W)  # two receivers


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_combine_ignores_a_lost_model_of_weight_zero_and_only_that(bad):
    W = np.array([[1.0, 2.0], [bad, 3.0]])
    assert_array_equal(aggregate.combine(np.array([1.0, 0.0]), W), [1, 2])
    assert_array_equal(aggregate.combine(np.array([[1.0, 0.0], [0.5, 0.5]]), W), [[1, 2], [np.nan, np.nan]])


# --- Baselines ----------------------------------------------------------------------------------------------


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


def test_ties_go_to_the_lowest_index():
    W = np.array([[0.0, 7.0], [1.0, 7.0], [0.0, 8.0], [1.0, 8.0]])  # a square: all alike
    assert_array_equal(aggregate.medoid(W), W[0])
    assert_array_equal(aggregate.krum(W, 0), W[0])


@every_rule
@given(strategies.models(elements=strategies.ordinary))
def test_rules_equal_the_oracle(name, W):
    f = attackers_for(name, len(W))
    assume(f is not None)
    result = RULES[name][0](W, f)
    if name in SELECTING:
        scores = oracles.krum_scores(lists(W), f) if name == "krum" else oracles.medoid_scores(lists(W))
        far, near = scores[lists(W).index(list(result))]
        best_far, best = min(scores)
        assert far == best_far
        assert float(near) <= float(best) * (1 + 1e-12) + 1e-18  # a tie to rounding may go either way
    else:
        oracle = {
            "average": oracles.average,
            "median": oracles.coordinate_median,
            "trimmed-mean": lambda W: oracles.trimmed_mean(W, f),
        }[name]
        assert_allclose(result, oracle(lists(W)), rtol=1e-12, atol=1e-12)


@every_rule
@given(W=strategies.models(), random=st.randoms(use_true_random=False))
def test_rules_do_not_depend_on_the_order_of_the_models(name, W, random):
    f = attackers_for(name, len(W))
    assume(f is not None)
    if name in SELECTING:
        scores = oracles.krum_scores(lists(W), f) if name == "krum" else oracles.medoid_scores(lists(W))
        near = sorted(float(s) for _, s in scores)
        assume(len({tuple(w) for w in lists(W)}) > 1 and near[1] > near[0] * (1 + 1e-9))  # a clear winner
    order = random.sample(range(len(W)), len(W))
    rule = RULES[name][0]
    assert_allclose(rule(W[order], f), rule(W, f), rtol=1e-12, atol=1e-12)


@every_rule
@given(W=strategies.models(elements=st.integers(-50, 50).map(float)), shift=st.integers(-1000, 1000))
def test_rules_move_with_a_translation(name, W, shift):
    """Whole numbers, so that the translated distances are exactly the same."""
    f = attackers_for(name, len(W))
    assume(f is not None)
    rule = RULES[name][0]
    assert_allclose(rule(W + shift, f), rule(W, f) + shift, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in RULES if name != "average"])
@given(data=st.data())
def test_few_attackers_cannot_leave_the_honest_hull_or_take_a_worker_down(name, data):
    """f attackers send anything, NaN and infinity included; every coordinate stays between honest values."""
    f = data.draw(st.integers(0, 3))
    honest = data.draw(strategies.models(least=max(RULES[name][1](f) - f, f + 1), most=9))
    bad = data.draw(st.lists(st.lists(strategies.poison, min_size=honest.shape[1], max_size=honest.shape[1]),
                             min_size=f, max_size=f))  # fmt: skip
    place = data.draw(st.permutations(range(len(honest) + f)))
    W = np.concatenate([honest, np.array(bad).reshape(f, honest.shape[1])])[list(place)]
    result = RULES[name][0](W, f)
    assert np.isfinite(result).all()
    slack = 1e-9 * (1 + np.abs(honest).max())
    assert (result >= honest.min(axis=0) - slack).all()
    assert (result <= honest.max(axis=0) + slack).all()


def test_average_does_not_survive_nan_by_definition():
    assert np.isnan(aggregate.average(np.array([[1.0], [np.nan]]))).all()


@every_rule
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rules_keep_dtype_and_inputs_and_batch_over_leading_axes(name, dtype):
    W = np.random.default_rng(1).normal(size=(2, 3, 9, 4)).astype(dtype)
    before = W.copy()
    W.flags.writeable = False
    rule = RULES[name][0]
    result = rule(W, 3)
    assert result.dtype == dtype
    assert result.shape == (2, 3, 4)
    for i in np.ndindex(2, 3):
        assert_array_equal(result[i], rule(W[i], 3))
    assert_array_equal(W, before)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_and_combine_keep_dtype(dtype):
    r = np.array([1.0, 2.0, np.inf], dtype)
    assert aggregate.inverse_risk_weights(r).dtype == dtype
    assert aggregate.adaptive_weights(r, 2).dtype == dtype
    assert aggregate.combine(aggregate.adaptive_weights(r, 0), np.ones((3, 2), dtype)).dtype == dtype


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


def test_distances_between_models_that_agree_to_ten_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    offsets = rng.integers(-512, 512, size=(6, 50)) / 2**24  # exact beside 1e6, and below its tenth digit
    W = 1e6 + offsets
    exact = ((offsets[:, None] - offsets) ** 2).sum(axis=-1)
    assert_allclose(aggregate.squared_distances(W), exact, rtol=1e-9)
    gram = (W**2).sum(1)[:, None] + (W**2).sum(1) - 2 * W @ W.T
    assert np.abs(gram - exact).max() > 0.1 * exact.max()  # the identity that must not be used here


def test_trimmed_mean_by_name_trims_a_tenth_without_attackers():
    W = np.arange(20.0)[:, None] ** 2
    assert_array_equal(aggregate.RULES["trimmed-mean"](W, 0), aggregate.trimmed_mean(W, 2))
    assert_array_equal(aggregate.RULES["trimmed-mean"](W, 5), aggregate.trimmed_mean(W, 5))


def test_every_rule_has_a_name():
    assert {*aggregate.WEIGHTS, *aggregate.RULES, "local"} == set(aggregate.NAMES)
