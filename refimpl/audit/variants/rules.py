"""Variants of the rules: average, median, trimmed mean; medoid and Krum, which choose one of the models."""

from collections.abc import Callable
from functools import wraps

import numpy as np

from refimpl.aggregate import ascending, coordinate_median, row_of_least, trim_count
from refimpl.aggregate import squared_distances as squares
from refimpl.arrays import Array

# --- Average ------------------------------------------------------------------------------------------------


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


def trims_f_plus_1(W: Array, f: int) -> Array:
    """trimmed mean trims f + 1: f + 1 on each side"""
    return trimmed(W, f + 1, f + 1)


def trims_one_more_above(W: Array, f: int) -> Array:
    """trims one more above: the sorted values from f to n - f - 1, so f below and f + 1 above"""
    return trimmed(W, f, f + 1)


def trims_one_less_above(W: Array, f: int) -> Array:
    """trims one less above: f below and f - 1 above"""
    return trimmed(W, f, max(f - 1, 0))


def trims_one_more_below(W: Array, f: int) -> Array:
    """trims one more below: f + 1 below and f above"""
    return trimmed(W, f + 1, f)


def trims_one_less_below(W: Array, f: int) -> Array:
    """trims one less below: f - 1 below and f above"""
    return trimmed(W, max(f - 1, 0), f)


