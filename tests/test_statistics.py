"""Intervals, and which rules are level with the best."""

import math

import numpy as np
import pytest
from scipy import stats

from refimpl.experiments import statistics


def test_the_interval_by_hand():
    assert statistics.interval([1.0, 2.0, 3.0]) == pytest.approx(4.302653 * 1 / 3**0.5, rel=1e-6)
    assert math.isnan(statistics.interval([1.0]))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_paired_test_is_scipys_and_it_does_not_matter_who_is_first(n):
    rng = np.random.default_rng(n)
    for shift in (-3.0, -0.5, 0.0, 0.5, 3.0):
        a, b = rng.normal(size=n), rng.normal(size=n) + shift
        expected = stats.ttest_rel(a, b).pvalue
        assert statistics.paired_p(a, b) == pytest.approx(expected, rel=1e-9)
        assert statistics.paired_p(b, a) == pytest.approx(expected, rel=1e-9)


def test_equal_differences_are_not_tested():
    assert statistics.paired_p([0.9, 0.8], [0.9, 0.8]) == 1
    assert statistics.paired_p([0.9, 0.8], [0.8, 0.7]) == statistics.paired_p([0.8, 0.7], [0.9, 0.8]) == 0


def test_holm_by_hand():
    assert statistics.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert statistics.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_who_is_level_with_the_best():
    noise = [0.0, 0.03, -0.02, 0.01, -0.03, 0.02]
    values = {
        "best": {k: 0.9 + e for k, e in enumerate(noise)},
        "paired": {k: 0.88 + e for k, e in enumerate(noise)},  # worse in every seed by the same
        "level": {k: 0.895 + e for k, e in enumerate(reversed(noise))},
        "worse": {k: 0.5 + e for k, e in enumerate(noise)},
    }
    assert statistics.not_worse(values) == {"best", "level"}
    assert statistics.not_worse({"best": {0: 1.0}, "other": {0: 0.9}}) == set()
    assert statistics.not_worse({"a": {0: 1.0, 1: 1.0, 2: 0.0}, "b": {0: 1.0, 1: 1.0}}) == {"a", "b"}
    values["once"] = {0: 0.1}  # which nothing can be told from
    assert statistics.not_worse(values) == {"best", "level", "once"}
    assert statistics.level_with("once", values) == set()


def test_a_rule_of_one_seed_is_never_the_best():
    two, one = {0: 0.9, 1: 0.8}, {0: 0.99}
    assert statistics.not_worse({"two": two, "one": one}) == set()  # nothing to compare with
    assert statistics.not_worse({"two": two, "same": two, "one": one}) == {"two", "same", "one"}


def test_who_shares_no_seeds_with_anyone_is_level_with_nobody():
    assert statistics.level_with("a", {"a": {0: 1.0, 1: 0.9}, "b": {5: 1.0, 6: 0.9}}) == set()
    assert statistics.level_with("a", {"a": {0: 1.0, 1: 0.9}}) == {"a"}
