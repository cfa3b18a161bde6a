"""Variants of the rules that choose one of the models: medoid and Krum."""

from collections.abc import Callable

import numpy as np

from refimpl.aggregate import row_of_least
from refimpl.aggregate import squared_distances as squares
from refimpl.arrays import Array

# --- Distances between models, (n, d) -> (n, n) -------------------------------------------------------------


def unsquared(W: Array) -> Array:
    return np.sqrt(squares(W))


def by_gram(W: Array) -> Array:
    """Squared distances as |a|^2 + |b|^2 - 2 a b, which cancels far from the origin."""
    s = (W**2).sum(axis=1)
    D = abs(s[:, None] + s - 2 * W @ W.T)
    return np.where(np.eye(len(W), dtype=bool), 0, np.where(np.isfinite(D), D, np.inf))


def lost_at_zero(W: Array) -> Array:
    """Squared distances, 0 where they are infinite."""
    return np.where(np.isinf(squares(W)), 0, squares(W))


def of_directions(W: Array) -> Array:
    """Squared distances of w / sqrt(1 + |w|^2)."""
    return squares(W / np.sqrt((W**2).sum(axis=1, keepdims=True) + 1))


def naive(W: Array) -> Array:
    """Squared distances as numpy has them: a NaN, or infinity minus itself, stays NaN."""
    return ((W[:, None] - W) ** 2).sum(axis=-1)


# --- Choosing -----------------------------------------------------------------------------------------------


def nearest(D: Array, count: int, skip: int = 1) -> Array:
    """The `count` smallest distances of each model after the first `skip`: (n, n) -> (n, count)."""
    return np.sort(D, axis=1)[:, skip : skip + count]


def krum(W: Array, f: int, others: int, distances: Callable[[Array], Array] = squares, skip: int = 1) -> Array:
    """Krum over n - f - `others` distances."""
    return row_of_least(nearest(distances(W), len(W) - f - others, skip), W)


def multi_krum(W: Array, f: int, others: int, keep: int) -> Array:
    """The mean of the `keep` models with the best scores over n - f - `others` distances."""
    scores = nearest(squares(W), len(W) - f - others).sum(axis=1)
    return W[np.argsort(scores, kind="stable")[:keep]].mean(axis=0)


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


def centre(W: Array) -> Array:
    """the smallest of the largest distances: the centre instead of the medoid"""
    return W[np.argmin(unsquared(W).max(axis=1))]


def medoid_by_gram(W: Array) -> Array:
    """distances by the plain Gram identity: |a|^2 + |b|^2 - 2 a b, which cancels where models agree to many
    digits
    [torch.cdist for more than 25 models; scikit-learn's euclidean_distances]"""
    return row_of_least(np.sqrt(by_gram(W)), W)


def medoid_lost_at_zero(W: Array) -> Array:
    """distance 0 to a lost model: a model that is not finite is at distance 0 from all
    [numpy.nan_to_num of the distances]"""
    return row_of_least(np.sqrt(lost_at_zero(W)), W)


def medoid_of_infinite_sums(W: Array) -> Array:
    """a few infinite distances hide the others: models with an infinite score are all alike, and the first of
    them wins if there is no other"""
    return argmin(unsquared(W), W)


def medoid_of_directions(W: Array) -> Array:
    """distances of directions: of w / sqrt(1 + |w|^2), as in a cosine similarity that is kept from dividing by
    0"""
    return row_of_least(np.sqrt(of_directions(W)), W)


def medoid_chooses_nan(W: Array) -> Array:
    """an attacker's NaN is chosen: numpy.argmin of sums in which NaN is the least of all
    [code that takes argmin of unchecked distances]"""
    return argmin(np.sqrt(naive(W)), W)


# --- Krum ---------------------------------------------------------------------------------------------------


def krum_n_f_1(W: Array, f: int) -> Array:
    """Krum with n - f - 1: squared distances to the n - f - 1 nearest others
    [ByzFL's Krum(f), which is Blanchard's Krum(f + 1)]"""
    return krum(W, f, 1)


