"""The families weights and combine: Eq. (3), (5) and (6)."""

import numpy as np
from common import case, draw, error, file, unlike

from refimpl.aggregate import adaptive_weights, inverse_risk_weights

nan, inf = np.nan, np.inf

file(
    "weights", "Sec. 3, Eq. (5) and (6)", ["risks[l] = r_k(w_l) for l in N_k; own is the receiver's position."]
)


def inverse(risks):
    """The plain formula of Eq. (5), where it does not overflow."""
    return (1 / risks) / (1 / risks).sum()


@case("weights")
def inverse_risk_is_proportional_to_one_over_risk():
    """Catches weights proportional to the risk, to 1/r^2, or to exp(-r)."""
    r = np.array([0.5, 0.25, 2.0, 1.25])
    unlike(inverse(r), r / r.sum(), inverse(r**2), np.exp(-r) / np.exp(-r).sum())
    return "inverse_risk_weights", {"risks": r}


@case("weights")
def inverse_risk_zero_takes_all():
    """Catches 1/0: a model without loss takes all the weight, and nobody gets NaN."""
    return "inverse_risk_weights", {"risks": np.array([0.5, 0.0, 2.0])}


@case("weights")
def inverse_risk_zeros_share_equally():
    """Catches giving everything to the first of two models without loss."""
    return "inverse_risk_weights", {"risks": np.array([0.0, 0.75, 0.0, 0.1])}


@case("weights")
def inverse_risk_not_finite_is_weight_zero():
    """Catches NaN spreading through the sum, and -Infinity counting as a small risk."""
    return "inverse_risk_weights", {"risks": np.array([nan, 0.5, inf, 0.25, -inf])}


@case("weights")
def inverse_risk_nothing_finite_is_all_zero():
    """Catches 0/0 when no risk is finite: Eq. (5) alone then gives all zeros."""
    return "inverse_risk_weights", {"risks": np.array([nan, inf])}


@case("weights")
def inverse_risk_tiny_does_not_overflow():
    """Catches 1/r computed directly: 1/1e-310 is infinite. min(r)/r, normalised, is the same formula."""
    r = np.array([1e-310, 3e-310, 2e-310])
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(inverse(r)).any()
    return "inverse_risk_weights", {"risks": r}


@case("weights")
def adaptive_normalises_over_the_chosen_only():
    """Catches dividing by the sum over all of N_k: the weights of N_k^+ alone sum to 1."""
    r, own = np.array([0.5, 0.4, 2.0, 0.8]), 0
    unlike(adaptive_weights(r, own), np.where(r <= r[own], inverse(r), 0), inverse(r))
    return "adaptive_weights", {"risks": r, "own": own}


@case("weights")
def adaptive_filter_keeps_an_equal_risk():
    """Catches a filter with < where Eq. (6) has <=."""
    r, own = np.array([0.5, 0.75, 0.5, 0.25]), 2
    strict = np.where((r < r[own]) | (np.arange(4) == own), r, inf)
    unlike(adaptive_weights(r, own), inverse_risk_weights(strict))
    return "adaptive_weights", {"risks": r, "own": own}


@case("weights")
def adaptive_keeps_the_receiver_itself():
    """Catches leaving the receiver's own model out of N_k^+."""
    r, own = np.array([0.3, 0.6, 0.2]), 1
    unlike(adaptive_weights(r, own), inverse_risk_weights(np.array([0.3, inf, 0.2])))
    return "adaptive_weights", {"risks": r, "own": own}


@case("weights")
def adaptive_own_is_a_position_not_the_first():
    """Catches comparing with risks[0] instead of risks[own]."""
    r, own = np.array([0.9, 0.5, 0.7, 0.4]), 2
    unlike(adaptive_weights(r, own), adaptive_weights(r, 0))
    return "adaptive_weights", {"risks": r, "own": own}


@case("weights")
def adaptive_nobody_better_keeps_own():
    """Catches averaging with worse models when the receiver's own is the best."""
    return "adaptive_weights", {"risks": np.array([2.0, 0.1, 0.1001, 5.0]), "own": 1}


@case("weights")
def adaptive_filters_by_risk_not_by_distance_to_it():
    """Catches a filter on |r_l - r_k|: a much better model passes, a slightly worse one does not."""
    return "adaptive_weights", {"risks": np.array([0.001, 1.0, 1.0001]), "own": 1}


@case("weights")
def adaptive_own_zero():
    """Catches 0/0 when the receiver and a neighbour have no loss: they share equally."""
    return "adaptive_weights", {"risks": np.array([0.0, 0.3, 0.0]), "own": 2}


@case("weights")
def adaptive_own_infinite_lets_every_finite_model_pass():
    """Catches trusting the infinite model itself: inf <= inf holds, but its weight is 0."""
    return "adaptive_weights", {"risks": np.array([1.0, inf, 3.0, inf]), "own": 1}


@case("weights")
def adaptive_own_nan_lets_every_finite_model_pass():
    """Catches r <= NaN, which is never true: a lost receiver takes what its finite neighbours send."""
    return "adaptive_weights", {"risks": np.array([1.0, 3.0, nan, inf]), "own": 2}


@case("weights")
def adaptive_nothing_finite_keeps_own():
    """Catches weights that are all 0 or NaN: the receiver keeps its own model."""
    return "adaptive_weights", {"risks": np.array([inf, nan, inf]), "own": 2}


@case("weights")
def adaptive_neighbour_nan_is_not_trusted():
    """Catches a filter written as "not r_l > r_k", which lets NaN pass."""
    return "adaptive_weights", {"risks": np.array([nan, 0.5, 0.25]), "own": 1}


@error("weights")
def adaptive_own_out_of_range():
    """Catches reading past the end."""
    return "adaptive_weights", {"risks": np.array([1.0, 2.0]), "own": 2}, ["own", "2"]


@error("weights")
def adaptive_own_negative():
    """Catches counting from the end: own = -1 is nobody."""
    return "adaptive_weights", {"risks": np.array([1.0, 2.0]), "own": -1}, ["own", "-1"]


file("combine", "Sec. 3, Eq. (3)", ["w = sum_l weights[l] W[l]. A weight of exactly 0 leaves a model out."])


@case("combine")
def combine_weighted_sum():
    """Catches an unweighted mean, and weights along the wrong axis of a square W."""
    c, W = np.array([0.5, 0.125, 0.375]), draw(1, 3, 3)
    unlike(c @ W, W.mean(axis=0), W @ c)
    return "combine", {"weights": c, "W": W}


@case("combine")
def combine_does_not_normalise():
    """Catches dividing by the sum of the weights, here 0.5."""
    return "combine", {"weights": np.array([0.25, 0.0, 0.25]), "W": draw(2, 3, 4)}


@case("combine")
def combine_weight_zero_silences_nan():
    """Catches 0 * NaN = NaN: a rejected model must not spoil the sum."""
    W = draw(3, 4, 3)
    W[1, 2], W[3] = nan, [inf, -inf, 1.0]
    return "combine", {"weights": np.array([0.75, 0.0, 0.25, 0.0]), "W": W}


@case("combine")
def combine_positive_weight_on_a_model_not_finite_is_nan():
    """Catches a partly finite result: one bad entry in a model with weight makes every coordinate NaN."""
    W = draw(4, 3, 3)
    W[1, 0] = inf
    return "combine", {"weights": np.array([0.5, 0.25, 0.25]), "W": W}
