"""The family related: rounds of the systems of refimpl.related, and what they are made of.

Each round asserts that what it is meant to catch gives other numbers, and that a touch of the models, 1e-9,
turns no decision.
"""

import numpy as np
from common import FILES, Spec, case, draw, error, family, file, unlike
from functions import FUNCTIONS

from refimpl import aggregate, graphs
from refimpl.related import mixing, rules, schedules

nan, inf = np.nan, np.inf
MODEL = Spec({"kind": "mlp", "sizes": [2, 3, 2]})
D = MODEL.model.layout.size
DENSE = graphs.complete(7)
DENSE[0, 3] = DENSE[3, 0] = DENSE[2, 6] = DENSE[6, 2] = False
DIRECTED = schedules.one_way(graphs.complete(7), 0.5, np.random.default_rng(1))
run = FUNCTIONS["related_rounds"]

file(
    "related",
    "the systems that the paper cites: see docs/PORTING.md",
    [
        "Rows of W are workers. W holds the models after each round, memory what is kept after the last.",
        "sent_1, sent_2, ... are all that was sent in the last round, in that order; row k by worker k.",
        "graph[k][l] says that l sends to k; of a directed graph the transpose is another.",
    ],
)


# In the order in which a round makes them; no case has all.
FILES["related"]["outputs"]["related_rounds"] = [
    *(f"sent_{i}" for i in range(1, 6)),
    "weights",
    "W",
    "memory",
]


def setup(system, N=7, **changes):
    """Seven workers, one of them an attacker; unless changed, two rounds against a sign flip."""
    rng = np.random.default_rng(300)
    y = np.stack([rng.permutation(np.arange(4) % 2) for _ in range(N)])
    X = (rng.normal(size=(N, 4, 2)) + 1.5 * (2 * y[..., None] - 1)).round(2) + 0.0
    batches = np.stack([[rng.permutation(4)[:3] for _ in range(N)] for _ in range(2)])
    given = {"system": system, "model": MODEL, "X": X, "y": y, "graph": DENSE, "attackers": np.array([4])}
    given |= {"attack": "sign-flip", "step_size": 0.3, "W": draw(301, N, D), "batches": batches}
    return given | changes


def steady(given, made):
    """Asserts that no decision hangs on the ninth digit."""
    for seed in range(3):
        touch = 1 + 1e-9 * np.random.default_rng(seed).normal(size=given["W"].shape)
        moved = run(**given | {"W": given["W"] * touch})
        assert np.allclose(moved["W"], made["W"], 1e-6, 1e-6), given["system"]


def differs(*wrong):
    """Asserts that each wrong system, by its name or options, ends elsewhere."""

    def check(given, made):
        for other in wrong:
            unlike(made["W"], run(**given | other)["W"])

    return check


def shown(given, made):
    """z and not x, and weights that are not 1."""
    unlike(made["W"][-1], made["memory"][0])
    symmetric = run(**given | {"graph": given["graph"].T})
    unlike(made["W"], symmetric["W"])


def no_longer(given, made):
    """9 of 17 entries, halves being rounded up, and a lie is as long as a message."""
    assert (np.count_nonzero(made["sent_1"], axis=1) == 9).all()
    unlike(made["W"], run(**given | {"share": 8 / 17})["W"])


