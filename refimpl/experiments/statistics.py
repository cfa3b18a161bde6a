"""Statistics over several seeds: intervals, and which rules are level with the best."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

CONFIDENCE = 0.95  # of intervals; tests are at 1 - CONFIDENCE


def interval(values: Sequence[float] | np.ndarray) -> float:
    """Half the width of Student's 95 % interval for the mean; NaN with fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan
    from scipy import stats  # here, as it takes half a second, and a single seed has no interval

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) / math.sqrt(n))


def paired_p(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p of a paired t-test. Equal differences return 0 or 1 untested."""
    difference = np.subtract(a, b)
    n, mean, deviation = len(difference), np.mean(difference), np.std(difference, ddof=1)
    if deviation < 1e-12:
        return 1.0 if abs(mean) < 1e-12 else 0.0
    from scipy import stats  # as above

    return float(2 * stats.t.sf(abs(mean) / (deviation / math.sqrt(n)), n - 1))


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), in their own order."""
    order, corrected, so_far = np.argsort(p), np.empty(len(p)), 0.0
    for rank, i in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p) - rank) * p[i]))
        corrected[i] = so_far
    return corrected.tolist()


def not_worse(values: Mapping[str, Mapping[int, float]]) -> set[str]:
    """The names that a paired t-test, corrected by Holm, can't tell from the one with the highest mean.

    `values` are by name and seed, as in `level_with`. The best has two seeds or more; it is chosen by the same
    numbers, so that this errs on the side of telling apart.
    """
    means = {name: np.mean(list(by_seed.values())) for name, by_seed in values.items() if len(by_seed) > 1}
    return level_with(max(means, key=lambda name: means[name]), values) if means else set()


def level_with(one: str, values: Mapping[str, Mapping[int, float]]) -> set[str]:
    """The names that a paired t-test, corrected by Holm, can't tell from `one`, itself among them.

    `values` are by name and seed. Each is compared over the seeds that both have; with fewer than two of these
    nothing can be told. If that is so for all, the set is empty.
    """
    others = {name: sorted(set(values[one]) & set(values[name])) for name in values if name != one}
    tested = {name: seeds for name, seeds in others.items() if len(seeds) > 1}
    if len(values[one]) < 2 or (others and not tested):
        return set()
    pairs = ([[values[n][k] for k in seeds] for n in (one, name)] for name, seeds in tested.items())
    p = holm([paired_p(*pair) for pair in pairs])
    apart = {name for name, p_name in zip(tested, p, strict=True) if p_name < 1 - CONFIDENCE}
    return set(values) - apart
