"""More rounds of related: mistakes with which a third port passed all earlier cases.

Attackers that not everyone hears, four of them, every option with another value than its default and every
default that decides something, Adam, signals, an L2 term and step sizes of one's own.
"""

from unittest import mock

import later_related_rule_cases  # noqa: F401
import numpy as np
from common import Spec, draw, family, unlike
from later_related_cases import APART
from later_related_cases import batches as more_batches
from related_cases import COMPLETE, DIRECTED, MODEL, D, differs, run, setup, steady

from refimpl import attacks, graphs
from refimpl.related import rounds as parts
from refimpl.related import rules

nan, inf = np.nan, np.inf
LINEAR, SCALAR = Spec({"kind": "mlp", "sizes": [2, 2]}), Spec({"kind": "mlp", "sizes": [1, 2]})


def without(n, *edges):
    """The complete graph without some edges."""
    graph = graphs.complete(n)
    for k, l in edges:
        graph[k, l] = graph[l, k] = False
    return graph


def small(system, N=7, **changes):
    """The setup with a network of six parameters, which keeps the files short."""
    return setup(system, N, **{"model": LINEAR, "W": draw(350, N, 6)} | changes)


# --- Attackers that not everyone hears ----------------------------------------------------------------------


def counts_all_attackers(given, made):
    """Some hear fewer attackers than others, and a worker that counted those would end elsewhere."""
    among = given["graph"][:, given["attackers"]].sum(axis=1)
    assert len(np.unique(np.delete(among, given["attackers"]))) > 1

    def nearby(*args):
        h = heard(*args)
        return h._replace(f=int((~h.honest).sum()))

    heard = parts.heard
    with mock.patch.object(parts, "heard", nearby):
        unlike(made["W"], run(**given)["W"])


FEW = {"graph": without(7, (0, 4), (4, 6))}  # 0 and 6 do not hear the attacker
LARGE = {"N": 11, "graph": without(11, (0, 4), (4, 6))}
FOUR = {
    "N": 13,
    "graph": without(13, (0, 3), (1, 5), (2, 8), (4, 12), (6, 3), (7, 9)),
    "attackers": np.array([3, 5, 8, 12]),
}
# id, system, changes of the inputs
HEARD = [
    ("bridge-t", "bridge-t", FEW),
    ("bridge-k", "bridge-k", FEW | {"attack": "alie"}),
    ("byrdie", "byrdie", FEW),
    ("mozi", "mozi", FEW | {"attack": "foe", "W": draw(351, 7, 6)}),
    ("ios", "ios", FEW),
    ("multi-krum", "multi-krum", FEW),
    ("clipped-gossip-adaptive", "clipped-gossip-adaptive", FEW),
    ("bulyan", "bulyan", LARGE),
    ("bridge-b", "bridge-b", LARGE),
    ("bridge-t-of-four", "bridge-t", FOUR),
    ("mozi-of-four", "mozi", FOUR | {"attack": "foe"}),
    ("ios-of-four", "ios", FOUR),
    ("multi-krum-of-four", "multi-krum", FOUR),
    ("clipped-gossip-adaptive-of-four", "clipped-gossip-adaptive", FOUR),
]


@family("related")
def attackers_that_not_everyone_hears():
    for name, system, changes in HEARD:
        given = small(system, **changes)
        made = run(**given)
        counts_all_attackers(given, made)
        steady(given, made)
        comment = "Catches f counted in the neighbourhood: it is the number of all attackers, heard or not."
        yield f"{name}-f-is-of-the-network", comment, "related_rounds", given


# --- Options and their defaults -----------------------------------------------------------------------------


def hidden_bias(given, made):
    """The attacker's model is not finite but its outputs are: no weight, and an infinite average."""
    hear = np.setdiff1d(np.flatnonzero(given["graph"][:, 4]), [4])
    assert np.isneginf(made["sent_1"][4]).sum() == 1
    assert not made["weights"][:, 4].any()
    assert np.isinf(made["memory"][0, hear, 4]).all()
    with np.errstate(invalid="ignore"):
        r = MODEL.model.risk(made["sent_1"][4], given["X"][0], given["y"][0])
    assert np.isfinite(r)


def two_slots(given, made):
    """Seven averages do not fit into four parameters: two slots, and a zero behind the last."""
    assert made["memory"].shape == (2, 7, 4)
    assert (made["memory"][1, :, 3] == 0).all()
    assert (made["memory"][1, :, :3] != 0).all()


