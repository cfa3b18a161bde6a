"""Variants of Eq. (5), Eq. (6) and Eq. (3)."""

from collections.abc import Callable
from math import inf, nan

import numpy as np

from refimpl import aggregate
from refimpl.audit.variant import Variant

Weights = Callable[[np.ndarray], np.ndarray]


def normalised(r: np.ndarray) -> np.ndarray:
    return r / r.sum()


def softmax(r: np.ndarray) -> np.ndarray:
    """Of minus the risk, for finite risks."""
    e = np.where(np.isfinite(r), np.exp(np.min(r, initial=np.inf, where=np.isfinite(r)) - r), 0)
    return e / max(e.sum(), 1)


def inverse(power: float = 1, eps: float = 0.0) -> Weights:
    """1 / (r + eps)^power, normalised, as one writes it down."""
    return lambda r: normalised(1 / (r + eps) ** power)


def equal(r: np.ndarray) -> np.ndarray:
    finite = np.isfinite(r).astype(r.dtype)
    return finite / max(finite.sum(), 1)


def filtered(weights: Weights) -> Callable[[np.ndarray, int], np.ndarray]:
    """Eq. (6) with other weights over N_k^+."""

    def compute(risks: np.ndarray, own: int) -> np.ndarray:
        passed = (risks <= risks[own]) | ~np.isfinite(risks[own])
        c = np.zeros_like(risks)
        c[passed] = weights(risks[passed])
        return aggregate.or_own(c, own)

    return compute


def strict(risks: np.ndarray, own: int) -> np.ndarray:
    others_as_good = (risks == risks[own]) & (np.arange(len(risks)) != own)
    return aggregate.adaptive_weights(np.where(others_as_good, np.inf, risks), own)


def keeps_own_if_lost(risks: np.ndarray, own: int) -> np.ndarray:
    if np.isfinite(risks[own]):
        return aggregate.adaptive_weights(risks, own)
    return np.eye(len(risks))[own]


def over_all(risks: np.ndarray, own: int) -> np.ndarray:
    """Eq. (5)'s weights, then 0 for those that do not pass."""
    passed = (risks <= risks[own]) | ~np.isfinite(risks[own])
    return np.where(passed, aggregate.inverse_risk_weights(risks), 0)


def without_own(risks: np.ndarray, own: int) -> np.ndarray:
    passed = (risks <= risks[own]) | ~np.isfinite(risks[own])
    others = passed & (np.arange(len(risks)) != own)
    return aggregate.or_own(aggregate.inverse_risk_weights(np.where(others, risks, np.inf)), own)


def as_written(risks: np.ndarray, own: int) -> np.ndarray:
    """NaN and infinity as the comparison and the quotient happen to treat them."""
    return normalised(np.where(risks <= risks[own], 1 / risks, 0))


def finite_only(weights: np.ndarray, W: np.ndarray) -> np.ndarray:
    finite = np.isfinite(W).all(axis=1)
    c = np.where(finite, weights, 0)
    return c @ np.where(finite[:, None], W, 0) / c.sum()


GUARD = "a common guard against 1 / 0"
OTHER_WEIGHTS = (
    Variant(
        "weights proportional to the risk", "c_l proportional to r_l", "", normalised, (([1, 2],), ([1, 1, 3],))
    ),
    Variant(
        "weights by softmax of minus the risk",
        "c_l proportional to exp(-r_l)",
        "",
        softmax,
        (([1, 2],), ([1, 1, 3],)),
    ),
    Variant(
        "weights by the inverse square of the risk",
        "c_l proportional to 1 / r_l^2",
        "",
        inverse(2),
        (([1, 2],), ([1, 1, 3],)),
    ),
    Variant(
        "1 / (r + 1e-6)",
        "c_l proportional to 1 / (r_l + 1e-6)",
        GUARD,
        inverse(eps=1e-6),
        (([0, 1],), ([1, 2],)),
    ),
    Variant(
        "1 / (r + 1e-8)",
        "c_l proportional to 1 / (r_l + 1e-8)",
        GUARD,
        inverse(eps=1e-8),
        (([0, 1],), ([1, 2],)),
    ),
    Variant(
        "1 / (r + 1e-12)",
        "c_l proportional to 1 / (r_l + 1e-12)",
        GUARD,
        inverse(eps=1e-12),
        (([0, 1e-6],), ([1e-12, 2e-12],)),
    ),
    Variant("equal weights", "the plain mean of the finite models", "", equal, (([0, 1],), ([1, 2],))),
)


