"""Variants of the rules that work coordinate by coordinate: average, median, trimmed mean."""

from collections.abc import Callable
from math import inf, nan

import numpy as np

from refimpl import aggregate
from refimpl.audit.variant import Variant


def middle(W: np.ndarray, upper: bool) -> np.ndarray:
    return aggregate.ascending(W)[len(W) // 2 if upper else (len(W) - 1) // 2]


def spoilt_by_nan(W: np.ndarray, answer: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(W).any(axis=0), np.nan, answer)


def without_nan(W: np.ndarray) -> np.ndarray:
    return np.array([np.median(x[~np.isnan(x)]) if not np.isnan(x).all() else np.nan for x in W.T])


def trimmed(low: Callable[[int, int], int], high: Callable[[int, int], int]) -> Callable:
    """Another number of values dropped at either end."""

    def compute(W: np.ndarray, f: int) -> np.ndarray:
        n = len(W)
        return aggregate.ascending(W)[low(n, f) : n - high(n, f)].mean(axis=0)

    return compute


def own_kept(W: np.ndarray, f: int) -> np.ndarray:
    """The first model's values are never trimmed."""
    others = aggregate.ascending(W[1:])[f : len(W) - 1 - f]
    return (W[0] + others.sum(axis=0)) / (1 + len(others))


def mean_around_median(W: np.ndarray, f: int) -> np.ndarray:
    nearest = np.argsort(abs(W - aggregate.coordinate_median(W)), axis=0, kind="stable")[: len(W) - f]
    return np.take_along_axis(W, nearest, axis=0).mean(axis=0)


def shares(n: int, f: int) -> int:
    return int(f / n * n)


VARIANTS = {
    "average": (
        Variant(
            "average weighted by position",
            "weights 1, 2, ..., n",
            "",
            lambda W: np.average(W, axis=0, weights=np.arange(1, len(W) + 1)),
            (([[0], [1]],), ([[0], [0], [1]],)),
        ),
        Variant(
            "the sum", "not divided by n", "", lambda W: W.sum(axis=0), (([[0], [1]],), ([[0], [0], [1]],))
        ),
        Variant(
            "divided by n - 1",
            "or by 1 for a single model",
            "",
            lambda W: W.sum(axis=0) / max(len(W) - 1, 1),
            (([[0], [1]],), ([[0], [0], [1]],)),
        ),
        Variant(
            "average of the finite models",
            "models with NaN or infinite entries are left out",
            "",
            lambda W: W[np.isfinite(W).all(axis=1)].mean(axis=0),
            (([[0], [nan]],), ([[1, 0], [inf, 1], [2, 2]],)),
        ),
        Variant(
            "average without NaN",
            "NaN entries are left out",
            "numpy.nanmean",
            lambda W: np.ma.array(W, mask=np.isnan(W)).mean(axis=0).filled(np.nan),
            (([[nan], [0]],), ([[0], [nan], [0]],)),
        ),
    ),
    "median": (
        Variant(
            "lower median",
            "the lower of the middle two if n is even",
            "the released code",
            lambda W: middle(W, False),
            (([[0], [1]],), ([[0, 0], [0, 1]],)),
        ),
        Variant(
            "lower median that NaN takes down",
            "the lower of the middle two; a NaN makes the coordinate NaN",
            "torch.median",
            lambda W: spoilt_by_nan(W, middle(W, False)),
            (([[0], [1]],), ([[0, 0], [0, 1]],)),
        ),
        Variant(
            "upper median",
            "the upper of the middle two if n is even",
            "BRIDGE's code for CNNs",
            lambda W: middle(W, True),
            (([[0], [1]],), ([[0, 0], [0, 1]],)),
        ),
        Variant(
            "median that NaN takes down",
            "the mean of the middle two; a NaN makes the coordinate NaN",
            "numpy.median, and so ByzFL's Median and Flower's aggregate_median",
            lambda W: spoilt_by_nan(W, aggregate.coordinate_median(W)),
            (([[nan]],), ([[0, nan]],)),
        ),
        Variant(
            "median without NaN",
            "the median of what is not NaN, so that an attacker's NaN moves it",
            "numpy.nanmedian",
            without_nan,
            (([[nan]],), ([[0, nan]],)),
        ),
    ),
    "trimmed-mean": (
        Variant(
            "trimmed mean trims f - 1",
            "f - 1 on each side",
            "",
            trimmed(lambda n, f: max(f - 1, 0), lambda n, f: max(f - 1, 0)),
            (([[0], [0], [1]], 1), ([[0], [0], [0], [1]], 1)),
        ),
        Variant(
            "trimmed mean trims one side",
            "only the f highest",
            "",
            trimmed(lambda n, f: 0, lambda n, f: f),
            (([[0], [1], [1]], 1), ([[0], [0], [1], [1]], 1)),
        ),
        Variant(
            "trimmed mean trims f in all",
            "floor(f / 2) on each side",
            "",
            trimmed(lambda n, f: f // 2, lambda n, f: f // 2),
            (([[0], [0], [1]], 1), ([[0], [0], [0], [1]], 1)),
        ),
        Variant(
            "trimmed mean of a share",
            "int(f / n * n) on each side, which is f - 1 for (n, f) = (49, 1) or (47, 3)",
            "scipy.stats.trim_mean(W, f / n): Peng et al. 2021; Flower's aggregate_trimmed_avg, if told f / n",
            trimmed(shares, shares),
            (([[k * k] for k in range(49)], 1), ([[k * k] for k in range(47)], 3)),
        ),
        Variant(
            "a tenth is trimmed if f = 0",
            "floor(n / 10) on each side where f = 0",
            "the paper's Sec. 5, by the name of the rule: refimpl's RULES, the released code",
            trimmed(aggregate.trim, aggregate.trim),
            (([[k * k] for k in range(10)], 0), ([[k * k] for k in range(20)], 0)),
        ),
        Variant(
            "NaN that is not trimmed stays NaN",
            "NaN is sorted last and trimmed first, but if there are more than f the mean is NaN, not +infinity",
            "numpy.sort, and so ByzFL's TrMean",
            lambda W, f: np.sort(W, axis=0)[f : len(W) - f].mean(axis=0),
            (([[nan]], 0), ([[nan], [nan], [0]], 1)),
        ),
        Variant(
            "the own value is never trimmed",
            "f lowest and highest of the others, then the mean of the rest and the first model's value",
            "BRIDGE's and ByRDiE's papers, IOS, nicehiro (the receiver's model first)",
            own_kept,
            (([[0], [1], [2]], 1), ([[0, 2], [1, 0], [1, 0]], 1)),
        ),
        Variant(
            "mean around the median",
            "the mean of the n - f values nearest to the median",
            "ByzFL's Meamed",
            mean_around_median,
            (([[0], [0], [1], [1]], 1), ([[0], [0], [0], [1], [1]], 1)),
        ),
        Variant(
            "the mean",
            "f is ignored",
            "",
            lambda W, f: W.mean(axis=0),
            (([[0], [0], [1]], 1), ([[0], [0], [0], [1]], 1)),
        ),
        Variant(
            "the median",
            "f is ignored",
            "",
            lambda W, f: aggregate.coordinate_median(W),
            (([[0], [0], [1]], 0), ([[0], [0], [0], [1]], 0)),
        ),
    ),
}
