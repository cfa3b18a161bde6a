"""The attacks of refimpl.related that are plain functions of models: two cases each."""

import later_related_rule_cases  # noqa: F401
import numpy as np
from common import case, draw, unlike

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