def by_rows(given, made):
    """Not the workers that k sends to."""
    unlike(made["W"], run(**given | {"graph": given["graph"].T.copy()})["W"])


def two_entries(given, made):
    """A share of 0.01, and neither 0.005 nor 0.02."""
    assert (np.count_nonzero(made["sent_1"], axis=1) == 2).all()


def when_it_stops(given, made):
    """The tolerance of 1e-5 decides: with half of it or twice it, Weiszfeld's iteration stops elsewhere."""
    median = rules.geometric_median
    for tolerance in (5e-6, 2e-5):
        with mock.patch.object(rules, "geometric_median", lambda W, t=tolerance: median(W, tolerance=t)):
            assert not np.allclose(run(**given)["W"], made["W"], 1e-8, 1e-10)


def steps_apart(given, made):
    """Not those of the first round, nor of the first worker."""
    mu = given["step_size"]
    for other in (np.stack([mu[0]] * len(mu)), np.stack([mu[:, 0]] * 7, axis=1)):
        unlike(made["W"], run(**given | {"step_size": other})["W"])


BEHIND_RELU = np.ones((2, 1, D))  # the first bias of the hidden layer, which is negative, becomes -Infinity
BEHIND_RELU[:, :, 6] = inf
SHRINKING = (np.array([0.1, 0.5, 0.3, 0.05, 0.4, 0.2, 0.6]) / np.sqrt([[1], [2]])).round(3)
THREE = {"batches": more_batches(3)}
WIDE = Spec({"kind": "mlp", "sizes": [2, 34, 2]})
OF_172 = {
    "N": 3,
    "model": WIDE,
    "W": draw(357, 3, 172),
    "graph": graphs.complete(3),
    "attackers": np.array([1]),
}
TALL = {"model": SCALAR, "W": draw(352, 7, 4), "X": draw(353, 7, 4, 1)}
# id, what it catches, inputs, how that is asserted
OPTIONS = [
    ("dmsgd-shares-a-quarter-of-its-momentum", "omega and 1 - omega exchanged.",
     small("dmsgd", omega=0.25), differs({"omega": 0.75}, {"omega": 0.5})),
    ("dmsgd-with-half-the-momentum", "an option `beta` that is overlooked.",
     small("dmsgd", beta=0.5), differs({"beta": 0.9}, {"beta": 1.0})),
    ("choco-with-its-defaults", "another gamma than 0.04, and an entry more than one.",
     small("choco", **THREE), differs({"gamma": 0.4}, {"gamma": 0.01}, {"share": 0.3})),
    ("choco-sends-one-percent", "another share than 0.01: two of 172 entries are sent.",
     setup("choco", **OF_172), two_entries),
    ("choco-with-copies-of-the-models", "an option `copies` that is overlooked.",
     small("choco-identity", copies="models"), differs({"copies": "zero"})),
    ("clipped-gossip-at-a-fifth", "an option `radius` that is overlooked.",
     small("clipped-gossip", radius=0.2), differs({"radius": 1.0}, {"radius": 0.1})),
    ("clipped-gossip-adaptive-at-a-fifth", "a name that decides more than the default: `radius` is given.",
     small("clipped-gossip-adaptive", radius=0.2), differs({"radius": "adaptive"})),
    ("tv-penalty-with-its-default", "another penalty than 0.005.",
     setup("tv-penalty", W=APART["W"]), differs({"penalty": 0.01}, {"penalty": 0.0022})),
    ("mozi-keeps-three-quarters", "alpha and 1 - alpha exchanged.",
     small("mozi", attack="foe", alpha=0.75), differs({"alpha": 0.25}, {"alpha": 0.5})),
    ("mozi-with-a-share-of-less-than-one", "a second stage without anyone: the nearest is always there.",
     small("mozi", share=0.1), differs({"share": 0.4}, {"alpha": 1.0})),
    ("ubar-keeps-three-quarters", "an option `alpha` that is MOZI's alone.",
     small("ubar", share=0.5, alpha=0.75), differs({"alpha": 0.25}, {"alpha": 0.5})),
    ("multi-task-forgets-by-half", "an option `nu` that is overlooked.",
     small("multi-task", attack="foe", nu=0.5), differs({"nu": 0.05}, {"nu": 1.0})),
    ("multi-task-an-infinite-bias-behind-relu",
     "a finite risk of a model that is not finite: a bias of -Infinity switches a unit off.",
     setup("multi-task", attack="arbitrary", signals=BEHIND_RELU), hidden_bias),
    ("multi-task-with-more-workers-than-parameters", "averages that are cut off at d: there are two slots.",
     small("multi-task", **TALL), two_slots),
    ("multi-task-on-a-directed-graph", "a transposed graph: k hears l where graph[k][l].",
     small("multi-task", graph=DIRECTED), by_rows),
    ("geometric-median-on-a-directed-graph", "a transposed graph: k hears l where graph[k][l].",
     small("geometric-median", graph=DIRECTED), by_rows),
    ("geometric-median-with-its-tolerance", "another tolerance than 1e-5.",
     small("geometric-median"), when_it_stops),
    ("mozi-with-l2", "l2 that is missing in the gradient or in the risk.",
     small("mozi", attack="foe", l2=0.5, share=1.0), differs({"l2": 0.0}, {"l2": 1.0})),
    ("multi-task-with-l2", "l2 that is missing in the gradient or in the risk.",
     small("multi-task", l2=0.5, nu=0.5), differs({"l2": 0.0}, {"l2": 1.0})),
    ("tv-penalty-with-steps-that-shrink", "one step size for all workers or rounds: step_size is (T, N).",
     setup("tv-penalty", **APART, step_size=SHRINKING), steps_apart),
    ("byrdie-with-steps-that-shrink", "one step size for all workers or rounds: step_size is (T, N).",
     small("byrdie", step_size=SHRINKING), steps_apart),
]  # fmt: skip


