"""Variants of the rules that work coordinate by coordinate: average, median, trimmed mean."""

import numpy as np

from refimpl.aggregate import ascending, coordinate_median, trim_count
from refimpl.arrays import Array

# --- Average ------------------------------------------------------------------------------------------------


def weighted_by_position(W: Array) -> Array:
    """average weighted by position: weights 1, 2, ..., n"""
    return np.average(W, axis=0, weights=np.arange(1, len(W) + 1))


def sum_of_models(W: Array) -> Array:
    """the sum: not divided by n"""
    return W.sum(axis=0)


def divided_by_n_1(W: Array) -> Array:
    """divided by n - 1: or by 1 for a single model"""
    return W.sum(axis=0) / max(len(W) - 1, 1)


def average_of_finite_models(W: Array) -> Array:
    """average of the finite models: models with NaN or infinite entries are left out"""
    return W[np.isfinite(W).all(axis=1)].mean(axis=0)


def average_without_nan(W: Array) -> Array:
    """average without NaN: NaN entries are left out [numpy.nanmean]"""
    return np.ma.array(W, mask=np.isnan(W)).mean(axis=0).filled(np.nan)


# --- Median -------------------------------------------------------------------------------------------------


def lower_median(W: Array) -> Array:
    """lower median: the lower of the middle two if n is even [the released code]"""
    return ascending(W)[(len(W) - 1) // 2]


def lower_median_lost_to_nan(W: Array) -> Array:
    """lower median that NaN takes down: the lower of the middle two; a NaN makes the coordinate NaN
    [torch.median]"""
    return spoilt_by_nan(W, lower_median(W))


def upper_median(W: Array) -> Array:
    """upper median: the upper of the middle two if n is even [BRIDGE's code for CNNs]"""
    return ascending(W)[len(W) // 2]


def median_lost_to_nan(W: Array) -> Array:
    """median that NaN takes down: the mean of the middle two; a NaN makes the coordinate NaN
    [numpy.median, and so ByzFL's Median and Flower's aggregate_median]"""
    return spoilt_by_nan(W, coordinate_median(W))


def median_without_nan(W: Array) -> Array:
    """median without NaN: the median of what is not NaN, so that an attacker's NaN moves it
    [numpy.nanmedian]"""
    return np.array([np.median(x[~np.isnan(x)]) if not np.isnan(x).all() else np.nan for x in W.T])


def spoilt_by_nan(W: Array, answer: Array) -> Array:
    return np.where(np.isnan(W).any(axis=0), np.nan, answer)


# --- Trimmed mean -------------------------------------------------------------------------------------------


def trimmed(W: Array, low: int, high: int) -> Array:
    """The mean of each coordinate without its `low` lowest and `high` highest values."""
    return ascending(W)[low : len(W) - high].mean(axis=0)


def trims_f_1(W: Array, f: int) -> Array:
    """trimmed mean trims f - 1: f - 1 on each side"""
    return trimmed(W, max(f - 1, 0), max(f - 1, 0))


def trims_one_side(W: Array, f: int) -> Array:
    """trimmed mean trims one side: only the f highest"""
    return trimmed(W, 0, f)


def trims_f_in_all(W: Array, f: int) -> Array:
    """trimmed mean trims f in all: floor(f / 2) on each side"""
    return trimmed(W, f // 2, f // 2)


def trims_a_share(W: Array, f: int) -> Array:
    """trimmed mean of a share: int(f / n * n) on each side, which is f - 1 for (n, f) = (49, 1) or (47, 3)
    [scipy.stats.trim_mean(W, f / n): Peng et al. 2021; Flower's aggregate_trimmed_avg, if told f / n]"""
    n = len(W)
    return trimmed(W, int(f / n * n), int(f / n * n))


def trims_a_tenth(W: Array, f: int) -> Array:
    """a tenth is trimmed if f = 0: floor(n / 10) on each side where f = 0
    [the paper's Sec. 5, by the name of the rule: refimpl's RULES, the released code]"""
    count = trim_count(len(W), f)
    return trimmed(W, count, count)


def nan_stays_nan(W: Array, f: int) -> Array:
    """NaN that is not trimmed stays NaN: NaN is sorted last and trimmed first, but if there are more than f the
    mean is NaN, not +infinity [numpy.sort, and so ByzFL's TrMean]"""
    return np.sort(W, axis=0)[f : len(W) - f].mean(axis=0)


def own_kept(W: Array, f: int) -> Array:
    """the own value is never trimmed: f lowest and highest of the others, then the mean of the rest and the
    first model's value
    [BRIDGE's and ByRDiE's papers, IOS, nicehiro (the receiver's model first)]"""
    others = ascending(W[1:])[f : len(W) - 1 - f]
    return (W[0] + others.sum(axis=0)) / (1 + len(others))


def mean_around_median(W: Array, f: int) -> Array:
    """mean around the median: the mean of the n - f values nearest to the median [ByzFL's Meamed]"""
    nearest = np.argsort(abs(W - coordinate_median(W)), axis=0, kind="stable")[: len(W) - f]
    return np.take_along_axis(W, nearest, axis=0).mean(axis=0)


def not_trimmed(W: Array, f: int) -> Array:
    """the mean: f is ignored"""
    return W.mean(axis=0)


def median_for_trimmed_mean(W: Array, f: int) -> Array:
    """the median: f is ignored"""
    return coordinate_median(W)


TABLE = {
    "average": (
        weighted_by_position, sum_of_models, divided_by_n_1, average_of_finite_models, average_without_nan,
    ),
    "median": (
        lower_median, lower_median_lost_to_nan, upper_median, median_lost_to_nan, median_without_nan,
    ),
    "trimmed-mean": (
        trims_f_1, trims_one_side, trims_f_in_all, trims_a_share, trims_a_tenth, nan_stays_nan, own_kept,
        mean_around_median, not_trimmed, median_for_trimmed_mean,
    ),
}  # fmt: skip
