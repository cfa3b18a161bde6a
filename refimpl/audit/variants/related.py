"""Variants of other papers' rules: geometric median, Multi-Krum, Bulyan, MDA, and those that know their own."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from refimpl.aggregate import average, coordinate_median, medoid, trimmed_mean
from refimpl.aggregate import squared_distances as squares
from refimpl.arrays import Array
from refimpl.audit.variants.rules import (
    krum,
    lower_median,
    multi_krum,
    multi_krum_garfield,
    multi_krum_n_f,
    nearest,
    unsquared,
)
from refimpl.related import rules
from refimpl.related.rules import mozi, weighted_mean

# --- Geometric median ---------------------------------------------------------------------------------------


def weiszfeld(W: Array, z: Array, steps: int, nu: float, tolerance: float = 0.0) -> Array:
    """The point after Weiszfeld's steps from z, with distances of at least nu, until it moves no farther."""
    for _ in range(steps):
        closeness = 1 / np.maximum(np.sqrt(((W - z) ** 2).sum(axis=1)), nu)
        before, z = z, closeness @ W / closeness.sum()
        if np.sqrt(((z - before) ** 2).sum()) <= tolerance:
            break
    return z


def four_steps(W: Array) -> Array:
    """four of Weiszfeld's steps: from the mean, distances of at least 1e-5
    [Pillutla et al. 2022 (the authors' code, whose stop is left out)]"""
    return weiszfeld(W, W.mean(axis=0), 4, 1e-5)


def three_steps_from_0(W: Array) -> Array:
    """three of Weiszfeld's steps from 0: distances of at least 0.1; moves with the origin
    [ByzFL's GeometricMedian, MoNNA]"""
    return weiszfeld(W, 0 * W[0], 3, 0.1)


def eight_steps_from_0(W: Array) -> Array:
    """eight of Weiszfeld's steps from 0: distances of at least 0.1 [He et al. 2022 (the authors' code)]"""
    return weiszfeld(W, 0 * W[0], 8, 0.1)


def weights_that_add_up(W: Array) -> Array:
    """four steps with weights that add up: each step divides the weights of the last one by the distances, and
    so goes to one of the models [OpenFL's GeometricMedian (whose stop is left out)]"""
    z, c = W.mean(axis=0), np.ones(len(W))
    for _ in range(4):
        c = c / np.maximum(np.sqrt(((W - z) ** 2).sum(axis=1)), 1e-5)
        c = c / c.sum()
        z = c @ W
    return z


def from_the_coordinate_median(W: Array) -> Array:
    """Weiszfeld's steps from the coordinate median: from the lower median, distances of at least 1e-12; if the
    start is one of the models, it stays there [ByzPy's GeometricMedian on torch]"""
    return weiszfeld(W, lower_median(W), 256, 1e-12, 1e-6)


def median_by_coordinate(W: Array) -> Array:
    """the coordinate median: the median of each coordinate"""
    return coordinate_median(W)


def medoid_for_median(W: Array) -> Array:
    """the medoid: the model with the smallest sum of distances, not the point"""
    return medoid(W)


def mean_for_median(W: Array) -> Array:
    """the mean: the point with the least sum of squared distances"""
    return average(W)


# --- Multi-Krum ---------------------------------------------------------------------------------------------


def picked(
    W: Array, f: int, count: int, others: int, distances: Callable[[Array], Array] = squares, skip: int = 1
) -> Array:
    """`count` models, one after the other Krum's choice over m - f - `others` distances among the m left."""
    D, left, chosen = distances(W), list(range(len(W))), []
    for _ in range(count):
        scores = nearest(D[np.ix_(left, left)], max(len(left) - f - others, 0), skip).sum(axis=1)
        chosen.append(left.pop(int(scores.argmin())))
    return W[chosen]


def multi_krum_n_f_squared(W: Array, f: int) -> Array:
    """the n - f best: over n - f - 2 others"""
    return multi_krum(W, f, 2, len(W) - f)


def multi_krum_n_f_1(W: Array, f: int) -> Array:
    """Multi-Krum with n - f - 1: squared distances to the n - f - 1 nearest others, the n - f - 2 best
    [ByzPy's MultiKrum(f, n - f - 2)]"""
    return multi_krum(W, f, 1, len(W) - f - 2)


def multi_krum_unsquared(W: Array, f: int) -> Array:
    """Multi-Krum with unsquared distances: plain distances to the n - f - 2 nearest others"""
    return multi_krum(W, f, 2, len(W) - f - 2, unsquared)


def multi_krum_of_one(W: Array, f: int) -> Array:
    """Krum: the best model alone"""
    return krum(W, f, 2)