# --- Signals ------------------------------------------------------------------------------------------------

SIGNALS = draw(354, 2, 1, 6)
TWO = {"attackers": np.array([1, 4]), "attack": "arbitrary", "signals": draw(355, 2, 2, 6)}
ONE = {"attack": "arbitrary", "signals": SIGNALS}
REVERSED = {"signals": SIGNALS[:, :, ::-1].copy()}


def attackers_go_straight(given, made):
    """An attacker's model is what it would be alone: its lies, and those of others, do not move it."""
    alone = run(**given | {"attack": "none"} | ({"signals": None} if "signals" in given else {}))
    assert np.array_equal(made["W"][:, given["attackers"]], alone["W"][:, given["attackers"]])


def twice(given, made):
    """Both messages are attacked with the same signals, and the attacker's own momentum goes on."""
    assert np.array_equal(made["sent_1"][4], SIGNALS[1, 0] * run(**given)["W"][0][4])
    attackers_go_straight(given, made)
    differs(REVERSED)(given, made)


def all_exchanges(given, made):
    """Gradients, agreements and models are attacked, each attacker with its own row of the signals."""
    assert all((made[f"sent_{i}"][[1, 4]] != 0).any() for i in (1, 2, 3))
    attackers_go_straight(given, made)
    differs({"signals": given["signals"][:, ::-1].copy()})(given, made)


def number_is_true(given, made):
    """u is not attacked: the attackers' is 1, and those of the others are what they heard."""
    assert made["sent_2"][4] == 1
    assert (made["sent_2"] > 0).all()
    honest = run(**given | {"attack": "none", "signals": None})
    assert np.array_equal(made["sent_2"], honest["sent_2"])
    differs(REVERSED)(given, made)


def nan_is_not_sent(given, made):
    """Two of the six entries are sent, and NaN is not among the largest."""
    assert np.isfinite(made["sent_1"]).all()
    assert made["sent_1"][4].any()
    differs({"signals": np.where(np.isnan(given["signals"]), 1, given["signals"])})(given, made)


def little(source):
    """z is not 0, and the statistics are of the `source` workers' messages, models, momenta or gradients."""

    def check(given, made):
        z, lies = attacks.alie_z(7, 2), [key for key in made if key.startswith("sent")]
        assert z > 0.2
        for key in lies:
            rows = made[key] if source == "normal" else run(**given | {"attack": "none"})[key]
            rows = rows[[0, 2, 3, 5, 6] if source == "normal" else [1, 4]]
            assert np.allclose(made[key][[1, 4]], attacks.a_little_is_enough(rows, z))
            unlike(made[key][1], rows.mean(axis=0), attacks.a_little_is_enough(rows, -z))

    return check