def over_N_plus(variant: Variant) -> Variant:
    """The same in Eq. (6). All pass in its two inputs, as the receiver is the last and the worst."""
    first, second = ((risks, len(risks) - 1) for (risks,) in variant.apart)
    return variant._replace(
        about=f"{variant.about}, over N_k^+", compute=filtered(variant.compute), apart=(first, second)
    )


VARIANTS = {
    "inverse-risk-weights": (
        *OTHER_WEIGHTS,
        Variant(
            "weights that are not normalised",
            "min(r) / r, which does not sum to 1",
            "",
            lambda r: aggregate.inverse_risk_weights(r) / aggregate.inverse_risk_weights(r).max(initial=1e-9),
            (([0, 0],), ([0, 0, 0],)),
        ),
        Variant(
            "1 / r without care for zero",
            "1 / r normalised as written: NaN at risk 0, and where 1 / r overflows",
            "Li et al. 2020 (the authors' code), on smoothed risks",
            inverse(),
            (([0],), ([0, 0],)),
        ),
    ),
    "adaptive-weights": (
        *map(over_N_plus, OTHER_WEIGHTS),
        Variant(
            "filter with <",
            "N_k^+ with r_l < r_own, and own itself",
            "",
            strict,
            (([0, 0], 0), ([0, 0, 0], 0)),
        ),
        Variant(
            "no filter: Eq. (5) for Eq. (6)",
            "c_l proportional to 1 / r_l over all of N_k",
            "refimpl's rule inverse-risk",
            lambda r, own: aggregate.or_own(aggregate.inverse_risk_weights(r), own),
            (([1, 0.5], 1), ([0.5, 0.5, 1], 0)),
        ),
        Variant(
            "filter by the first worker's risk",
            "N_k^+ with r_l <= r_0, whoever the receiver is",
            "",
            lambda r, own: aggregate.adaptive_weights(r, 0),
            (([0.5, 1], 1), ([0.5, 1, 0.5], 1)),
        ),
        Variant(
            "a lost own risk keeps the own model",
            "all weight on the own model where its risk is not finite",
            "",
            keeps_own_if_lost,
            (([0, nan], 1), ([0, nan, 0], 1)),
        ),
        Variant(
            "weights that are not normalised",
            "1 / r_l divided by the sum over all of N_k, so that the weights of N_k^+ do not sum to 1",
            "",
            over_all,
            (([1, 0.5], 1), ([0.5, 0.5, 1], 0)),
        ),
        Variant(
            "own model left out of N_k",
            "N_k^+ without the receiver, unless nobody else passes",
            "",
            without_own,
            (([0, 0], 0), ([0, 0, 0], 0)),
        ),
        Variant(
            "1 / r without care for zero",
            "1 / r over r_l <= r_own as written: NaN at risk 0, nothing passes an own risk of NaN",
            "Li et al. 2020 (the authors' code), on smoothed risks",
            as_written,
            (([0], 0), ([0, 0], 0)),
        ),
    ),
    "combine": (
        Variant(
            "combine lets 0 * NaN through",
            "c @ W as written: one model that is not finite spoils the sum even at weight 0",
            "the usual matrix product",
            lambda c, W: c @ W,
            (([1], [[0, nan]]), ([1, 0], [[0], [inf]])),
        ),
        Variant(
            "combine takes NaN for 0",
            "entries that are not finite count as 0",
            "numpy.nan_to_num before the sum",
            lambda c, W: c @ np.where(np.isfinite(W), W, 0),
            (([1], [[nan]]), ([1, 0], [[nan], [0]])),
        ),
        Variant(
            "only finite models, weights normalised again",
            "models that are not finite are left out and the other weights scaled to sum to 1",
            "",
            finite_only,
            (([0.5, 0.5], [[1], [nan]]), ([0.5, 0.5, 0], [[2, 1], [0, inf], [5, 5]])),
        ),
        Variant(
            "combine in the wrong order",
            "sum_l c_(n-1-l) w_l",
            "",
            lambda c, W: c[::-1] @ W,
            (([0, 1], [[0], [1]]), ([0, 0, 1], [[0, 0], [0, 0], [0, 1]])),
        ),
        Variant(
            "the plain mean",
            "weights are ignored",
            "",
            lambda c, W: W.mean(axis=0),
            (([1, 0], [[0], [1]]), ([0, 0, 1], [[0], [0], [1]])),
        ),
        Variant(
            "the plain mean of those with weight",
            "equal weights where c_l > 0",
            "UBAR's second stage (without the own model's share)",
            lambda c, W: W[c > 0].mean(axis=0),
            (([0.25, 0.75], [[0], [1]]), ([0.25, 0.5, 0.25], [[0], [1], [3]])),
        ),
    ),
}