def krum_n_f_1_unsquared(W: Array, f: int) -> Array:
    """Krum with n - f - 1 unsquared distances: plain distances to the n - f - 1 nearest others
    [ByzantineMomentum, MoNNA]"""
    return krum(W, f, 1, unsquared)


def krum_counts_itself(W: Array, f: int) -> Array:
    """Krum counts itself: the n - f - 2 smallest squared distances with the 0 to itself, so n - f - 3 others"""
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


def krum_without_attackers(W: Array, f: int) -> Array:
    """Krum is told of no attackers: n - 2 nearest others whatever f is"""
    return krum(W, 0, 2)


def krum_last_tie(W: Array, f: int) -> Array:
    """Krum's ties to the last: the last of equally good models"""
    return krum(W[::-1], f, 2)


def krum_by_gram(W: Array, f: int) -> Array:
    """distances by the plain Gram identity: |a|^2 + |b|^2 - 2 a b, which cancels where models agree to many
    digits
    [torch.cdist for more than 25 models; scikit-learn's euclidean_distances]"""
    return krum(W, f, 2, by_gram)


def krum_lost_at_zero(W: Array, f: int) -> Array:
    """distance 0 to a lost model: a model that is not finite is at distance 0 from all
    [numpy.nan_to_num of the distances]"""
    return krum(W, f, 2, lost_at_zero)


def krum_of_infinite_sums(W: Array, f: int) -> Array:
    """a few infinite distances hide the others: models with an infinite score are all alike, and the first of
    them wins if there is no other"""
    return argmin(nearest(squares(W), len(W) - f - 2), W)


def krum_of_directions(W: Array, f: int) -> Array:
    """distances of directions: of w / sqrt(1 + |w|^2), as in a cosine similarity that is kept from dividing by
    0"""
    return krum(W, f, 2, of_directions)


def krum_chooses_nan(W: Array, f: int) -> Array:
    """an attacker's NaN is chosen: numpy.argmin of scores in which NaN is the least of all
    [code that takes argmin of unchecked distances, such as Flower's aggregate_krum]"""
    return argmin(nearest(naive(W), len(W) - f - 2), W)


def krum_n_f_1_chooses_nan(W: Array, f: int) -> Array:
    """n - f - 1, and an attacker's NaN is chosen: squared distances to the n - f - 1 nearest others,
    numpy.argmin
    [ByzFL's Krum(f), which is Blanchard's Krum(f + 1)]"""
    return argmin(nearest(naive(W), len(W) - f - 1), W)


def multi_krum_n_f(W: Array, f: int) -> Array:
    """Multi-Krum of n - f: the mean of the n - f models with the best scores over n - f - 1 others
    [ByzFL's MultiKrum]"""
    return multi_krum(W, f, 1, len(W) - f)


def multi_krum_n_f_2(W: Array, f: int) -> Array:
    """Multi-Krum of n - f - 2: the mean of the n - f - 2 models with the best scores
    [Blanchard et al. 2017 with its largest m]"""
    return multi_krum(W, f, 2, len(W) - f - 2)


TABLE = {
    "medoid": (
        medoid_squared, medoid_last_tie, medoid_manhattan, centre, medoid_by_gram, medoid_lost_at_zero,
        medoid_of_infinite_sums, medoid_of_directions, medoid_chooses_nan,
    ),
    "krum": (
        krum_n_f_1, krum_n_f_1_unsquared, krum_counts_itself, krum_counts_itself_unsquared, krum_unsquared,
        krum_squared_twice, krum_n_f_unsquared, krum_over_all, krum_without_attackers, krum_last_tie,
        krum_by_gram, krum_lost_at_zero, krum_of_infinite_sums, krum_of_directions, krum_chooses_nan,
        krum_n_f_1_chooses_nan, multi_krum_n_f, multi_krum_n_f_2,
    ),
}  # fmt: skip