BOTH = {"attackers": np.array([1, 4]), "attack": "alie"}
PARTLY_NAN = np.where(np.arange(6) % 3 == 0, nan, draw(356, 2, 1, 6))
LIES = [
    ("dmsgd-arbitrary", "a momentum that is not attacked, other signals for it, and attackers that mix.",
     small("dmsgd", **ONE), twice),
    ("byrdie-arbitrary", "signals of another coordinate, and attackers that screen.",
     small("byrdie", **ONE), differs(REVERSED)),
    ("icwtm-arbitrary", "an exchange without lies, and attackers that step along what they agreed on.",
     small("icwtm", **COMPLETE | TWO), all_exchanges),
    ("sgp-arbitrary", "lies about u: it is never attacked.",
     small("sgp", **ONE, graph=DIRECTED), number_is_true),
    ("choco-arbitrary-with-nan", "NaN among the largest entries of a lie, and attackers that mix.",
     small("choco", share=0.3, gamma=0.4, attack="arbitrary", signals=PARTLY_NAN), nan_is_not_sent),
    ("dmsgd-alie", "statistics of the models for the momentum, and z = 0, which 1 of 7 would have.",
     small("dmsgd", **BOTH), little("normal")),
    ("icwtm-alie", "statistics of the models for gradients, and z = 0, which 1 of 7 would have.",
     small("icwtm", **COMPLETE | BOTH), little("normal")),
    ("d-psgd-alie-corrupted", "statistics of the normal workers: the attackers know their own models alone.",
     small("d-psgd", **BOTH | {"attack": "alie-corrupted"}), little("own")),
]  # fmt: skip

# --- Adam ---------------------------------------------------------------------------------------------------

ADAM = {"optimizer": "adam", "step_size": 0.05}


def moments(*wrong):
    """Adam's m and v come first in the memory; each wrong run has other ones, and ends elsewhere."""

    def check(given, made):
        assert len(made["memory"]) >= 2
        assert (made["memory"][1] >= 0).all()
        for other in wrong:
            unlike(made["memory"][:2], run(**given | other)["memory"][:2])
            unlike(made["W"], run(**given | other)["W"])

    return check


def counts_rounds(given, made):
    """Bias is corrected by the round, which all coordinates share: an attacker's first step is mu in each."""
    first = run(**given | {"batches": given["batches"][:1]})
    assert np.allclose(abs(first["W"][0] - given["W"])[given["attackers"]], 0.05, atol=1e-6)


OTHERWISE = [
    ("d-psgd-with-adam", "a step from the own model, and momenta that are mixed.",
     small("d-psgd", **ADAM), moments({"order": "step-then-mix"})),
    ("bridge-t-with-adam", "a step from the own model, and momenta that are screened.",
     small("bridge-t", **ADAM), moments({"at": "mixed"})),
    ("sgp-with-adam", "a step of z: it is one of x, along Adam's direction of the gradient at z.",
     small("sgp", **ADAM, graph=DIRECTED, **THREE), moments()),
    ("byrdie-with-adam", "a bias correction that counts coordinates, and moments that they share.",
     small("byrdie", **ADAM), counts_rounds),
    ("clipped-gossip-with-adam", "moments of the gradient: Adam is given m', the momentum.",
     small("clipped-gossip", **ADAM), moments({"momentum": 0.0})),
    ("tv-penalty-with-adam", "a penalty beside Adam: it is in the gradient whose moments are taken.",
     setup("tv-penalty", **APART, **ADAM), moments({"penalty": 0.0})),
    ("dmsgd-with-adam", "moments of the momentum: Adam is given g alone, from the mixed point.",
     small("dmsgd", **ADAM, **THREE), moments({"beta": 0.0})),
    ("choco-with-adam", "moments that are compressed or mixed.",
     small("choco-identity", **ADAM, **THREE), moments({"gamma": 0.5})),
    ("icwtm-with-adam", "moments of the own gradient: Adam is given what was agreed on.",
     small("icwtm", **COMPLETE, **ADAM), moments({"iterated": False})),
    ("multi-task-with-adam", "averages before the moments: m and v come first in the memory.",
     small("multi-task", **ADAM), moments({"nu": 0.5})),
]  # fmt: skip


@family("related")
def rounds():
    for id_, catches, given, check in [*OPTIONS, *LIES, *OTHERWISE]:
        made = run(**given)
        check(given, made)
        steady(given, made)
        yield id_, f"Catches {catches}", "related_rounds", given
