"""The attacks of other papers: two cases each, but for label-flip. No search hangs on the ninth digit."""

import later_related_rule_cases  # noqa: F401
import numpy as np
from common import add, case, draw, unlike
from functions import FUNCTIONS

from refimpl import graphs
from refimpl.related import attacks

HONEST = draw(360, 5, 3)
EQUAL = np.tile(HONEST[:1], (3, 1))
SIGNALS = draw(361, 2, 3)
SHARES = abs(SIGNALS).round(2) % 1
PATH = graphs.from_edges(5, [(0, 3), (3, 1), (1, 4), (4, 2)])


@case("related")
def gaussian_around_the_mean():
    """Catches noise around the own model or 0, and a variance of 30 for a deviation."""
    made = attacks.gaussian(HONEST, SIGNALS)
    unlike(made, 30 * SIGNALS, HONEST.mean(axis=0) + np.sqrt(30) * SIGNALS)
    return "gaussian", {"honest": HONEST, "signals": SIGNALS, "scale": 30.0}


@case("related")
def gaussian_of_another_scale():
    """Catches a scale that is always the same."""
    return "gaussian", {"honest": HONEST, "signals": SIGNALS, "scale": 0.5}


@case("related")
def zero_has_the_length_of_a_model():
    """Catches a single 0."""
    return "zero", {"W": SIGNALS}


@case("related")
def zero_of_one_number():
    """Catches a number where a model of one number is wanted."""
    return "zero", {"W": SIGNALS[:1, :1]}


@case("related")
def mimic_is_the_first():
    """Catches the last honest model, and the mean."""
    return "mimic", {"honest": HONEST}


@case("related")
def mimic_of_a_lost_model():
    """Catches the first finite model: it is the first, whatever it holds."""
    return "mimic", {"honest": np.array([[np.nan, 1.0], [0.0, 2.0]])}


@case("related")
def min_max_as_far_as_two_are_apart():
    """Catches the bound of min-sum, plus for minus, ddof 1 in the bound, and the larger of all roots."""
    made = attacks.min_max(HONEST)
    mean, g = HONEST.mean(axis=0), attacks.min_max_factor(HONEST)
    std = HONEST.std(axis=0)
    unlike(made, attacks.min_sum(HONEST), mean + g * std, mean - 1.01 * g * std)
    return "min_max", {"honest": HONEST}


@case("related")
def min_max_of_equal_models():
    """Catches 0 / 0: it is the mean."""
    return "min_max", {"honest": EQUAL}


@case("related")
def min_sum_as_near_as_the_nearest():
    """Catches the largest of the sums in place of the least."""
    away = ((HONEST - HONEST.mean(axis=0)) ** 2).sum(axis=1)
    g = np.sqrt(away.max() / away.mean())
    unlike(attacks.min_sum(HONEST), HONEST.mean(axis=0) - g * HONEST.std(axis=0))
    return "min_sum", {"honest": HONEST}


@case("related")
def min_sum_of_equal_models():
    """Catches 0 / 0: it is the mean."""
    return "min_sum", {"honest": EQUAL}


@case("related")
def fang_below_what_grows_and_above_what_falls():
    """Catches the sides exchanged, and the own draw of an attacker used for all."""
    before = HONEST + np.array([-1.0, 1.0, -1.0])
    made = attacks.fang_trimmed_mean(HONEST, before, SHARES)
    assert ((made <= HONEST.min(axis=0)) == [True, False, True]).all()
    unlike(made, attacks.fang_trimmed_mean(HONEST, 2 * HONEST - before, SHARES), made[[0, 0]])
    return "fang_trimmed_mean", {"honest": HONEST, "before": before, "signals": SHARES, "factor": 2.0}


@case("related")
def fang_of_values_of_one_sign():
    """Catches a factor that is always 2, and multiplying by it where lower means to divide: 0.5, below 1.5."""
    honest = np.array([[1.5, -1.5, 1.5, -1.5], [2.0, -2.0, 2.0, -2.0]])
    before = honest + np.array([-1.0, -1.0, 1.0, 1.0])
    return "fang_trimmed_mean", {
        "honest": honest,
        "before": before,
        "signals": np.array([[0.25, 0.5, 0.75, 1.0]]),
        "factor": 3.0,
    }