def multi_krum_summed(W: Array, f: int) -> Array:
    """Multi-Krum that sums: the sum of the n - f - 2 best, not their mean, by distances squared twice
    [He et al. 2022, Karimireddy et al. 2022 (the authors' codes, if told m = n - f - 2)]"""
    return (len(W) - f - 2) * multi_krum(W, f, 2, len(W) - f - 2, lambda W: squares(W) ** 2)


def multi_krum_repeated(W: Array, f: int) -> Array:
    """repeated Krum that counts itself: the mean of n - 2f - 2 models, picked one by one among those left, by
    m - f - 2 squared distances with the 0 to itself [notebooks of NDSS 2021]"""
    return picked(W, f, len(W) - 2 * f - 2, 2, skip=0).mean(axis=0)


# --- Bulyan -------------------------------------------------------------------------------------------------


def around_median(W: Array, keep: int, median: Callable[[Array], Array] = coordinate_median) -> Array:
    """The mean, per coordinate, of the `keep` values nearest to the median."""
    order = np.argsort(abs(W - median(W)), axis=0, kind="stable")[:keep]
    return np.take_along_axis(W, order, axis=0).mean(axis=0)


def bulyan_one_less(W: Array, f: int) -> Array:
    """Bulyan that keeps one less: n - 4f - 1 values, of models picked by plain distances to m - f others
    [Baruch et al. 2019 (the authors' code), FedML's BulyanDefense]"""
    return around_median(picked(W, f, len(W) - 2 * f, 0, unsquared), len(W) - 4 * f - 1)


def bulyan_lower_median(W: Array, f: int) -> Array:
    """Bulyan around the lower median: of two middle values the lower [Wu et al. 2023 (the authors' code)]"""
    return around_median(picked(W, f, len(W) - 2 * f, 2), len(W) - 4 * f, lower_median)


def bulyan_trims(W: Array, f: int) -> Array:
    """Bulyan that trims: f values on each side of the models picked [BRIDGE-B's code]"""
    return rules.bridge_b(W, f)


def bulyan_n_2f_2(W: Array, f: int) -> Array:
    """Bulyan of n - 2f - 2: so many are picked, and the n - 4f - 2 values nearest to their median kept"""
    return around_median(picked(W, f, len(W) - 2 * f - 2, 2), len(W) - 4 * f - 2)


def bulyan_of_means(W: Array, f: int) -> Array:
    """Bulyan of means: of n - 2f - 2 means, of the models from the i-th to the (n - f - 2)-th best by plain
    distances, the n - 4f - 2 values nearest to their lower median [ByzantineMomentum, MoNNA]"""
    n = len(W)
    best = W[np.argsort(nearest(unsquared(W), n - f - 2).sum(axis=1), kind="stable")[: n - f - 2]]
    means = np.array([best[i:].mean(axis=0) for i in range(n - 2 * f - 2)])
    return around_median(means, n - 4 * f - 2, lower_median)


def bulyan_at_once(W: Array, f: int) -> Array:
    """Bulyan that picks at once: the n - 2f best by one set of scores"""
    order = np.argsort(nearest(squares(W), len(W) - f - 2).sum(axis=1), kind="stable")
    return around_median(W[order[: len(W) - 2 * f]], len(W) - 4 * f)


# --- MDA ----------------------------------------------------------------------------------------------------


def of_subset(W: Array, size: int, score: Callable[[Array], Array]) -> Array:
    """The mean of the subset of this size with the least score; `score` is of subsets, (m, size, d) -> (m,)."""
    subsets = W[np.array(list(combinations(range(len(W)), size)))]
    return subsets[score(subsets).argmin()].mean(axis=0)


def diameters(subsets: Array) -> Array:
    return ((subsets[:, :, None] - subsets[:, None]) ** 2).sum(axis=-1).max(axis=(1, 2))


def mda_n_2f(W: Array, f: int) -> Array:
    """MDA of n - 2f: the subset has n - 2f models"""
    return of_subset(W, max(len(W) - 2 * f, 1), diameters)


def least_variance(W: Array, f: int) -> Array:
    """the subset of least variance: the least sum of squared distances, instead of the least diameter"""
    return of_subset(W, len(W) - f, lambda S: S.var(axis=1).sum(axis=1))


def least_eigenvalue(W: Array, f: int) -> Array:
    """SMEA: the subset whose covariance has the smallest largest eigenvalue
    [Allouah et al. 2023; ByzFL's SMEA takes one step of a power iteration from a random start]"""
    centred = lambda S: S - S.mean(axis=1, keepdims=True)
    return of_subset(W, len(W) - f, lambda S: np.linalg.norm(centred(S), ord=2, axis=(1, 2)))


