"""Numbers over several seeds: intervals, and which rules can't be told from the best."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

LEVEL = 0.95


def interval(values: Sequence[float] | np.ndarray) -> float:
    """Half the width of Student's 95 % interval for the mean; NaN with fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * np.std(values, ddof=1) / math.sqrt(n))


def paired_p(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p of a paired t-test. Differences that are all the same, up to rounding, need none."""
    difference = np.subtract(a, b)
    n, mean, deviation = len(difference), np.mean(difference), np.std(difference, ddof=1)
    if deviation < 1e-12:
        return 1.0 if abs(mean) < 1e-12 else 0.0
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

    `values` are by name and seed, as in `level_with`. The best is chosen by the same numbers, so that this errs
    on the side of telling apart.
    """
    rows = common(values)
    return level_with(max(rows, key=lambda name: sum(rows[name])), values)


def level_with(one: str, values: Mapping[str, Mapping[int, float]]) -> set[str]:
    """The names that a paired t-test, corrected by Holm, can't tell from `one`, itself among them.

    `values` are by name and seed; only seeds that all have are compared, and with fewer than two of them nobody
    is named.
    """
    rows = common(values)
    if len(rows[one]) < 2:
        return set()
    others = [name for name in rows if name != one]
    p = holm([paired_p(rows[one], rows[name]) for name in others])
    return {one} | {name for name, p_name in zip(others, p, strict=True) if p_name >= 1 - LEVEL}


def common(values: Mapping[str, Mapping[int, float]]) -> dict[str, list[float]]:
    """By name, the numbers of the seeds that all have."""
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in values.values())))
    return {name: [by_seed[seed] for seed in seeds] for name, by_seed in values.items()}
