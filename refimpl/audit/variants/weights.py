"""Variants of Eq. (5), Eq. (6) and Eq. (3)."""

from collections.abc import Callable

import numpy as np

from refimpl.aggregate import adaptive_weights, inverse_risk_weights, or_keep_own
from refimpl.arrays import Array

# --- Eq. (5), and over N_k^+ Eq. (6) ------------------------------------------------------------------------


def normalised(r: Array) -> Array:
    return r / r.sum()


def proportional(r: Array) -> Array:
    """weights proportional to the risk: c_l proportional to r_l"""
    return normalised(r)


def softmax(r: Array) -> Array:
    """weights by softmax of minus the risk: c_l proportional to exp(-r_l)"""
    e = np.where(np.isfinite(r), np.exp(np.min(r, initial=np.inf, where=np.isfinite(r)) - r), 0)
    return e / max(e.sum(), 1)


def inverse_square(r: Array) -> Array:
    """weights by the inverse square of the risk: c_l proportional to 1 / r_l^2"""
    return normalised(1 / r**2)


def guarded_by(eps: str) -> Callable[[Array], Array]:
    """Weights by 1 / (r + eps), and a docstring that says so."""

    def compute(r: Array) -> Array:
        return normalised(1 / (r + float(eps)))

    compute.__doc__ = f"1 / (r + {eps}): c_l proportional to 1 / (r_l + {eps}) [a common guard against 1 / 0]"
    return compute


def equal(r: Array) -> Array:
    """equal weights: the plain mean of the finite models"""
    finite = np.isfinite(r).astype(r.dtype)
    return finite / max(finite.sum(), 1)


GUARDED = map(guarded_by, ("1e-6", "1e-8", "1e-12"))
OTHER_WEIGHTS = (proportional, softmax, inverse_square, *GUARDED, equal)


def over_N_plus(weights: Callable[[Array], Array]) -> Callable[[Array, int], Array]:
    """Eq. (6) with other weights over N_k^+, and a docstring that says so."""

    def compute(risks: Array, own: int) -> Array:
        passed = in_N_plus(risks, own)
        c = np.zeros_like(risks)
        c[passed] = weights(risks[passed])
        return or_keep_own(c, own)

    head, bracket, used_by = str(weights.__doc__).partition(" [")
    compute.__doc__ = f"{head}, over N_k^+{bracket}{used_by}"
    return compute


def in_N_plus(risks: Array, own: int) -> Array:
    return (risks <= risks[own]) | ~np.isfinite(risks[own])


# --- Eq. (5) alone ------------------------------------------------------------------------------------------


def not_normalised(r: Array) -> Array:
    """weights that are not normalised: min(r) / r, which does not sum to 1"""
    c = inverse_risk_weights(r)
    return c / c.max(initial=1e-9)


def careless(r: Array) -> Array:
    """1 / r without care for zero: 1 / r normalised as written: NaN at risk 0, and where 1 / r overflows
    [Li et al. 2020 (the authors' code), on smoothed risks]"""
    return normalised(1 / r)


# --- Eq. (6) alone ------------------------------------------------------------------------------------------


def strict_filter(risks: Array, own: int) -> Array:
    """filter with <: N_k^+ with r_l < r_own, and own itself"""
    others_as_good = (risks == risks[own]) & (np.arange(len(risks)) != own)
    return adaptive_weights(np.where(others_as_good, np.inf, risks), own)


def no_filter(risks: Array, own: int) -> Array:
    """no filter, Eq. (5) for Eq. (6): c_l proportional to 1 / r_l over all of N_k
    [refimpl's rule inverse-risk]"""
    return or_keep_own(inverse_risk_weights(risks), own)


def filter_by_the_first(risks: Array, own: int) -> Array:
    """filter by the first worker's risk: N_k^+ with r_l <= r_0, whoever the receiver is"""
    return adaptive_weights(risks, 0)


def keeps_own_if_lost(risks: Array, own: int) -> Array:
    """a lost own risk keeps the own model: all weight on the own model where its risk is not finite"""
    if np.isfinite(risks[own]):
        return adaptive_weights(risks, own)
    return np.eye(len(risks), dtype=risks.dtype)[own]


def normalised_over_all(risks: Array, own: int) -> Array:
    """weights that are not normalised: 1 / r_l divided by the sum over all of N_k, so that the weights of N_k^+
    do not sum to 1"""
    return np.where(in_N_plus(risks, own), inverse_risk_weights(risks), 0)


def without_own(risks: Array, own: int) -> Array:
    """own model left out of N_k: N_k^+ without the receiver, unless nobody else passes"""
    others = in_N_plus(risks, own) & (np.arange(len(risks)) != own)
    return or_keep_own(inverse_risk_weights(np.where(others, risks, np.inf)), own)


def careless_over_N_plus(risks: Array, own: int) -> Array:
    """1 / r without care for zero: 1 / r over r_l <= r_own as written: NaN at risk 0, nothing passes an own
    risk of NaN [Li et al. 2020 (the authors' code), on smoothed risks]"""
    return normalised(np.where(risks <= risks[own], 1 / risks, 0))


# --- Eq. (3) ------------------------------------------------------------------------------------------------


def matrix_product(weights: Array, W: Array) -> Array:
    """combine lets 0 * NaN through: c @ W as written: one model that is not finite spoils the sum even at
    weight 0 [the usual matrix product]"""
    return weights @ W


def nan_as_zero(weights: Array, W: Array) -> Array:
    """combine takes NaN for 0: entries that are not finite count as 0 [numpy.nan_to_num before the sum]"""
    return weights @ np.where(np.isfinite(W), W, 0)


def finite_models(weights: Array, W: Array) -> Array:
    """only finite models, weights normalised again: models that are not finite are left out and the other
    weights scaled to sum to 1"""
    finite = np.isfinite(W).all(axis=1)
    c = np.where(finite, weights, 0)
    return c @ np.where(finite[:, None], W, 0) / c.sum()


def wrong_order(weights: Array, W: Array) -> Array:
    """combine in the wrong order: sum_l c_(n-1-l) w_l"""
    return weights[::-1] @ W


def plain_mean(weights: Array, W: Array) -> Array:
    """the plain mean: weights are ignored"""
    return W.mean(axis=0)


def mean_of_the_weighted(weights: Array, W: Array) -> Array:
    """the plain mean of those with weight: equal weights where c_l > 0
    [UBAR's second stage (without the own model's share)]"""
    return W[weights > 0].mean(axis=0)


TABLE = {
    "inverse-risk-weights": (*OTHER_WEIGHTS, not_normalised, careless),
    "adaptive-weights": (
        *map(over_N_plus, OTHER_WEIGHTS), strict_filter, no_filter, filter_by_the_first, keeps_own_if_lost,
        normalised_over_all, without_own, careless_over_N_plus,
    ),
    "combine": (
        matrix_product, nan_as_zero, finite_models, wrong_order, plain_mean, mean_of_the_weighted,
    ),
}  # fmt: skip