COMPLETE = {"graph": graphs.complete(7)}
TWO = {"N": 11, "graph": graphs.complete(11), "attackers": np.array([1, 4])}
# id, what it catches, system, changes of the inputs, how that is asserted
ROUNDS = [
    ("d-psgd-mixes-and-steps-from-one-snapshot", "the other order, and plain means where degrees differ.",
     "d-psgd", {}, differs({"system": "d-sgd"}, {"order": "step-then-mix"})),
    ("d-sgd-steps-then-mixes", "the other order.", "d-sgd", {}, differs({"system": "d-psgd"})),
    ("d-psgd-arbitrary", "signals that are used for normal workers, or drawn again.", "d-psgd",
     {"attack": "arbitrary", "signals": draw(302, 2, 1, D)}, differs({"signals": draw(303, 2, 1, D)})),
    ("dmsgd-shares-half-of-its-momentum", "momentum kept to oneself, and momentum averaged fully.", "dmsgd", {},
     differs({"omega": 0.0}, {"omega": 1.0}, {"beta": 0.0})),
    ("sgp-on-a-directed-graph", "weights by in-degrees, a transposed graph, and x shown for z.", "sgp",
     {"graph": DIRECTED}, shown),
    ("choco-top-one", "the other order, and copies that start as the models.", "choco", {"gamma": 0.4},
     differs({"order": "step-then-mix"}, {"copies": "models"}, {"share": 0.2})),
    ("choco-in-the-order-of-the-paper", "the authors' order where the paper's is asked for.", "choco",
     {"gamma": 0.4, "share": 0.2, "order": "step-then-mix"}, differs({"order": "mix-and-step"})),
    ("choco-lies-are-compressed", "lies with more entries than a message, and halves rounded to even.", "choco",
     {"gamma": 0.4, "share": 0.5, "attack": "foe"}, no_longer),
    ("choco-identity", "a compressor in the way: all of a difference is sent.", "choco-identity", {},
     differs({"share": 0.5}, {"gamma": 0.5})),
    ("bridge-t-keeps-its-own-value", "a gradient at the screened model, and BRIDGE-M.", "bridge-t", {},
     differs({"at": "mixed"}, {"system": "bridge-m"})),
    ("bridge-m-of-five-and-six", "a mean, and a median without the own model.", "bridge-m", {},
     differs({"at": "mixed"}, {"system": "bridge-t"})),
    ("bridge-k", "another screen, and a step before it.", "bridge-k", {"attack": "alie"},
     differs({"at": "mixed"}, {"system": "bridge-b"}, {"system": "multi-krum"})),
    ("bridge-b", "Bulyan's second stage, and no trimming.", "bridge-b", COMPLETE,
     differs({"at": "mixed"}, {"system": "bridge-t"}, {"system": "bulyan"})),
    ("byrdie-coordinate-by-coordinate", "all coordinates from one snapshot.", "byrdie", {},
     differs({"system": "bridge-t"}, {"at": "mixed"})),
    ("mozi-with-its-fallback", "UBAR's fallback, and a plain mean.", "mozi", {"attack": "foe"},
     differs({"alpha": 0.25}, {"share": 0.2})),
    ("ubar-with-its-fallback", "MOZI's fallback.", "ubar", {"share": 0.5}, differs({"share": 1.0})),
    ("clipped-gossip-at-one", "no clipping, no momentum, and momentum (1 - a) m + a g.", "clipped-gossip", {},
     differs({"radius": inf}, {"momentum": 0.0}, {"radius": 0.5})),
    ("clipped-gossip-adaptive", "a radius that knows the attackers.", "clipped-gossip-adaptive", {},
     differs({"radius": "oracle"}, {"radius": 1.0})),
    ("clipped-gossip-oracle", "a radius from the nearest models.", "clipped-gossip-oracle", {},
     differs({"radius": "adaptive"}, {"radius": 1.0})),
    ("icwtm-waits-for-six-of-seven", "no agreement after the first round, and waiting for all.", "icwtm",
     COMPLETE, differs({"iterated": False}, {"system": "mda"})),
    ("mda-waits-for-six-of-seven", "trimmed means, and no agreement.", "mda", COMPLETE | {"attack": "alie"},
     differs({"iterated": False}, {"system": "icwtm"})),
    ("tv-penalty-by-signs", "differences themselves, and the mean of the signs.", "tv-penalty",
     {"penalty": 0.05, "W": draw(301, 7, D, digits=4)},
     differs({"penalty": 0.05 / 6}, {"penalty": -0.05}, {"penalty": 0.0})),
    ("multi-task-remembers-risks", "no memory, and risks over all local data.", "multi-task", {"attack": "foe"},
     differs({"nu": 1.0}, {"nu": 0.5})),
    ("ios-drops-the-farthest", "equal weights, and nobody dropped.", "ios", {}, differs({"system": "d-sgd"})),
    ("geometric-median-round", "a step after it, and the mean.", "geometric-median", {},
     differs({"system": "d-sgd"}, {"system": "multi-krum"})),
    ("multi-krum-round", "Krum alone.", "multi-krum", {}, differs({"system": "bridge-k"}, {"system": "d-sgd"})),
    ("bulyan-round", "a trimmed mean of what Krum picks.", "bulyan", COMPLETE,
     differs({"system": "bridge-b"}, {"system": "multi-krum"})),
    ("fedavg-by-rows", "an unweighted mean: worker 2 has fewer rows.", "fedavg", {},
     differs({"system": "d-sgd"})),
    ("bridge-b-with-two-attackers", "one value trimmed a side where it must be two.", "bridge-b", TWO,
     differs({"system": "bridge-t"}, {"system": "bulyan"})),
    ("bulyan-with-two-attackers", "a second stage that drops two values in place of four.", "bulyan", TWO,
     differs({"system": "bridge-b"}, {"system": "multi-krum"})),
    ("mozi-with-two-attackers", "a second stage that counts on one attacker.", "mozi", TWO,
     differs({"share": 0.9}, {"share": 0.7})),
    ("icwtm-waits-for-nine-of-eleven", "one worker missed where it must be two in a row.", "icwtm", TWO,
     differs({"iterated": False}, {"system": "mda"})),
    ("mda-waits-for-nine-of-eleven", "one worker missed where it must be two in a row.", "mda", TWO,
     differs({"iterated": False}, {"system": "icwtm"})),
    ("ios-drops-two", "one neighbour dropped.", "ios", TWO, differs({"system": "d-sgd"})),
    ("d-sgd-with-adam", "momenta that are mixed: each worker's stay its own.", "d-sgd",
     {"optimizer": "adam", "step_size": 0.05}, differs({"optimizer": "sgd"})),
]  # fmt: skip


