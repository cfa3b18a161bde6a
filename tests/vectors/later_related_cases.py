"""More of related: mistakes with which a port passed all first cases. They are added behind those."""

from unittest import mock

import numpy as np
from common import case, draw, error, family, unlike
from related_cases import COMPLETE, RISKS, WEIGHTS, D, W, differs, run, setup, steady

from refimpl import graphs
from refimpl.related import rules, schedules, screening

nan, inf = np.nan, np.inf


def batches(rounds):
    rng = np.random.default_rng(320)
    return np.stack([[rng.permutation(4)[:3] for _ in range(7)] for _ in range(rounds)])


def changing(system, draw_graph, **changes):
    """Three rounds, each on a graph of its own, in the place of `graph`."""
    rngs = [np.random.default_rng(330 + t) for t in range(3)]
    made = np.stack([draw_graph(graphs.complete(7), 0.5, rng) for rng in rngs])
    given = setup(system, batches=batches(3), graphs=made, **changes)
    del given["graph"]
    return given


# --- Rounds -------------------------------------------------------------------------------------------------


def more_and_more(given, made):
    """0, 1, 2, 2, 3 times: not t - 1, not floor(log2 t), not once at most."""
    assert [screening.agreement_rounds(t) for t in (1, 2, 3, 4, 5)] == [0, 1, 2, 2, 3]
    assert "sent_5" in made
    for wrong in (lambda t: t - 1, lambda t: t.bit_length() - 1, lambda t: min(t - 1, 1)):
        with mock.patch.object(screening, "agreement_rounds", wrong):
            unlike(made["W"], run(**given)["W"])


def no_number_has_no_sign(given, made):
    """NaN, as a number above or below all others, would pull."""
    lies = made["sent_1"][4]
    assert np.isnan(lies).any()
    assert np.isinf(lies).any()
    assert np.isfinite(made["W"]).all()
    for sign in (1.0, -1.0):
        other = np.where(np.isnan(given["signals"]), sign * np.sign(given["W"][4]) * inf, given["signals"])
        unlike(made["W"], run(**given | {"signals": other})["W"])


def starts_again(given, made):
    """Infinite after the first round; after the second the risk alone, so low that it has weight."""
    first = run(**given | {"batches": given["batches"][:1]})
    L, before = made["memory"][-1], first["memory"][-1]
    normal = np.delete(np.arange(7), given["attackers"])
    hear = normal[given["graph"][normal, 4]]
    assert np.isinf(before[hear, 4]).all()
    assert (made["weights"][hear, 4] > 0).any()
    unlike(L[hear, 4], 0.95 + 0.05 * L[hear, 4], before[hear, 4])


def graph_by_graph(given, made):
    """No graph alone, nor the one before or after it, nor the other direction (of a directed graph)."""
    sequence = given["graphs"]
    others = [np.stack([graph] * len(sequence)) for graph in sequence]
    others += [np.roll(sequence, 1, axis=0), np.roll(sequence, -1, axis=0)]
    others += [sequence.swapaxes(1, 2)] if given["system"] == "sgp" else []
    for other in others:
        unlike(made["W"], run(**given | {"graphs": other})["W"])