def empty_without_attackers(W: Array, f: int) -> Array:
    """nothing is left if f = 0: the sorted values [f:-f], which is empty for f = 0"""
    return ascending(W)[f:-f].mean(axis=0)


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
    first model's value [BRIDGE's and ByRDiE's papers, IOS, nicehiro (the receiver's model first)]"""
    others = ascending(W[1:])[f : len(W) - 1 - f]
    return (W[0] + others.sum(axis=0)) / (1 + len(others))


def mean_around_median(W: Array, f: int) -> Array:
    """mean around the median: the mean of the n - f values nearest to the median [ByzFL's Meamed]"""
    nearest = np.argsort(abs(W - coordinate_median(W)), axis=0, kind="stable")[: len(W) - f]
    return np.take_along_axis(W, nearest, axis=0).mean(axis=0)


def trims_as_listed(W: Array, f: int) -> Array:
    """trimmed mean that does not sort: the first f and the last f models as listed are left out [FedML]"""
    return W[f : len(W) - f].mean(axis=0)


def trims_by_magnitude(W: Array, f: int) -> Array:
    """trimmed by magnitude: without the f smallest and the f largest absolute values
    [FL-Byzantine-Library's TM_Abs]"""
    kept = np.argsort(abs(W), axis=0, kind="stable")[f : len(W) - f]
    return np.take_along_axis(W, kept, axis=0).mean(axis=0)


def trims_by_subtraction(W: Array, f: int) -> Array:
    """trimmed mean by subtraction: the sum of all minus the f lowest and the f highest, where one huge value
    costs all digits [He et al. 2022, Karimireddy et al. 2022 (the authors' codes), FL-Byzantine-Library]"""
    n, s = len(W), np.sort(W, axis=0)
    return (W.sum(axis=0) - s[:f].sum(axis=0) - s[n - f :].sum(axis=0)) / (n - 2 * f)


def not_trimmed(W: Array, f: int) -> Array:
    """the mean: f is ignored"""
    return W.mean(axis=0)


# --- Distances between models, (n, d) -> (n, n) -------------------------------------------------------------


def unsquared(W: Array) -> Array:
    return np.sqrt(squares(W))


def naive(W: Array) -> Array:
    """Squared distances as numpy has them: a NaN, or infinity minus itself, stays NaN."""
    return ((W[:, None] - W) ** 2).sum(axis=-1)


def by_gram(W: Array) -> Array:
    """distances by the plain Gram identity: |a|^2 + |b|^2 - 2 a b, which cancels where models agree to many
    digits [torch.cdist for more than 25 models; scikit-learn's euclidean_distances]"""
    s = (W**2).sum(axis=1)
    D = abs(s[:, None] + s - 2 * W @ W.T)
    return np.where(np.eye(len(W), dtype=bool), 0, np.where(np.isfinite(D), D, np.inf))


def lost_at_zero(W: Array) -> Array:
    """distance 0 to a lost model: a model that is not finite is at distance 0 from all
    [numpy.nan_to_num of the distances]"""
    return np.where(np.isinf(squares(W)), 0, squares(W))


# --- Choosing -----------------------------------------------------------------------------------------------


def nearest(D: Array, count: int, skip: int = 1) -> Array:
    """The `count` smallest distances of each model after the first `skip`: (n, n) -> (n, count)."""
    return np.sort(D, axis=1)[:, skip : skip + count]


def krum(W: Array, f: int, others: int, distances: Callable[[Array], Array] = squares, skip: int = 1) -> Array:
    """Krum over n - f - `others` distances."""
    return row_of_least(nearest(distances(W), len(W) - f - others, skip), W)


def multi_krum(
    W: Array, f: int, others: int, keep: int, distances: Callable[[Array], Array] = squares
) -> Array:
    """The mean of the `keep` models with the best scores over n - f - `others` distances."""
    scores = nearest(distances(W), len(W) - f - others).sum(axis=1)
    return W[np.argsort(scores, kind="stable")[:keep]].mean(axis=0)


def medoid_by(distances: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The medoid by other squared distances, with their docstring."""
    return wraps(distances)(lambda W: row_of_least(np.sqrt(distances(W)), W))


def krum_by(distances: Callable[[Array], Array]) -> Callable[[Array, int], Array]:
    """Krum by other squared distances, with their docstring."""
    return wraps(distances)(lambda W, f: krum(W, f, 2, distances))


def argmin(scores: Array, W: Array) -> Array:
    """The row of W with the least sum of scores by numpy.argmin, for which NaN is the least of all."""
    return W[np.argmin(scores.sum(axis=1))]


# --- Medoid -------------------------------------------------------------------------------------------------


def medoid_squared(W: Array) -> Array:
    """medoid of squared distances: the smallest sum of squared distances, which is the model nearest to the
    mean"""
    return row_of_least(squares(W), W)


def medoid_last_tie(W: Array) -> Array:
    """medoid's ties to the last: the last of equally good models"""
    return row_of_least(unsquared(W[::-1]), W[::-1])


def medoid_manhattan(W: Array) -> Array:
    """medoid of Manhattan distances: the smallest sum of |w_i - w_j|_1"""
    return row_of_least(abs(W[:, None] - W).sum(axis=-1), W)


def medoid_of_infinite_sums(W: Array) -> Array:
    """a few infinite distances hide the others: models with an infinite score are all alike, and the first of
    them wins if there is no other"""
    return argmin(unsquared(W), W)


def medoid_chooses_nan(W: Array) -> Array:
    """an attacker's NaN is chosen: numpy.argmin of sums in which NaN is the least of all
    [code that takes argmin of unchecked distances]"""
    return argmin(np.sqrt(naive(W)), W)


# --- Krum ---------------------------------------------------------------------------------------------------


def krum_n_f_1(W: Array, f: int) -> Array:
    """Krum with n - f - 1: squared distances to the n - f - 1 nearest others
    [ByzFL's and ByzPy's Krum(f), which is Blanchard's Krum(f + 1)]"""
    return krum(W, f, 1)


def krum_n_f_1_unsquared(W: Array, f: int) -> Array:
    """Krum with n - f - 1 unsquared distances: plain distances to the n - f - 1 nearest others
    [ByzantineMomentum, MoNNA, Garfield, FLPoison]"""
    return krum(W, f, 1, unsquared)


def krum_counts_itself(W: Array, f: int) -> Array:
    """Krum counts itself: the n - f - 2 smallest squared distances with the 0 to itself, so n - f - 3 others
    [notebooks of NDSS 2021]"""
    return krum(W, f, 2, skip=0)


def krum_counts_itself_unsquared(W: Array, f: int) -> Array:
    """Krum counts itself, unsquared: the n - f - 2 smallest plain distances with the 0 to itself
    [BRIDGE-K's code]"""
    return krum(W, f, 2, unsquared, skip=0)


def krum_unsquared(W: Array, f: int) -> Array:
    """Krum with unsquared distances: plain distances to the n - f - 2 nearest others [the released code]"""
    return krum(W, f, 2, unsquared)


def krum_squared_twice(W: Array, f: int) -> Array:
    """Krum with distances squared twice: |w_i - w_j|^4 to the n - f - 2 nearest others
    [He et al. 2022, Karimireddy et al. 2022 (the authors' codes)]"""
    return krum(W, f, 2, lambda W: squares(W) ** 2)


def krum_n_f_unsquared(W: Array, f: int) -> Array:
    """Krum with n - f unsquared distances: plain distances to the n - f nearest others
    [Baruch et al. 2019 (the authors' code)]"""
    return krum(W, f, 0, unsquared)


def krum_over_all(W: Array, f: int) -> Array:
    """Krum over all others: squared distances to all others, f is ignored"""
    return row_of_least(squares(W), W)


def krum_as_medoid(W: Array, f: int) -> Array:
    """Krum as a medoid: plain distances to all others, f is ignored [p2pfl, NEBULA (norms summed by layer)]"""
    return row_of_least(unsquared(W), W)


def krum_without_attackers(W: Array, f: int) -> Array:
    """Krum is told of no attackers: n - 2 nearest others whatever f is"""
    return krum(W, 0, 2)


def krum_last_tie(W: Array, f: int) -> Array:
    """Krum's ties to the last: the last of equally good models"""
    return krum(W[::-1], f, 2)


def krum_of_infinite_sums(W: Array, f: int) -> Array:
    """a few infinite distances hide the others: models with an infinite score are all alike, and the first of
    them wins if there is no other"""
    return argmin(nearest(squares(W), len(W) - f - 2), W)


def krum_chooses_nan(W: Array, f: int) -> Array:
    """an attacker's NaN is chosen: numpy.argmin of scores in which NaN is the least of all
    [code that takes argmin of unchecked distances, such as Flower's aggregate_krum]"""
    return argmin(nearest(naive(W), len(W) - f - 2), W)


def krum_n_f_1_chooses_nan(W: Array, f: int) -> Array:
    """n - f - 1, and an attacker's NaN is chosen: squared distances to the n - f - 1 nearest others,
    numpy.argmin [ByzFL's Krum(f), which is Blanchard's Krum(f + 1)]"""
    return argmin(nearest(naive(W), len(W) - f - 1), W)


def multi_krum_n_f(W: Array, f: int) -> Array:
    """Multi-Krum of n - f: the mean of the n - f models with the best scores over n - f - 1 others
    [ByzFL's MultiKrum, ByzPy's MultiKrum(f, n - f)]"""
    return multi_krum(W, f, 1, len(W) - f)


def multi_krum_garfield(W: Array, f: int) -> Array:
    """Multi-Krum of n - f - 2, unsquared: the mean of the n - f - 2 models with the best scores over n - f - 1
    plain distances [Garfield]"""
    return multi_krum(W, f, 1, len(W) - f - 2, unsquared)


def multi_krum_n_f_2(W: Array, f: int) -> Array:
    """Multi-Krum of n - f - 2: the mean of the n - f - 2 models with the best scores
    [Blanchard et al. 2017 with its largest m]"""
    return multi_krum(W, f, 2, len(W) - f - 2)


TABLE = {
    "average": (sum_of_models, divided_by_n_1, average_of_finite_models, average_without_nan),
    "median": (
        lower_median, lower_median_lost_to_nan, upper_median, median_lost_to_nan, median_without_nan,
    ),
    "trimmed-mean": (
        trims_f_1, trims_f_plus_1, trims_one_more_above, trims_one_less_above, trims_one_more_below,
        trims_one_less_below, empty_without_attackers, trims_as_listed, trims_by_magnitude,
        trims_by_subtraction, trims_one_side, trims_f_in_all, trims_a_share, trims_a_tenth, nan_stays_nan,
        own_kept, mean_around_median, not_trimmed,
    ),
    "medoid": (
        medoid_squared, medoid_last_tie, medoid_manhattan, medoid_by(by_gram), medoid_by(lost_at_zero),
        medoid_of_infinite_sums, medoid_chooses_nan,
    ),
    "krum": (
        krum_n_f_1, krum_n_f_1_unsquared, krum_counts_itself, krum_counts_itself_unsquared, krum_unsquared,
        krum_squared_twice, krum_n_f_unsquared, krum_over_all, krum_as_medoid, krum_without_attackers,
        krum_last_tie, krum_by(by_gram), krum_by(lost_at_zero), krum_of_infinite_sums, krum_chooses_nan,
        krum_n_f_1_chooses_nan, multi_krum_n_f, multi_krum_n_f_2, multi_krum_garfield,
    ),
}  # fmt: skip
