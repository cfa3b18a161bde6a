"""More of what the systems of related are made of: mistakes with which a third port passed all earlier cases.

Ties, models that are lost, numbers that overflow, even numbers of models, the fewest that are allowed.
"""

import later_related_cases  # noqa: F401
import numpy as np
from common import case, draw, error, unlike
from related_cases import RISKS, WEIGHTS, W

from refimpl import aggregate, graphs
from refimpl.related import mixing, rules

nan, inf = np.nan, np.inf
WEISZFELD = {"steps": 80, "tolerance": 1e-5, "nu": 1e-5}
LINE = np.array([[-2.0], [2.0], [0.0], [-1.0], [1.0]])


def lost(*places):
    """W with other numbers at some places, each (row, column, number)."""
    changed = W.copy()
    for i, j, x in places:
        changed[i, j] = x
    return changed


# --- Weights and a compressor -------------------------------------------------------------------------------


@case("related")
def metropolis_of_twelve():
    """Catches workers beyond the eighth that are left out, and one degree for all."""
    graph = graphs.from_edges(12, [(0, k) for k in range(1, 9)] + [(k, k + 1) for k in range(3, 11)])
    weights = mixing.metropolis_weights(graph)
    assert len(np.unique(weights.round(9))) > 6
    unlike(weights[:8, :8], mixing.metropolis_weights(graph[:8, :8]))
    return "metropolis_weights", {"graph": graph}


@case("related")
def metropolis_of_a_worker_that_hears_nobody():
    """Catches 0 / 0 for a worker without neighbours: it keeps all weight."""
    return "metropolis_weights", {"graph": graphs.from_edges(4, [(0, 1), (1, 3)])}


@case("related")
def top_k_nan_is_the_smallest():
    """Catches NaN among the largest: it comes last, Infinity first."""
    return "top_k", {"x": np.array([nan, 1.0, -3.0, inf, 0.0]), "k": 2}


@case("related")
def top_k_of_all_entries():
    """Catches k - 1, and NaN that is lost on the way: with k = d nothing is left out."""
    return "top_k", {"x": np.array([0.5, nan, -2.0]), "k": 3}


# --- Geometric median, Krum, Bulyan, MDA --------------------------------------------------------------------


@case("related")
def geometric_median_after_three_steps():
    """Catches a number of steps that is always the same, and one step more or less."""
    given = {"W": W, "steps": 3, "tolerance": 0.0, "nu": 1e-5}
    for steps in (2, 4, 80):
        assert not np.allclose(rules.geometric_median(**given), rules.geometric_median(W, steps), 1e-5)
    return "geometric_median", given


@case("related")
def geometric_median_takes_the_step_that_is_small_enough():
    """Catches a tolerance that is always the same, and stopping before the step that moved by less."""
    given = {"W": W, "steps": 80, "tolerance": 0.05, "nu": 1e-5}
    path = [rules.geometric_median(W, steps) for steps in range(1, 6)]
    moved = np.linalg.norm(np.diff([W.mean(axis=0), *path], axis=0), axis=1)
    last = int((moved <= 0.05).argmax())
    assert 0 < last < 4
    assert np.allclose(rules.geometric_median(**given), path[last])
    unlike(rules.geometric_median(**given), path[last - 1])
    assert not np.allclose(path[last], rules.geometric_median(W), 1e-5)
    return "geometric_median", given


@case("related", precise=False)
def geometric_median_drops_what_overflows():
    """Catches dropping only what is not finite: the square of 1e200 overflows."""
    return "geometric_median", {"W": lost((2, 1, 1e200)), **WEISZFELD}


@case("related")
def geometric_median_of_lost_models_is_the_first():
    """Catches the mean of nothing, 0 / 0: of no finite model it is row 0 as it stands."""
    return "geometric_median", {"W": np.array([[1.0, nan], [inf, 2.0]]), **WEISZFELD}


@case("related")
def multi_krum_of_2f_and_three_with_a_tie():
    """Catches refusing n = 2f + 3, and the last of a tie: rows 2, 3, 4 have the same score, and two count."""
    made = rules.multi_krum(LINE, 1)
    assert made == LINE[[2, 3]].mean()
    unlike(made, LINE[[3, 4]].mean(axis=0), LINE[[2, 4]].mean(axis=0))
    return "multi_krum", {"W": LINE, "f": 1}


@error("related")
def multi_krum_of_too_few():
    """Catches n >= 2f + 2: four models, one attacker."""
    return "multi_krum", {"W": W[:4], "f": 1}, ["krum", "4"]