@case("related")
def dissensus_of_two_liars():
    """Catches the pull divided by the number of neighbours, plus for minus, and epsilon = 1."""
    given = {"receiver": HONEST[1], "heard": HONEST, "liars": 2, "epsilon": 1.5}
    unlike(attacks.dissensus(**given), *(attacks.dissensus(**given | {"epsilon": e}) for e in (1.0, -1.5, 0.6)))
    return "dissensus", given


@case("related")
def dissensus_of_nobody():
    """Catches x / 0: without liars it is as with one, and nobody hears it."""
    return "dissensus", {"receiver": HONEST[0], "heard": HONEST[:3], "liars": 0, "epsilon": 1.0}


@case("related")
def sph_on_a_path():
    """Catches the mode of another eigenvalue, and t without the eigenvalue."""
    given = {"honest": HONEST, "graph": PATH, "place": 3, "liars": 2, "epsilon": 1.5}
    unlike(attacks.spectral(**given), attacks.spectral(**given | {"epsilon": 1.5 / attacks.fiedler(PATH)[0]}))
    return "spectral", given


@case("related")
def sph_on_a_complete_graph_is_dissensus():
    """Catches one eigenvector of several, which is nobody's choice."""
    given = {"honest": HONEST, "graph": graphs.complete(5), "place": 1, "liars": 2, "epsilon": 1.5}
    assert np.allclose(attacks.spectral(**given), attacks.dissensus(HONEST[1], HONEST, 2))
    return "spectral", given


@case("related")
def sph_on_a_graph_in_two_parts():
    """Catches what rounding leaves of an eigenvalue of 0: the other part's models are large."""
    apart, honest = graphs.from_edges(5, [(0, 3), (1, 2), (2, 4)]), HONEST.copy()
    honest[[0, 3]] *= 1e20
    given = {"honest": honest, "graph": apart, "place": 1, "liars": 2, "epsilon": 1.5}
    assert (attacks.spectral(**given) == given["honest"][1]).all()
    return "spectral", given


# --- What a receiver is sent --------------------------------------------------------------------------------

run = FUNCTIONS["sent_to"]


def deaf_to(k):
    """The graph of eight workers in which all but k and worker 2 hear each other."""
    graph = graphs.complete(8)
    graph[k, 2] = graph[2, k] = False
    return graph


def to(attack, seed, **changes):
    """Something is sent to worker 2 of eight, of whom 0 and 3 are attackers; it does not hear worker 1."""
    given = {"attack": attack, "W": draw(seed, 8, 3) + np.array([0.5, -1.0, 0.25]), "receiver": 2}
    return given | {"attackers": np.array([0, 3]), "graph": deaf_to(1), "rule": "median"} | changes


def near(seed, **changes):
    """Models that are near to each other, as after some rounds, and those before."""
    before = draw(seed, 1, 3) + draw(seed + 1, 8, 3, scale=0.05)
    W = before + draw(seed + 2, 8, 3, scale=0.05)
    return to("fang-krum", seed) | {"before": before, "W": W} | changes


def honest_of(given):
    return np.delete(given["W"], given["attackers"], axis=0)


def beside(t):
    """The mean and t standard deviations."""

    def check(given, sent):
        assert np.allclose(sent, attacks.a_little_is_enough(honest_of(given), -t))

    return check


def minus(t):
    """Minus t times the mean."""

    def check(given, sent):
        assert np.allclose(sent, -t * honest_of(given).mean(axis=0))

    return check


def after_halvings(count):
    """One for each halving of 1."""

    def check(given, sent):
        assert np.allclose(abs(sent - given["before"][given["receiver"]]), 0.5**count)

    return check


