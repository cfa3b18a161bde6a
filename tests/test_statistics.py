"""Intervals, and which rules are level with the best."""

import math

import pytest

from refimpl.experiments import statistics


def test_the_interval_by_hand():
    assert statistics.interval([1.0, 2.0, 3.0]) == pytest.approx(4.302653 * 1 / 3**0.5, rel=1e-6)
    assert math.isnan(statistics.interval([1.0]))


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