def bulyan_like(W, f, picks=0, nearest=None, middle=1):
    """Bulyan with a mistake: n - 2f - picks are picked, `nearest` others count, the lower middle for 0."""
    D, left, picked = aggregate.squared_distances(W), list(range(len(W))), []
    for _ in range(len(W) - 2 * f - picks):
        near = np.sort(D[np.ix_(left, left)], axis=1)[:, 1:]
        count = max(len(left) - f - 2, 1) if nearest is None else nearest
        picked.append(left.pop(int(near[:, :count].sum(axis=1).argmin())))
    s, theta = np.sort(W[picked], axis=0), len(picked)
    median = (s[(theta - 1) // 2] + s[theta // 2 if middle else (theta - 1) // 2]) / 2
    order = np.argsort(abs(s - median), axis=0, kind="stable")[: theta - 2 * f]
    return np.take_along_axis(s, order, axis=0).mean(axis=0)


@case("related")
def bulyan_of_eight():
    """Catches the lower of the two middle values for the median, which an even number of picks has."""
    eight = draw(340, 8, 3)
    unlike(rules.bulyan(eight, 1), bulyan_like(eight, 1, middle=0), bulyan_like(eight, 1, picks=1))
    return "bulyan", {"W": eight, "f": 1}


@case("related")
def bulyan_of_nine():
    """Catches n - 2f - 2 picks, and Krum that goes on with n - f - 2 others, or with one, as rows are taken."""
    nine = draw(341, 9, 3)
    made = rules.bulyan(nine, 1)
    assert np.allclose(made, bulyan_like(nine, 1))
    unlike(
        made, bulyan_like(nine, 1, picks=2), bulyan_like(nine, 1, nearest=6), bulyan_like(nine, 1, nearest=1)
    )
    return "bulyan", {"W": nine, "f": 1}


@case("related")
def bulyan_of_two_equally_near():
    """Catches the higher of two values that are equally near to the median: 0 and 4 are, to 2."""
    rows = np.array([[0.0], [1.0], [2.0], [4.0], [7.0], [100.0], [250.0]])
    assert sorted(rules.repeated_krum(rows, 1).ravel()) == [0, 1, 2, 4, 7]
    assert rules.bulyan(rows, 1) == np.mean([0, 1, 2])
    return "bulyan", {"W": rows, "f": 1}


@case("related")
def bulyan_of_a_median_that_is_infinite():
    """Catches NaN among the nearest: Infinity - Infinity comes last, behind 0, 1 and 3, who are equally far."""
    rows = np.full((11, 2), [nan, -inf])
    rows[:3] = np.array([[0.0], [1.0], [3.0]])
    assert np.isinf(aggregate.coordinate_median(rules.repeated_krum(rows, 2))).all()
    assert np.allclose(rules.bulyan(rows, 2), 4 / 3)
    return "bulyan", {"W": rows, "f": 2}


@case("related")
def mda_of_three_with_one():
    """Catches refusing n = 2f + 1, the fewest that are allowed."""
    three = draw(342, 3, 3)
    unlike(rules.minimum_diameter_average(three, 1), three.mean(axis=0), three[:2].mean(axis=0))
    return "minimum_diameter_average", {"W": three, "f": 1}


@case("related")
def mda_tie_goes_to_the_first_subset():
    """Catches the last of a tie: {0, 1} and {1, 2} have the same diameter, and {0, 1} comes first."""
    return "minimum_diameter_average", {"W": np.array([[0.0], [1.0], [2.0]]), "f": 1}


@case("related")
def mda_of_more_lost_models_than_attackers():
    """Catches a subset without lost models, which is too small, and NaN in all coordinates: all diameters are
    infinite, and the first subset's plain mean is infinite in one coordinate."""
    rows = lost((3, 1, inf), (4, 0, nan))[:5]
    assert np.isinf(rules.minimum_diameter_average(rows, 1)).tolist() == [False, True, False]
    return "minimum_diameter_average", {"W": rows, "f": 1}


@error("related")
def mda_of_four_with_two():
    """Catches n >= 2f: four models, two attackers."""
    return "minimum_diameter_average", {"W": W[:4], "f": 2}, ["mda", "4", "2"]


# --- Rules that know which model is their own ---------------------------------------------------------------


@case("related")
def own_trimmed_mean_of_2f_others():
    """Catches 0 / 0 where all others are trimmed: the own value is left. It is the first row here."""
    return "own_trimmed_mean", {"W": W[:5], "own": 0, "f": 2}


def scissor(W, own=3, weights=WEIGHTS, f=2):
    return {"W": W, "own": own, "weights": weights, "f": f}


@case("related")
def scissor_of_more_lost_models_than_f():
    """Catches a last mean without lost models: one of two is dropped, the other makes everything NaN."""
    return "iterative_outlier_scissor", scissor(lost((1, 0, nan), (5, 2, inf)), f=1)


@case("related", precise=False)
def scissor_of_a_model_that_overflows():
    """Catches means in which 1e200 takes part: its square overflows, so it is left out, and dropped first."""
    given = scissor(lost((5, 1, 1e200)), f=2)
    made = rules.iterative_outlier_scissor(**given)
    assert abs(made).max() < 10
    rest = np.where(np.arange(7) == 5, 0, WEIGHTS)
    assert np.allclose(made, rules.iterative_outlier_scissor(W, 3, rest, 1))
    return "iterative_outlier_scissor", given


@case("related")
def scissor_of_a_lost_receiver():
    """Catches an own model that is dropped: it never is, and so all is NaN."""
    return "iterative_outlier_scissor", scissor(lost((3, 0, nan)))


@case("related")
def scissor_tie_goes_to_the_lowest_index():
    """Catches the last of a tie: -2 and 2 are equally far from 0, and row 0 is dropped."""
    given = scissor(LINE, own=2, weights=np.array([1, 1, 4, 1, 1]) / 8, f=1)
    assert np.allclose(rules.iterative_outlier_scissor(**given), 2 / 7)
    return "iterative_outlier_scissor", given


@case("related")
def scissor_of_more_than_all_others():
    """Catches an own model that is dropped when no other is left: f = n, and own alone is left."""
    given = scissor(W[:3], own=1, weights=np.array([0.25, 0.5, 0.25]), f=3)
    assert np.array_equal(rules.iterative_outlier_scissor(**given), W[1])
    return "iterative_outlier_scissor", given


@case("related")
def clipped_gossip_at_radius_0():
    """Catches 0 / 0 at one's own model: nothing passes, and the own model stays."""
    assert np.array_equal(rules.clipped_gossip(W, 3, WEIGHTS, 0.0), W[3])
    return "clipped_gossip", {"W": W, "own": 3, "weights": WEIGHTS, "tau": 0.0}


@case("related")
def clipped_gossip_of_a_lost_receiver():
    """Catches NaN that spreads: every difference counts as 0, and the own model stays as it is."""
    return "clipped_gossip", {"W": lost((3, 0, nan)), "own": 3, "weights": WEIGHTS, "tau": 0.9}


EVERYONE = np.ones(7, dtype=bool)


@case("related")
def oracle_radius_without_attackers():
    """Catches x / 0 that is refused, or 0: the radius is Infinity, and nothing is clipped."""
    return "oracle_radius", {"W": W, "own": 3, "weights": WEIGHTS, "honest": EVERYONE}


@case("related")
def oracle_radius_without_attackers_or_differences():
    """Catches 0 / 0, which is NaN: the radius is Infinity."""
    weights = np.array([0.5, 0.25, 0.25])
    return "oracle_radius", {"W": np.ones((3, 1)), "own": 0, "weights": weights, "honest": EVERYONE[:3]}


@case("related")
def adaptive_radius_without_attackers():
    """Catches x / 0 that is refused, or 0: the radius is Infinity, and nothing is clipped."""
    return "adaptive_radius", {"W": W, "own": 3, "weights": WEIGHTS, "f": 0}


@case("related")
def adaptive_radius_of_a_lost_neighbour():
    """Catches a lost neighbour that comes first, or makes the radius NaN: it comes last."""
    given = {"W": lost((2, 0, nan)), "own": 3, "weights": WEIGHTS, "f": 2}
    nearest = lost((2, 0, W[3, 0]), (2, 1, W[3, 1]), (2, 2, W[3, 2]))
    unlike(rules.adaptive_radius(**given), rules.adaptive_radius(nearest, 3, WEIGHTS, 2))
    assert rules.adaptive_radius(**given) < 5
    return "adaptive_radius", given


def second_stage(W=W, own=4, risks=RISKS, count=3, alpha=0.5, empty="nearest"):
    return {"W": W, "own": own, "risks": risks, "count": count, "alpha": alpha, "empty": empty}


@case("related")
def mozi_alpha_is_the_own_share():
    """Catches exchanged shares: alpha = 0.75 of the own model."""
    given = second_stage(alpha=0.75)
    unlike(rules.mozi(**given), rules.mozi(**given | {"alpha": 0.25}), rules.mozi(**given | {"alpha": 0.5}))
    return "mozi", given


@case("related")
def mozi_lowest_risk_tie_goes_to_the_nearest():
    """Catches the lowest index of equal risks: all are 0.5, and row 2 is the nearest."""
    rows = np.array([[0.0], [2.0], [1.0], [3.0]])
    risks = np.array([0.1, 0.5, 0.5, 0.5])
    given = second_stage(rows, 0, risks, empty="lowest-risk")
    assert rules.mozi(**given) == 0.5
    return "mozi", given


@case("related")
def mozi_of_equally_near_models():
    """Catches the last of a tie: rows 1 and 2 are equally near, and row 1 is accepted."""
    rows = np.array([[0.0], [1.0], [-1.0], [3.0]])
    given = second_stage(rows, 0, np.array([0.5, 0.4, 0.4, 0.4]), count=1)
    assert rules.mozi(**given) == 0.5
    return "mozi", given


@case("related")
def mozi_of_nobody_at_a_finite_distance():
    """Catches the mean of nothing, 0 / 0, and the nearest of the lost: the own model stays."""
    rows = np.array([[0.5], [nan], [inf]])
    return "mozi", second_stage(rows, 0, np.array([0.5, 0.1, 0.1]), count=2)


@case("related")
def mozi_of_a_lost_receiver():
    """Catches neighbours that are accepted at a distance of NaN: the own model stays as it is."""
    return "mozi", second_stage(lost((4, 1, nan)), risks=np.where(np.arange(7) == 4, inf, RISKS))