def first_before(given, sent):
    """Worker 1's, as 0 is an attacker."""
    assert np.array_equal(sent, given["before"][1], equal_nan=True)


def moved(given, sent):
    """By 8 / 2 of what its own model is off the honest mean."""
    mean = honest_of(given).mean(axis=0)
    assert np.allclose(sent - mean, 4 * (given["W"][given["attackers"]] - mean))


MODELS = {"attackers": np.array([0, 3]), "W": draw(450, 8, 3), "before": draw(451, 8, 3)}
LOST = MODELS | {"before": np.where(np.arange(8)[:, None] == 1, np.nan, MODELS["before"])}
# id, what it catches, inputs, how that is asserted
SENT = [
    ("replay-is-the-first-normal-worker-before-the-round",
     "worker 0's, who is an attacker, the model that is sent in this round, and the mean.",
     {"attack": "replay"} | MODELS, first_before),
    ("replay-of-a-lost-model", "the first finite model.",
     {"attack": "replay"} | LOST, first_before),
    ("backdoor-moved-by-all-over-the-attackers",
     "the honest workers over the attackers, everyone's mean, and a model that stays.",
     {"attack": "backdoor"} | {key: MODELS[key] for key in ("attackers", "W")}, moved),
    ("alie-optimised-against-the-median",
     "the honest models that are heard for all, the last of equal harm, and z of alie.",
     to("alie-optimised", 394), beside(-2)),
    ("alie-optimised-against-krum", "another rule, and an f of the attackers that the receiver hears.",
     to("alie-optimised", 397, rule="krum", graph=deaf_to(0)), beside(1)),
    ("alie-optimised-where-both-sides-harm-alike", "minus before plus, and a tie that rounding decides.",
     to("alie-optimised", 385, rule="average", graph=graphs.complete(8)), beside(8)),
    ("foe-optimised-against-the-median", "factors up to 1, and the last of equal harm.",
     to("foe-optimised", 394), minus(8)),
    ("foe-optimised-against-krum", "factors from 1 on, and the median in place of krum.",
     to("foe-optimised", 394, rule="krum"), minus(1 / 2)),
    ("fang-krum-after-seven-halvings",
     "a step from the mean, all honest models for those that are heard, and one halving too many.",
     near(438, rule="krum"), after_halvings(7)),
    ("fang-krum-that-is-never-chosen", "a search that ends a try sooner, or goes on.",
     near(420), after_halvings(17)),
]  # fmt: skip
for id_, catches, given, check in SENT:
    sent = run(**given)["sent"]
    check(given, sent)
    for seed in range(3):  # no decision hangs on the ninth digit
        touch = 1 + 1e-9 * np.random.default_rng(seed).normal(size=given["W"].shape)
        moved_a_bit = {key: given[key] * touch for key in ("W", "before") if key in given}
        assert np.allclose(run(**given | moved_a_bit)["sent"], sent, 1e-6, 1e-6, equal_nan=True)
    add("related", id_, f"Catches {catches}", "sent_to", given)


# --- What attackers train on --------------------------------------------------------------------------------


@case("related")
def label_flip_of_four_classes():
    """Catches 1 - y, the next class, 9 - y, and classes counted by the labels that are there."""
    y = np.array([0, 2, 1, 2])
    unlike(3 - y, 1 - y, (y + 1) % 4, 9 - y, y.max() - y)
    return "poison", {"attack": "label-flip", "X": draw(452, 4, 2), "y": y, "classes": 4}


@case("related")
def backdoor_in_every_other_row():
    """Catches every row, the odd ones, a trigger in the first features, and labels that stay."""
    y = np.array([1, 2, 0, 1, 2])
    return "poison", {"attack": "backdoor", "X": draw(453, 5, 4), "y": y, "classes": 3}


@case("related")
def backdoor_in_the_corner_of_images():
    """Catches the last three columns, or the last three rows, for 3 x 3 pixels."""
    return "poison", {"attack": "backdoor", "X": draw(454, 2, 4, 5), "y": np.array([1, 1]), "classes": 2}