APART = {"penalty": 0.05, "W": draw(301, 7, D, digits=4)}  # no two numbers are equal
LOST_AT_FIRST = np.stack([np.full((1, D), nan), np.ones((1, D))])
PARTLY_LOST = np.where(np.arange(D) % 4 == 0, nan, np.where(np.arange(D) % 4 == 1, inf, draw(321, 2, 1, D)))
# id, what it catches, inputs, how that is asserted
ROUNDS = [
    ("icwtm-agrees-more-and-more-often", "t - 1 agreements in round t, floor(log2 t), and never more than one.",
     setup("icwtm", **COMPLETE, batches=batches(5)), more_and_more),
    ("tv-penalty-nan-has-no-sign", "a sign of NaN: what is NaN in a message does not pull.",
     setup("tv-penalty", **APART, attack="arbitrary", signals=PARTLY_LOST), no_number_has_no_sign),
    ("multi-task-average-is-lost-and-starts-again",
     "an average that stays infinite, one that starts again at 1, and an infinite risk that is forgotten.",
     setup("multi-task", attack="arbitrary", signals=LOST_AT_FIRST), starts_again),
    ("bridge-t-with-the-gradient-at-the-screened-model", "an option `at` that is overlooked.",
     setup("bridge-t", at="mixed"), differs({"at": "own"})),
    ("byrdie-with-the-gradient-at-the-screened-value", "an option `at` that is overlooked.",
     setup("byrdie", at="mixed"), differs({"at": "own"})),
    ("clipped-gossip-with-half-the-momentum", "an option `momentum` that is overlooked.",
     setup("clipped-gossip", momentum=0.5), differs({"momentum": 0.9}, {"momentum": 0.0})),
    ("sgp-on-graphs-that-change", "one graph for all rounds, and the graph of the round before or after.",
     changing("sgp", schedules.one_way), graph_by_graph),
    ("tv-penalty-on-graphs-that-change",
     "one graph for all rounds, and the graph of the round before or after.",
     changing("tv-penalty", schedules.thinned, **APART), graph_by_graph),
]  # fmt: skip


@family("related")
def rounds():
    for id_, catches, given, check in ROUNDS:
        made = run(**given)
        check(given, made)
        steady(given, made)
        yield id_, f"Catches {catches}", "related_rounds", given


# --- What they are made of ----------------------------------------------------------------------------------


@case("related")
def geometric_median_nu_is_the_least_distance():
    """Catches nu left out, added to a distance, or added to its square: a distance below nu counts as nu."""
    given = {"W": W, "steps": 80, "tolerance": 1e-5, "nu": 1.25}
    made = rules.geometric_median(**given)
    away = np.sqrt(((W - made) ** 2).sum(axis=1))
    assert (away < 1.2).any()
    assert (away > 1.3).any()
    unlike(made, rules.geometric_median(W))
    for smooth in (lambda a: a + 1.25, lambda a: np.sqrt(a * a + 1.25**2)):
        z = W.mean(axis=0)
        for _ in range(80):
            c = 1 / smooth(np.sqrt(((W - z) ** 2).sum(axis=1)))
            z = c @ W / c.sum()
        unlike(made, z)
    return "geometric_median", given


@case("related")
def geometric_median_that_is_one_of_the_models():
    """Catches 0 / 0: the mean, where it begins, equals a model, and that is the result."""
    middle, away = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 0.5, -1.0], [0.25, -2.0, 0.5]])
    rows = np.stack([middle + away[0], middle, middle - away[0], middle + away[1], middle - away[1]])
    assert np.array_equal(rows.mean(axis=0), middle)
    assert np.isnan(rules.geometric_median(rows, nu=0.0)).any()
    return "geometric_median", {"W": rows, "steps": 80, "tolerance": 1e-5, "nu": 1e-5}


@case("related")
def bulyan_of_more_lost_models_than_attackers():
    """Catches NaN as the lowest value in a sort: of three lost models one is picked, and moves the median."""
    lost = W.copy()
    lost[[1, 5, 6], 2] = nan
    assert np.isnan(rules.repeated_krum(lost, 1)[:, 2]).sum() == 1
    lowest = lambda W: np.sort(np.where(np.isnan(W), -inf, W), axis=-2)
    made = rules.bulyan(lost, 1)
    with mock.patch.object(rules, "ascending", lowest):
        unlike(made, rules.bulyan(lost, 1))
    return "bulyan", {"W": lost, "f": 1}


@case("related")
def own_trimmed_mean_nan_is_the_highest():
    """Catches NaN as the lowest value, and all NaN left out: f + 1 are there once, so one is not trimmed."""
    lost = W.copy()
    lost[1, 0] = lost[1, 1] = lost[5, 1] = nan
    made = rules.own_trimmed_mean(lost, 3, 1)
    assert np.isposinf(made[1])
    unlike(made, rules.own_trimmed_mean(np.where(np.isnan(lost), -inf, lost), 3, 1))
    assert np.isclose(made[0], (W[3, 0] + np.sort(W[[0, 2, 4, 5, 6], 0])[1:].sum()) / 5)
    return "own_trimmed_mean", {"W": lost, "own": 3, "f": 1}