@family("related")
def rounds():
    for id_, catches, system, changes, check in ROUNDS:
        given = setup(system, **changes)
        if system == "fedavg":  # its batches avoid the padded row
            given["y"] = given["y"].copy()
            given["y"][2, 3] = -1
            given["batches"] = np.where(
                np.arange(7)[:, None] == 2, np.minimum(given["batches"], 2), given["batches"]
            )
        made = run(**given)
        check(given, made)
        steady(given, made)
        yield id_, f"Catches {catches}", "related_rounds", given


# --- What they are made of ----------------------------------------------------------------------------------

W = draw(310, 7, 3)


@case("related")
def metropolis_on_a_path():
    """Catches weights without + 1, and plain means: an end keeps two thirds."""
    graph = graphs.from_edges(4, [(0, 1), (1, 2), (1, 3)])
    unlike(mixing.metropolis_weights(graph), mixing.uniform_weights(graph))
    return "metropolis_weights", {"graph": graph}


@case("related")
def push_weights_by_columns():
    """Catches weights by in-degrees: a column sums to 1, a row need not."""
    unlike(mixing.push_weights(DIRECTED), mixing.uniform_weights(DIRECTED), mixing.push_weights(DIRECTED.T).T)
    return "push_weights", {"graph": DIRECTED}


@case("related")
def top_k_of_ties():
    """Catches signed entries and the last of a tie: of 2 and -2 the first is kept."""
    return "top_k", {"x": np.array([1.0, -3.0, 2.0, -2.0, 0.5]), "k": 2}


@case("related")
def geometric_median_of_seven():
    """Catches the mean, the median of each coordinate, and stopping after four steps."""
    given = {"W": W, "steps": 80, "tolerance": 1e-5, "nu": 1e-5}
    unlike(rules.geometric_median(W), W.mean(axis=0), np.median(W, axis=0))
    assert not np.allclose(rules.geometric_median(W), rules.geometric_median(W, steps=4), 1e-6)
    return "geometric_median", given


@case("related")
def geometric_median_drops_what_is_not_finite():
    """Catches NaN in, NaN out."""
    lost = W.copy()
    lost[2, 1], lost[5] = nan, inf
    return "geometric_median", {"W": lost, "steps": 80, "tolerance": 1e-5, "nu": 1e-5}


@case("related")
def multi_krum_of_four():
    """Catches the mean of n - f models, and Krum."""
    unlike(rules.multi_krum(W, 1), aggregate.krum(W, 1), W.mean(axis=0))
    return "multi_krum", {"W": W, "f": 1}


@case("related")
def bulyan_of_seven():
    """Catches a trimmed mean in the second stage."""
    unlike(rules.bulyan(W, 1), rules.bridge_b(W, 1), rules.multi_krum(W, 1))
    return "bulyan", {"W": W, "f": 1}


@case("related")
def mda_of_seven():
    """Catches the subset with the smallest sum of distances, and n - 2f models."""
    nearest = aggregate.squared_distances(W).sum(axis=1).argsort()[:5]
    unlike(rules.minimum_diameter_average(W, 2), W[nearest].mean(axis=0), W.mean(axis=0))
    return "minimum_diameter_average", {"W": W, "f": 2}


@case("related")
def trimmed_mean_that_keeps_its_own():
    """Catches an own value that is trimmed with the rest: here it is the highest."""
    own = int(W[:, 0].argmax())
    unlike(rules.own_trimmed_mean(W, own, 2), aggregate.trimmed_mean(W, 2))
    return "own_trimmed_mean", {"W": W, "own": own, "f": 2}


WEIGHTS = np.array([0.1, 0.2, 0.1, 0.25, 0.1, 0.15, 0.1])


@case("related")
def scissor_one_by_one():
    """Catches equal weights, and dropping both at once."""
    unlike(
        rules.iterative_outlier_scissor(W, 3, WEIGHTS, 2),
        rules.iterative_outlier_scissor(W, 3, 0 * WEIGHTS + 1, 2),
    )
    return "iterative_outlier_scissor", {"W": W, "own": 3, "weights": WEIGHTS, "f": 2}


