"""More of weights, combine, rules, attacks and graphs: mistakes of later ports that the first cases let pass.

The modules imported here declare the first cases; cases are added behind them.
"""

import attack_and_graph_cases  # noqa: F401
import numpy as np
import weight_cases  # noqa: F401
from common import case, draw, error, unlike
from rule_cases import scores, selected

from refimpl.aggregate import adaptive_weights, trimmed_mean
from refimpl.graphs import from_edges

nan, inf = np.nan, np.inf


@case("combine")
def combine_nan_in_one_coordinate_is_nan_in_all():
    """Catches looking for infinities only: one NaN in a model with weight makes every coordinate NaN."""
    W = draw(5, 3, 3)
    W[2, 1] = nan
    c = np.array([0.5, 0.25, 0.25])
    assert np.isnan(c @ W).sum() == 1
    return "combine", {"weights": c, "W": W}


@case("combine")
def combine_of_nothing_is_zero():
    """Catches 0/0, and falling back to some model: with all weights 0 the sum is 0."""
    return "combine", {"weights": np.zeros(3), "W": draw(6, 3, 2)}


@case("combine")
def combine_a_tiny_weight_counts():
    """Catches a threshold for 0: 1e-9 of a large model is not small."""
    c, W = np.array([1e-9, 1.0]), draw(7, 2, 3) * np.array([[1e9], [1.0]])
    unlike(c @ W, W[1])
    return "combine", {"weights": c, "W": W}


@case("combine")
def combine_a_tiny_weight_on_a_model_not_finite_is_nan():
    """Catches a threshold for 0 in the search for models that are not finite: 1e-9 is a weight."""
    W = draw(8, 3, 2)
    W[1, 0] = -inf
    return "combine", {"weights": np.array([0.5, 1e-9, 0.5]), "W": W}


@case("rules")
def trimmed_mean_of_2f_and_one_is_the_median():
    """Catches refusing n = 2f + 1, the fewest that are allowed: one value is left of five."""
    W = draw(60, 5, 3)
    assert np.array_equal(trimmed_mean(W, 2), np.median(W, axis=0))
    return "trimmed_mean", {"W": W, "f": 2}


@case("rules")
def krum_of_2f_and_three():
    """Catches refusing n = 2f + 3, the fewest that are allowed."""
    W = draw(61, 5, 2)
    assert selected(W, 2) != 0
    return "krum", {"W": W, "f": 1}


@case("rules")
def krum_of_no_finite_model_is_the_first():
    """Catches a model of NaN or of 0, and the last one, when none is finite: all tie, row 0 as it stands."""
    W = draw(62, 5, 2)
    W[:, 0] = nan, inf, -inf, nan, inf
    return "krum", {"W": W, "f": 1}


@case("rules")
def medoid_of_no_finite_model_is_the_first():
    """Catches a model of NaN or of 0, and the last one, when none is finite: all tie, row 0 as it stands."""
    W = draw(63, 4, 2)
    W[:, 1] = -inf, nan, inf, nan
    return "medoid", {"W": W}


@case("rules", precise=False)
def medoid_distances_that_overflow_are_infinite():
    """Catches norms scaled against overflow (hypot), beside which the others vanish, and sums that are all
    infinite: the square of 1e200 overflows."""
    W = draw(34, 7, 2)
    W[[0, 4], 0] = 1e200, -1e200
    right = selected(W, 6, power=1)
    scaled = np.hypot(*(W[:, None] - W).T).sum(axis=0)
    assert right not in (0, 4, int(scaled.argmin()))
    assert min(scores(W, 6, power=1))[0] == 2
    return "medoid", {"W": W}


@case("rules")
def trimmed_mean_rule_trims_two_of_twenty():
    """Catches one a side from n = 10 on: floor(20 / 10) = 2."""
    W = draw(64, 20, 2)
    unlike(trimmed_mean(W, 2), trimmed_mean(W, 1))
    return "rule", {"rule": "trimmed-mean", "W": W, "f": 0}


@case("rules")
def trimmed_mean_rule_trims_one_of_nineteen():
    """Catches rounding n / 10 to the nearest or upwards: floor(19 / 10) = 1."""
    W = draw(65, 19, 2)
    unlike(trimmed_mean(W, 1), trimmed_mean(W, 2))
    return "rule", {"rule": "trimmed-mean", "W": W, "f": 0}


@error("attacks")
def alie_z_of_a_negative_number_of_attackers():
    """Catches a check of f < n alone."""
    return "alie_z", {"n": 5, "f": -1}, ["alie_z", "-1"]


