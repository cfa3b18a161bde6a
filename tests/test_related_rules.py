"""The rules of refimpl.related: against oracles, by hand, and as rules of Algorithm 1."""

import numpy as np
import oracle_related as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import after, setting
from related_problems import assert_same, run
from strategies import attacked, models

from refimpl import aggregate, train
from refimpl.fast import engine as fast
from refimpl.related import rules

# --- Rules --------------------------------------------------------------------------------------------------


@given(models(least=3), st.integers(0, 2))
def test_rules_equal_the_oracle(W, f):
    rows = W.tolist()
    assert_allclose(rules.geometric_median(W), oracle.weiszfeld(rows), rtol=1e-7, atol=1e-6)
    if len(W) > 2 * f:
        assert_allclose(
            rules.minimum_diameter_average(W, f), oracle.smallest_diameter(rows, f), rtol=1e-9, atol=1e-9
        )
    if len(W) > 2 * f + 1:
        own = [oracle.keep_own_and_trim(c[0], c[1:], f) for c in zip(*rows)]
        assert_allclose(rules.own_trimmed_mean(W, 0, f), own, rtol=1e-9, atol=1e-9)


@given(attacked(lambda f: 3 * f + 3, most=2))
def test_multi_krum_and_bulyan_equal_the_oracle(given_):
    honest, W, f = given_
    if not np.isfinite(W).all() or np.abs(W).max() > 1e4 or len(np.unique(W, axis=0)) < len(W):
        W = np.concatenate([honest, honest[:f] + 0.5])
    W = W + np.random.default_rng(0).normal(size=W.shape)  # no ties
    assert_allclose(rules.multi_krum(W, f), oracle.multi_krum(W.tolist(), f), rtol=1e-9, atol=1e-9)
    assert_allclose(rules.bulyan(W, f), oracle.bulyan(W.tolist(), f), rtol=1e-9, atol=1e-9)


@given(attacked(lambda f: f + 2, most=2), st.data())
def test_the_trimmed_mean_that_keeps_its_own_stays_in_the_honest_hull(given_, data):
    """f attackers, whatever they send: 1e300, NaN, infinity."""
    honest, W, f = given_
    is_honest = [any(np.array_equal(row, h) for h in honest) for row in W]
    own = data.draw(st.sampled_from(np.flatnonzero(is_honest).tolist()))
    if len(W) - 1 < 2 * f + 1:
        return
    result = rules.own_trimmed_mean(W, own, f)
    room = 1e-9 * (1 + np.abs(honest).max())
    assert (result >= honest.min(axis=0) - room).all()
    assert (result <= honest.max(axis=0) + room).all()


@given(models(least=2))
def test_no_point_is_nearer_to_all_than_the_geometric_median(W):
    def total(z):
        return np.sqrt(((W - z) ** 2).sum(axis=1)).sum()

    z = rules.geometric_median(W, steps=3000, tolerance=1e-12)
    slack = 1e-3 * (1 + np.ptp(W))  # Weiszfeld is slow near a data point
    assert all(total(z) <= total(other) + slack for other in [*W, W.mean(axis=0), np.median(W, axis=0)])


def test_the_geometric_median_in_one_dimension_is_the_median():
    W = np.array([[1.0], [2.0], [10.0], [3.0], [100.0]])
    assert_allclose(rules.geometric_median(W, steps=2000), [3.0], atol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_geometric_median_drops_what_is_not_finite(bad):
    W = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, bad], [0.0, 4.0]])
    assert_array_equal(rules.geometric_median(W), rules.geometric_median(W[[0, 1, 3]]))


def test_bulyan_takes_the_lower_of_two_as_near():
    """Without attackers it is the mean; with one, of five values the three nearest to the median."""
    W = np.array([[0.0], [1.0], [2.0], [4.0], [9.0], [100.0], [101.0]])
    assert_allclose(rules.bulyan(W, 0), W.mean(axis=0))
    assert_allclose(rules.bulyan(W, 1), [1.0])


def test_ties_among_many_go_to_the_lower_value_or_index():
    """So many that a sort which is not stable would mix them up."""
    rng = np.random.default_rng(0)
    V = rng.integers(-2, 3, (43, 40)) / 4  # of each coordinate, 33 models' values, and of these 23
    picked = aggregate.ascending(rules.repeated_krum(V, 5)).T.tolist()
    nearest = [sorted(column, key=lambda v: (abs(v - oracle.middle(column)), v))[:23] for column in picked]
    assert_allclose(rules.bulyan(V, 5), np.mean(nearest, axis=1), rtol=1e-12, atol=1e-12)
    W, c = np.zeros((41, 40)), rng.random(41)
    W[1:] = np.diag(np.tile([1.0, 2.0], 20))  # each other model in a direction of its own, as far as many
    nearest = [*range(1, 41, 2), *range(2, 41, 2)]
    taken = rules.mozi(W, 0, np.zeros(41), 30) > 0
    assert_array_equal(np.flatnonzero(taken) + 1, sorted(nearest[:30]))
    c /= c.sum()
    delta, total, sum_of_squares = sum(sorted(c[1:])[-10:]), c[0], 0
    for l in nearest:
        total += c[l]
        sum_of_squares += c[l] * (1 if l % 2 else 4) * (total < 1 - delta)
    assert rules.adaptive_radius(W, 0, c, 10) == pytest.approx((sum_of_squares / delta) ** 0.5, rel=1e-12)