@case("related")
def scissor_with_a_lost_model():
    """Catches means that are NaN while it is there: it is infinitely far, and dropped first."""
    lost = W.copy()
    lost[1, 0] = nan
    rest = np.where(np.arange(7) == 1, 0, WEIGHTS)
    made = rules.iterative_outlier_scissor(lost, 3, WEIGHTS, 2)
    assert np.allclose(made, rules.iterative_outlier_scissor(W, 3, rest, 1))
    unlike(made, rest @ W / rest.sum())
    return "iterative_outlier_scissor", {"W": lost, "own": 3, "weights": WEIGHTS, "f": 2}


@case("related")
def clipped_gossip_with_a_lost_model():
    """Catches NaN in, NaN out, and clipping each coordinate: a difference that is not finite counts as 0."""
    lost = W.copy()
    lost[1, 0] = inf
    clipped = W[3] + WEIGHTS @ np.clip(W - W[3], -0.9, 0.9)
    unlike(rules.clipped_gossip(W, 3, WEIGHTS, 0.9), clipped)
    return "clipped_gossip", {"W": lost, "own": 3, "weights": WEIGHTS, "tau": 0.9}


@case("related")
def oracle_radius_of_the_honest():
    """Catches the attackers' distances in the sum."""
    honest = np.array([True, False, True, True, True, False, True])
    return "oracle_radius", {"W": W, "own": 3, "weights": WEIGHTS, "honest": honest}


@case("related")
def adaptive_radius_of_the_nearest():
    """Catches the model with which 1 - delta is reached, and delta as the mean weight times f."""
    return "adaptive_radius", {"W": W, "own": 3, "weights": WEIGHTS, "f": 2}


RISKS = np.array([0.7, 0.6, 0.9, 0.5, 0.8, 0.4, 0.65])


@case("related")
def mozi_accepts_the_near_and_good():
    """Catches a second stage that sees everyone, and a plain mean with the own model."""
    chosen = rules.mozi(W, 4, RISKS, 3)
    unlike(chosen, rules.mozi(W, 4, RISKS, 6), rules.mozi(W, 4, RISKS, 1))
    return "mozi", {"W": W, "own": 4, "risks": RISKS, "count": 3, "alpha": 0.5, "empty": "nearest"}


@case("related")
def mozi_with_a_lost_model():
    """Catches a model at no finite distance among the count nearest, and its low risk being trusted."""
    lost, risks = W.copy(), RISKS.copy()
    lost[1, 0], risks[1] = inf, 0.1
    unlike(rules.mozi(lost, 4, risks, 6), rules.mozi(W, 4, risks, 6))
    return "mozi", {"W": lost, "own": 4, "risks": risks, "count": 6, "alpha": 0.5, "empty": "nearest"}


@family("related")
def fallbacks():
    """Own risk 0.4 is the lowest: nobody is accepted."""
    unlike(rules.mozi(W, 5, RISKS, 4), rules.mozi(W, 5, RISKS, 4, empty="lowest-risk"))
    for empty, other in (("nearest", "UBAR's"), ("lowest-risk", "MOZI's")):
        given = {"W": W, "own": 5, "risks": RISKS, "count": 4, "alpha": 0.5, "empty": empty}
        yield f"mozi-{empty}-when-none-is-accepted", f"Catches {other} fallback.", "mozi", given


# --- Refusals -----------------------------------------------------------------------------------------------


@error("related")
def bridge_t_with_too_few_neighbours():
    """Catches a check on all workers: worker 0 hears two."""
    return "related_rounds", setup("bridge-t", graph=graphs.ring(7)), ["bridge-t", "worker 0", "2"]


@error("related")
def icwtm_on_an_incomplete_graph():
    """Catches agreement among those who do not all hear each other."""
    return "related_rounds", setup("icwtm"), ["worker 0", "worker 3"]


@error("related")
def icwtm_that_leaves_nothing_to_average():
    """Catches counting n where only n - f arrive: 4 models, 3 off each side."""
    return "related_rounds", setup("icwtm", **COMPLETE, attackers=np.array([1, 2, 4])), ["n=4", "f=3"]


@error("related")
def metropolis_on_a_directed_graph():
    """Catches weights that are not doubly stochastic."""
    return "metropolis_weights", {"graph": DIRECTED}, ["undirected", "worker"]


@error("related")
def bulyan_of_six():
    """Catches n >= 2f + 3 where Bulyan needs 4f + 3."""
    return "bulyan", {"W": W[:6], "f": 1}, ["bulyan", "6"]


@error("related")
def unknown_system():
    """Catches falling back to some system when the name is misspelt."""
    return "related_rounds", setup("d-pgsd"), ["d-pgsd"]