@case("graphs")
def erdos_renyi_a_uniform_equal_to_p_is_no_edge():
    """Catches <= p for < p: at p = 0 there would be edges, here between 0 and 1, and 1 and 2."""
    u = np.full((3, 3), 0.75)
    u[0, 1] = u[1, 2] = 0.5
    u[0, 2] = 0.25
    unlike(np.triu(u < 0.5, 1), np.triu(u <= 0.5, 1))
    return "erdos_renyi", {"n": 3, "p": 0.5, "uniforms": u}


@error("graphs")
def from_edges_unknown_first_worker():
    """Catches a check of the second of the two alone."""
    return "from_edges", {"n": 3, "edges": np.array([[0, 1], [3, 1]])}, ["3", "1"]


@error("graphs")
def from_edges_negative_worker():
    """Catches counting from the end: worker -1 is nobody."""
    return "from_edges", {"n": 3, "edges": np.array([[0, 1], [1, -1]])}, ["1", "-1"]


@error("graphs")
def from_edges_negative_first_worker():
    """Catches counting from the end, in the first place of an edge."""
    return "from_edges", {"n": 3, "edges": np.array([[0, 1], [-1, 1]])}, ["-1", "1"]


@error("graphs")
def random_regular_of_more_than_all_others():
    """Catches a search without end: of 4 workers nobody has 4 others."""
    return "random_regular", {"n": 4, "degree": 4, "shuffled": []}, ["4"]


@error("graphs")
def random_regular_of_a_negative_degree():
    """Catches a graph without edges in place of a refusal."""
    return "random_regular", {"n": 4, "degree": -2, "shuffled": []}, ["4", "-2"]


# --- Mistakes of a third port -------------------------------------------------------------------------------


@case("combine")
def combine_a_weight_of_1e_200_counts():
    """Catches a threshold for 0 however small: 1e-200 of a model of 1e201 is 10."""
    c, W = np.array([1.0, 1e-200]), np.array([[1.0, 2.0], [1e201, 0.0]])
    unlike(c @ W, W[0])
    return "combine", {"weights": c, "W": W}


@case("combine")
def combine_a_subnormal_weight_on_a_lost_model_is_nan():
    """Catches subnormal weights that count as 0: 1e-310 is a weight, and the model is lost."""
    return "combine", {"weights": np.array([1.0, 1e-310]), "W": np.array([[1.0, 2.0], [nan, 0.0]])}


@case("weights")
def adaptive_own_risk_of_minus_infinity_lets_all_pass():
    """Catches a search for +Infinity and NaN only: a risk of -Infinity is not finite either."""
    risks = np.array([0.5, -inf, 0.25])
    unlike(adaptive_weights(risks, 1), np.array([0.0, 1.0, 0.0]))
    return "adaptive_weights", {"risks": risks, "own": 1}


@case("rules")
def trimmed_mean_rule_trims_f_where_a_tenth_is_more():
    """Catches max(f, n / 10): with an attacker f counts, 1 a side of twenty."""
    W = np.arange(20.0)[:, None] ** 2
    unlike(trimmed_mean(W, 1), trimmed_mean(W, 2))
    return "rule", {"rule": "trimmed-mean", "W": W, "f": 1}


HUGE = np.array([[1.5e308], [1.7e308], [1.6e308], [1.75e308]])


@case("rules", precise=False)
def average_overflows():
    """Catches a mean that is scaled against overflow: the sum is Infinity, and so is the mean."""
    return "average", {"W": HUGE[:2]}


@case("rules", precise=False)
def median_overflows():
    """Catches a / 2 + b / 2 for (a + b) / 2: the sum of the middle two is Infinity."""
    return "coordinate_median", {"W": HUGE[:2]}


@case("rules", precise=False)
def trimmed_mean_overflows():
    """Catches a mean that is scaled against overflow: the sum of the two values left is Infinity."""
    return "trimmed_mean", {"W": HUGE, "f": 1}


@case("graphs")
def random_regular_of_all_others():
    """Catches a draw where nothing is left to draw: the complement of no edges is the complete graph."""
    return "random_regular", {"n": 5, "degree": 4, "shuffled": []}


@case("graphs")
def random_regular_of_nobody():
    """Catches a refusal of degree 0, and a draw: there are no stubs to shuffle."""
    return "random_regular", {"n": 5, "degree": 0, "shuffled": []}


@error("graphs")
def graph_that_lacks_the_last_worker():
    """Catches a search that ends one worker early: 2, the last, hears nobody."""
    return "require_connected", {"graph": from_edges(3, [(0, 1)])}, ["connected", "2"]