def nearest_to_the_first(W: Array, f: int) -> Array:
    """MoNNA: the mean of the n - f models nearest to the first one [ByzFL's and ByzPy's MoNNA]"""
    return W[np.argsort(squares(W)[0], kind="stable")[: len(W) - f]].mean(axis=0)


def nearest_to_the_mean(W: Array, f: int) -> Array:
    """the n - f models nearest to the mean: and their mean"""
    distances = ((W - W.mean(axis=0)) ** 2).sum(axis=1)
    return W[np.argsort(distances, kind="stable")[: len(W) - f]].mean(axis=0)


# --- Trimmed mean that keeps its own ------------------------------------------------------------------------


def own_trimmed_too(W: Array, own: int, f: int) -> Array:
    """the own value is trimmed too: the mean of all without the f lowest and f highest
    [BRIDGE's and ByRDiE's codes]"""
    return trimmed_mean(W, f)


def others_alone(W: Array, own: int, f: int) -> Array:
    """the others alone: the own value does not count"""
    return trimmed_mean(np.delete(W, own, axis=0), f)


def own_counts_half(W: Array, own: int, f: int) -> Array:
    """the own value counts half: (w_own + trimmed mean of the others) / 2"""
    return (W[own] + others_alone(W, own, f)) / 2


def divided_without_own(W: Array, own: int, f: int) -> Array:
    """divided by one less: the sum with the own value, divided by the number of the others kept"""
    kept = len(W) - 1 - 2 * f
    return others_alone(W, own, f) + W[own] / kept


