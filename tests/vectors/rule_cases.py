"""The family rules: the paper's baselines."""

import numpy as np
from common import MARGIN, case, draw, error, file, unlike

from refimpl.aggregate import average, trimmed_mean

nan, inf = np.nan, np.inf

file("rules", "Sec. 5: average, medoid, BRIDGE with TM, CM and Krum", ["W: one model per row; f: attackers."])


@case("rules")
def average_is_the_mean_of_the_rows():
    """Catches a mean along the wrong axis of a square W."""
    W = draw(10, 4, 4)
    unlike(average(W), W.mean(axis=1))
    return "average", {"W": W}


@case("rules")
def average_passes_nan_on():
    """Catches skipping NaN: the mean has no defence, coordinate by coordinate."""
    W = draw(11, 3, 3)
    W[1, 1] = nan
    return "average", {"W": W}


@case("rules")
def median_odd():
    """Catches a median over a whole row or over all numbers instead of per coordinate."""
    W = draw(12, 5, 3)
    unlike(np.median(W, axis=0), np.full(3, np.median(W)), W[np.argsort(W.sum(axis=1))[2]])
    return "coordinate_median", {"W": W}


@case("rules")
def median_even_is_the_mean_of_the_middle_two():
    """Catches the lower (torch) or the upper of the two middle values."""
    W = draw(13, 6, 3)
    s = np.sort(W, axis=0)
    unlike((s[2] + s[3]) / 2, s[2], s[3])
    return "coordinate_median", {"W": W}


@case("rules")
def median_sorts_numbers_not_strings():
    """Catches a sort by decimal strings (JavaScript's default) and one by absolute value."""
    W = np.array([[10.0], [9.0], [2.0], [-3.0], [-20.0], [100.0], [1.0]])
    unlike([2.0], [sorted(W[:, 0], key=str)[3]], [sorted(W[:, 0], key=abs)[3]])
    return "coordinate_median", {"W": W}


@case("rules")
def median_nan_counts_as_plus_infinity():
    """Catches a sort that NaN breaks, and dropping NaN (which shifts the middle)."""
    W = np.array([[nan, 5.0, nan], [1.0, nan, 3.0], [2.0, -inf, nan], [3.0, 4.0, nan], [4.0, 6.0, 1.0]])
    return "coordinate_median", {"W": W}


@case("rules")
def trimmed_mean_drops_f_on_each_side_per_coordinate():
    """Catches trimming f in total, f + 1 a side, whole models by their sum, or giving the median."""
    W = draw(14, 7, 3)
    s, by_sum = np.sort(W, axis=0), W[np.argsort(W.sum(axis=1))]
    unlike(s[2:5].mean(axis=0), s[1:6].mean(axis=0), s[3], by_sum[2:5].mean(axis=0), s[2:6].mean(axis=0))
    return "trimmed_mean", {"W": W, "f": 2}


@case("rules")
def trimmed_mean_trims_the_receiver_too():
    """Catches BRIDGE's text, which never trims the receiver's own value: here row 0 is extreme."""
    W = draw(15, 5, 2)
    W[0] = [8.0, -8.0]
    others = np.sort(W[1:], axis=0)
    unlike(trimmed_mean(W, 1), (others[1:3].sum(axis=0) + W[0]) / 3)
    return "trimmed_mean", {"W": W, "f": 1}


@case("rules")
def trimmed_mean_nan_counts_as_plus_infinity():
    """Catches NaN anywhere but at the top: trimmed if at most f of them, else the mean is infinite."""
    W = np.array([[nan, nan], [1.0, 2.0], [4.0, nan], [2.5, 0.0], [-1.0, 1.0]])
    return "trimmed_mean", {"W": W, "f": 1}


@case("rules")
def trimmed_mean_rule_trims_a_tenth_without_attackers():
    """Catches trimming nothing at f = 0: by name, the rule then drops floor(n / 10) a side (Sec. 5)."""
    W = draw(16, 10, 2)
    unlike(trimmed_mean(W, 1), W.mean(axis=0))
    return "rule", {"rule": "trimmed-mean", "W": W, "f": 0}


def scores(W, nearest, power=2.0, with_self=False):
    """Of each model (how many of its nearest distances are infinite, the sum of the others)."""
    finite = np.isfinite(W).all(axis=1)
    with np.errstate(all="ignore"):
        D = np.sqrt(((W[:, None] - W[None]) ** 2).sum(axis=-1)) ** power
    D = np.where(finite & finite[:, None] & np.isfinite(D), D, inf)
    D[np.eye(len(W), dtype=bool)] = 0.0 if with_self else nan
    nearest_ones = np.sort(D, axis=1)[:, :nearest]  # numpy sorts NaN behind all others
    return [(int(np.isinf(row).sum()), float(row[np.isfinite(row)].sum())) for row in nearest_ones]


def selected(W, nearest, power=2.0, with_self=False):
    """The position of the lowest score, clear of the next one by MARGIN."""
    found = scores(W, nearest, power, with_self)
    best, second = sorted(found)[:2]
    assert second[0] > best[0] or second[1] - best[1] > MARGIN * second[1]
    return found.index(best)


def krum_chooses(W, f, *wrong):
    """Asserts that Krum does not choose what the wrong ones choose."""
    right = selected(W, len(W) - f - 2)
    assert right != 0
    assert right not in wrong, (right, wrong)
    return "krum", {"W": W, "f": f}