@case("related")
def own_trimmed_mean_an_own_nan_stays_nan():
    """Catches +Infinity for the own value, which is not sorted: NaN in, NaN out."""
    lost = W.copy()
    lost[3, 2] = nan
    assert np.isnan(rules.own_trimmed_mean(lost, 3, 1)).tolist() == [False, False, True]
    return "own_trimmed_mean", {"W": lost, "own": 3, "f": 1}


@case("related")
def oracle_radius_with_a_lost_honest_model():
    """Catches a radius that is infinite or NaN: its square is left out of the sum."""
    lost, honest = W.copy(), np.array([True, False, True, True, True, False, True])
    lost[0, 1], lost[5, 0] = nan, inf
    without = np.where(np.arange(7) == 0, 0, WEIGHTS)
    made = rules.oracle_radius(lost, 3, WEIGHTS, honest)
    assert np.isclose(made, rules.oracle_radius(W, 3, without, honest))
    unlike(made, rules.oracle_radius(W, 3, WEIGHTS, honest), made / np.sqrt(without.sum()))
    return "oracle_radius", {"W": lost, "own": 3, "weights": WEIGHTS, "honest": honest}


@case("related")
def adaptive_radius_of_a_lost_receiver():
    """Catches own behind others at no finite distance: its own distance is 0, even if it is lost."""
    lost, weights = W[:3].copy(), np.array([0.2, 0.6, 0.2])
    lost[1, 0] = nan
    assert rules.adaptive_radius(lost, 1, weights, 1) == 0
    return "adaptive_radius", {"W": lost, "own": 1, "weights": weights, "f": 1}


@case("related")
def mozi_accepts_an_equal_risk():
    """Catches < where it is <=."""
    risks = RISKS.copy()
    nearest = ((W - W[4]) ** 2).sum(axis=1).argsort()[1:4]
    risks[nearest] = 0.8, 0.5, 0.9
    assert risks[nearest[0]] == risks[4]
    lower = np.where(np.arange(7) == 4, np.nextafter(0.8, 0), risks)
    unlike(rules.mozi(W, 4, risks, 3), rules.mozi(W, 4, lower, 3))
    return "mozi", {"W": W, "own": 4, "risks": risks, "count": 3, "alpha": 0.5, "empty": "nearest"}


@case("related")
def mozi_lowest_risk_is_not_nan():
    """Catches NaN as the lowest of the risks: it counts as Infinity. Here the nearest has it."""
    nearest = ((W - W[5]) ** 2).sum(axis=1).argsort()[1:5]
    risks = RISKS.copy()
    risks[nearest[0]] = nan
    made = rules.mozi(W, 5, risks, 4, empty="lowest-risk")
    best = nearest[1:][RISKS[nearest[1:]].argmin()]
    assert np.allclose(made, (W[5] + W[best]) / 2)
    unlike(made, (W[5] + W[nearest[0]]) / 2)
    return "mozi", {"W": W, "own": 5, "risks": risks, "count": 4, "alpha": 0.5, "empty": "lowest-risk"}


@case("related")
def mozi_of_an_own_risk_of_nan():
    """Catches Eq. (6) in its place, where every finite risk would pass: none is <= NaN."""
    risks = np.where(np.arange(7) == 4, nan, RISKS)
    everyone = np.where(np.arange(7) == 4, inf, RISKS)
    unlike(rules.mozi(W, 4, risks, 3), rules.mozi(W, 4, everyone, 3))
    return "mozi", {"W": W, "own": 4, "risks": risks, "count": 3, "alpha": 0.5, "empty": "nearest"}


# --- Refusals -----------------------------------------------------------------------------------------------


@error("related")
def choco_on_graphs_that_change():
    """Catches copies that not everyone has heard: choco needs a graph that stays the same."""
    return "related_rounds", changing("choco", schedules.thinned), ["choco", "the same"]


@error("related")
def bridge_t_with_too_few_neighbours_in_a_later_round():
    """Catches a check of the first graph only."""
    given = setup("bridge-t", graphs=np.stack([graphs.complete(7), graphs.ring(7)]))
    del given["graph"]
    return "related_rounds", given, ["round 2", "worker 0", "2"]