def trims_f_of_all(W: Array, own: int, f: int) -> Array:
    """trims f in all: floor(f / 2) on each side"""
    return rules.own_trimmed_mean(W, own, f // 2)


# --- IOS ----------------------------------------------------------------------------------------------------


def scissor(
    W: Array, own: int, f: int, centre: Callable[[np.ndarray], Array], spared: bool = True
) -> np.ndarray:
    """Which models are left after f times dropping the one farthest from the centre of those left."""
    left = np.ones(len(W), dtype=bool)
    for _ in range(f):
        distance = np.where(left, ((W - centre(left)) ** 2).sum(axis=1), -1)
        distance[own] = -1 if spared else distance[own]
        left[distance.argmax()] = False
    return left


def own_not_spared(W: Array, own: int, weights: Array, f: int) -> Array:
    """the own model is not spared: it may be dropped as any other"""
    return weighted_mean(W, weights, scissor(W, own, f, lambda left: weighted_mean(W, weights, left), False))


def farthest_from_own(W: Array, own: int, weights: Array, f: int) -> Array:
    """farthest from the own model: instead of from the mean"""
    return weighted_mean(W, weights, scissor(W, own, f, lambda left: W[own]))


def dropped_at_once(W: Array, own: int, weights: Array, f: int) -> Array:
    """dropped at once: the f neighbours farthest from the mean of all"""
    mean = weighted_mean(W, weights, np.ones(len(W), dtype=bool))
    return weighted_mean(W, weights, scissor(W, own, f, lambda left: mean))


def faba(W: Array, own: int, weights: Array, f: int) -> Array:
    """FABA: neighbours farthest from the neighbours' plain mean, without the own model, are dropped; the plain
    mean of the rest and the own model [Wu et al. 2023 (the authors' code, for comparison)]"""
    others = np.arange(len(W)) != own
    left = scissor(W, own, f, lambda left: W[left & others].mean(axis=0))
    return W[left].mean(axis=0)


def not_normalised(W: Array, own: int, weights: Array, f: int) -> Array:
    """the weights are not normalised again: sum c_l w_l over the models left"""
    left = scissor(W, own, f, lambda left: weighted_mean(W, weights, left))
    return weights[left] @ W[left]


# --- ClippedGossip ------------------------------------------------------------------------------------------


def clipped(W: Array, own: int, weights: Array, factor: Callable[[Array], Array]) -> Array:
    """w_own + sum c_l factor(|w_l - w_own|) (w_l - w_own)."""
    differences = W - W[own]
    norms = np.sqrt((differences**2).sum(axis=1, keepdims=True))
    return W[own] + weights @ np.where(norms > 0, factor(norms) * differences, 0)


def clips_entries(W: Array, own: int, weights: Array, tau: float) -> Array:
    """clips entry by entry: each entry of a difference to [-tau, tau]"""
    return W[own] + weights @ np.clip(W - W[own], -tau, tau)


def always_of_length_tau(W: Array, own: int, weights: Array, tau: float) -> Array:
    """differences of length tau: shorter ones are stretched"""
    return clipped(W, own, weights, lambda norms: tau / norms)


def dropped_beyond_tau(W: Array, own: int, weights: Array, tau: float) -> Array:
    """dropped beyond the radius: a difference longer than tau counts 0"""
    return clipped(W, own, weights, lambda norms: norms <= tau)


def clipped_by_square(W: Array, own: int, weights: Array, tau: float) -> Array:
    """tau by the squared distance: min(1, tau / |w_l - w_own|^2)"""
    return clipped(W, own, weights, lambda norms: np.minimum(1, tau / norms**2))


def equal_weights(W: Array, own: int, weights: Array, tau: float) -> Array:
    """equal weights: 1 / n, self-centred clipping on its own"""
    return rules.clipped_gossip(W, own, np.full(len(W), 1 / len(W)), tau)


def clips_three_times(W: Array, own: int, weights: Array, tau: float) -> Array:
    """clips three times: v <- v + mean of Clip(w_l - v, tau), from v = w_own [MoNNA's comparison (SCC)]"""
    v = W[own]
    for _ in range(3):
        v = rules.clipped_gossip(np.vstack([v, W]), 0, np.append(0, np.full(len(W), 1 / len(W))), tau)
    return v


def clips_models(W: Array, own: int, weights: Array, tau: float) -> Array:
    """clips the models: sum c_l Clip(w_l, tau), not the differences"""
    return rules.clipped_gossip(np.vstack([0 * W[own], W]), 0, np.append(0, weights), tau)


# --- MOZI ---------------------------------------------------------------------------------------------------


def near(W: Array, own: int, count: int) -> np.ndarray:
    """The positions of the `count` others nearest to the receiver's model, the nearest first."""
    order = np.argsort(squares(W)[own], kind="stable")
    return order[order != own][:count]


def lowest_risk_if_none(W: Array, own: int, risks: Array, count: int) -> Array:
    """UBAR: if none is accepted, the one of the nearest with the lowest risk is [Murmura]"""
    return mozi(W, own, risks, count, empty="lowest-risk")


def own_if_none(W: Array, own: int, risks: Array, count: int) -> Array:
    """the own model if none is accepted: instead of half of the nearest"""
    none = (risks[near(W, own, count)] > risks[own]).all()
    return W[own] if none else mozi(W, own, risks, count)


def a_little_worse(W: Array, own: int, risks: Array, count: int) -> Array:
    """a little worse is accepted: risks below the own one + 0.02, and the plain mean with the own model
    [nicehiro's MOZI]"""
    close = near(W, own, count)
    accepted = close[risks[close] - risks[own] < 0.02]
    return W[[own, *(accepted if len(accepted) else close[:1])]].mean(axis=0)


def strictly_lower(W: Array, own: int, risks: Array, count: int) -> Array:
    """strictly lower risks: an equal one is not accepted"""
    own_lower = np.where(np.arange(len(W)) == own, risks, risks * (1 + 1e-9))
    return mozi(W, own, own_lower, count)


def risks_not_used(W: Array, own: int, risks: Array, count: int) -> Array:
    """risks are not used: the mean of all of the nearest"""
    return mozi(W, own, 0 * risks, count)


def distances_not_used(W: Array, own: int, risks: Array, count: int) -> Array:
    """distances are not used: all neighbours are in the second stage"""
    return mozi(W, own, risks, len(W) - 1)


TABLE = {
    "geometric-median": (
        four_steps, three_steps_from_0, eight_steps_from_0, weights_that_add_up, from_the_coordinate_median,
        median_by_coordinate, medoid_for_median, mean_for_median,
    ),
    "multi-krum": (
        multi_krum_n_f, multi_krum_garfield, multi_krum_n_f_squared, multi_krum_n_f_1, multi_krum_unsquared,
        multi_krum_of_one,
        multi_krum_summed, multi_krum_repeated,
    ),
    "bulyan": (
        bulyan_one_less, bulyan_lower_median, bulyan_trims, bulyan_n_2f_2, bulyan_of_means, bulyan_at_once,
    ),
    "mda": (mda_n_2f, least_variance, least_eigenvalue, nearest_to_the_first, nearest_to_the_mean),
    "own-trimmed-mean": (own_trimmed_too, others_alone, own_counts_half, divided_without_own, trims_f_of_all),
    "ios": (own_not_spared, farthest_from_own, dropped_at_once, faba, not_normalised),
    "clipped-gossip": (
        clips_entries, always_of_length_tau, dropped_beyond_tau, clipped_by_square, equal_weights,
        clips_three_times, clips_models,
    ),
    "mozi": (
        lowest_risk_if_none, own_if_none, a_little_worse, strictly_lower, risks_not_used, distances_not_used,
    ),
}  # fmt: skip