@case("rules")
def krum_counts_n_f_2_nearest_others():
    """Catches n - f - 1 nearest (ByzFL), n - f - 3, all others, and counting the model as its own neighbour."""
    W = draw(3, 9, 2)
    counts = selected(W, 6), selected(W, 4), selected(W, 8), selected(W, 5, with_self=True)
    return krum_chooses(W, 2, *counts)


@case("rules")
def krum_squares_the_distances():
    """Catches plain distances (the released code) and distances squared twice."""
    W = draw(40, 8, 3)
    return krum_chooses(W, 2, selected(W, 4, power=1), selected(W, 4, power=4))


@case("rules")
def krum_with_f_zero_still_leaves_one_out():
    """Catches all n - 1 others at f = 0: the count is n - 2, so this is not the medoid."""
    W = draw(1, 6, 2)
    return krum_chooses(W, 0, selected(W, 5), selected(W, 5, power=1))


@case("rules")
def krum_tie_goes_to_the_lowest_index():
    """Catches <= in the search for the minimum: models 1 and 3 are mirror images with exactly equal scores."""
    W = np.array([[9.0, 0.0], [1.0, 1.0], [0.0, 4.0], [-1.0, -1.0], [0.0, -4.0]])
    tied = scores(W, 2)
    assert tied[1] == tied[3] == min(tied)
    assert tied[0] > tied[1]
    return "krum", {"W": W, "f": 1}


@case("rules")
def krum_close_models_far_from_the_origin():
    """Catches |x|^2 + |y|^2 - 2xy, which loses all digits here: use explicit differences."""
    W = 1e6 + draw(0, 7, 3) * 2.0**-20
    squares = (W * W).sum(axis=1)
    gram = squares[:, None] + squares - 2 * W @ W.T
    nearest = np.sort(np.where(np.eye(7, dtype=bool), inf, gram), axis=1)[:, :3].sum(axis=1)
    return krum_chooses(W, 2, int(nearest.argmin()))


@case("rules")
def krum_ignores_models_not_finite():
    """Catches NaN scores: a model that is not finite is infinitely far from all and is not chosen."""
    W = draw(18, 7, 2)
    W[0, 1], W[3, 0] = nan, -inf
    assert selected(W, 3) not in (0, 3)
    return "krum", {"W": W, "f": 2}


@case("rules")
def krum_more_models_not_finite_than_f():
    """Catches argmin over infinite sums: fewest infinite distances first, then the smallest finite sum."""
    W = draw(26, 7, 2)
    W[[0, 1, 4], 0] = inf, nan, nan
    assert selected(W, 4) not in (0, 1, 2, 4)
    return "krum", {"W": W, "f": 1}


@case("rules", precise=False)
def krum_distances_that_overflow_are_infinite():
    """Catches argmin over sums that are all infinite because the square of 1e200 overflows."""
    W = draw(26, 7, 2)
    W[[0, 1, 4], 0] = 1e200, -1e200, 3e200
    assert selected(W, 4) not in (0, 1, 2, 4)
    return "krum", {"W": W, "f": 1}


@case("rules")
def medoid_sums_plain_distances():
    """Catches squared distances, the model nearest to the mean (the same), and Krum's count."""
    W = draw(3, 7, 2)
    right = selected(W, len(W) - 1, power=1)
    assert right not in (selected(W, 6), selected(W, 5, power=1), selected(W, 4, power=1))
    return "medoid", {"W": W}


@case("rules")
def medoid_is_one_of_the_models():
    """Catches a geometric or coordinate-wise median: the result is a row of W, bit by bit."""
    W = draw(27, 5, 3)
    assert selected(W, len(W) - 1, power=1) != 0
    unlike(W[selected(W, 4, power=1)], np.median(W, axis=0))
    return "medoid", {"W": W}


@case("rules")
def medoid_tie_goes_to_the_lowest_index():
    """Catches the last of equals: models 1 and 2 are mirror images with exactly equal sums."""
    W = np.array([[0.0, 5.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -5.0]])
    tied = scores(W, 3, power=1)
    assert tied[1] == tied[2] == min(tied) < tied[0]
    return "medoid", {"W": W}


@case("rules")
def medoid_ignores_models_not_finite():
    """Catches infinite sums that all tie at the first model."""
    W = draw(28, 6, 2)
    W[0, 0], W[2, 1] = inf, nan
    assert selected(W, len(W) - 1, power=1) not in (0, 1, 2)
    return "medoid", {"W": W}


@error("rules")
def krum_needs_enough_models():
    """Catches scoring with too few: n >= 2f + 3."""
    return "krum", {"W": draw(29, 6, 2), "f": 2}, ["krum", "6", "2"]


@error("rules")
def krum_negative_f():
    """Catches a negative number of attackers."""
    return "krum", {"W": draw(29, 6, 2), "f": -1}, ["krum", "-1"]


@error("rules")
def trimmed_mean_needs_something_left():
    """Catches the mean of nothing: n >= 2f + 1."""
    return "trimmed_mean", {"W": draw(29, 4, 2), "f": 2}, ["trimmed_mean", "4", "2"]


@error("rules")
def trimmed_mean_negative_f():
    """Catches a slice from the end: a negative number cannot be trimmed."""
    return "trimmed_mean", {"W": draw(29, 4, 2), "f": -1}, ["trimmed_mean", "-1"]