def test_mda_takes_the_first_of_equal_subsets():
    W = np.array([[0.0], [1.0], [2.0]])  # {0, 1} and {1, 2} are as wide
    assert_array_equal(rules.minimum_diameter_average(W, 1), [0.5])


def test_scissor_by_hand():
    """100 goes first; without it the mean is 1.4, and 4 is farther from it than 0."""
    W, c = np.array([[0.0], [100.0], [4.0], [1.0], [2.0]]), np.full(5, 0.2)
    assert_allclose(rules.iterative_outlier_scissor(W, 3, c, 1), [7 / 4])
    assert_allclose(rules.iterative_outlier_scissor(W, 3, c, 2), [1.0])
    assert_allclose(rules.iterative_outlier_scissor(W, 1, c, 1), [(100 + 4 + 1 + 2) / 4])  # its own stays
    assert_allclose(rules.iterative_outlier_scissor(W, 0, c, 9), [0.0])  # also if all others are dropped


def test_clip_by_hand():
    """A difference of length 5 is clipped to 1; one of length 0.5 stays."""
    W = np.array([[0.0, 0.0], [3.0, 4.0], [0.3, -0.4]])
    assert_allclose(rules.clipped_gossip(W, 0, np.array([0.5, 0.25, 0.25]), 1.0), [0.225, 0.1])
    assert_allclose(rules.clipped_gossip(W, 1, np.array([0.25, 0.5, 0.25]), 0.0), [3.0, 4.0])


def test_radii_by_hand():
    """Equal weights of 1/4, distances 1, 2 and 10, one attacker."""
    W, c = np.array([[0.0], [1.0], [-2.0], [10.0]]), np.full(4, 0.25)
    honest = np.array([True, True, True, False])
    assert rules.oracle_radius(W, 0, c, honest) == pytest.approx(5**0.5)
    assert rules.adaptive_radius(W, 0, c, 1) == pytest.approx(1.0)  # 3/4 is reached with -2: it is left out
    assert rules.oracle_radius(W, 0, c, honest | True) == np.inf
    assert rules.adaptive_radius(W, 0, c, 0) == np.inf
    W[2] = np.nan  # which clipped_gossip leaves out
    assert rules.oracle_radius(W, 0, c, honest) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [10, 131, 200])
def test_the_adaptive_radius_takes_as_many_models_in_single_precision(n):
    """Of n - 1 others at distance 1, n - f - 2 are taken, the last of which stays below 1 - f / n."""
    W, c = np.ones((n, 1), np.float32), np.full(n, 1 / n, np.float32)
    W[0] = 0
    for f in range(1, n - 1):
        assert rules.adaptive_radius(W, 0, c, f) == pytest.approx(((n - f - 2) / f) ** 0.5, rel=1e-5)


def test_mozi_by_hand():
    W, risks = np.array([[0.0], [1.0], [-2.0], [10.0]]), np.array([0.5, 0.7, 0.6, 0.1])
    assert_allclose(rules.mozi(W, 0, risks, 3), [5.0])  # only 10 is no worse
    assert_allclose(rules.mozi(W, 0, risks, 2), [0.5])  # not among the nearest: the nearest
    assert_allclose(rules.mozi(W, 0, risks, 2, empty="lowest-risk"), [-1.0])
    assert_allclose(rules.mozi(W, 0, np.array([0.5, 0.5, 0.6, 0.1]), 3), [5.5 / 2])  # as good is good enough
    assert_allclose(rules.mozi(W, 0, risks, 2, alpha=0.9), [0.1])
    lost = np.array([0.5, 0.7, np.nan, 0.1])
    assert_allclose(rules.mozi(W, 0, lost, 2, empty="lowest-risk"), [0.5])  # NaN is not the lowest


# --- As rules of Algorithm 1 --------------------------------------------------------------------------------


AS_RULES = {
    "geometric-median": lambda W, risks, own, f: rules.geometric_median(W),
    "multi-krum": lambda W, risks, own, f: rules.multi_krum(W, f),
    "bulyan": lambda W, risks, own, f: rules.bulyan(W, f),
}


@pytest.mark.parametrize("name", AS_RULES)
def test_related_rules_run_on_either_engine(name, monkeypatch):
    """Put into RULES, they are computed by `algorithm.round_` and by the fast engine as by their own."""
    monkeypatch.setitem(aggregate.RULES, name, aggregate.Rule(AS_RULES[name], "", "-"))
    s = setting(attackers=[1], attack="alie", rule=name)
    for engine in (train.plain, fast.engine):
        assert_same(after(s, 3, engine=engine), run(name, 3, s))
