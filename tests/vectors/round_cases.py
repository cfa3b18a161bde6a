"""The family round: one round of Algorithm 1 with every intermediate, its batches, and the score."""

import numpy as np
from common import MARGIN, case, draw, error, file, unlike
from functions import FUNCTIONS, round_
from model_cases import clear, mlp
from rule_cases import scores

from refimpl import graphs

nan, inf = np.nan, np.inf
MODEL = mlp(2, 3, 2)
D = MODEL.model.layout.size
SPARSE = graphs.from_edges(7, [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (5, 6), (2, 3)])


def local_data(rows, width=2, seed=200):
    """Two classes around different centres for each worker; padded rows have label -1 and samples of 9."""
    rng = np.random.default_rng(seed)
    X, y = np.full((len(rows), max(rows), width), 9.0), np.full((len(rows), max(rows)), -1)
    for k, n in enumerate(rows):
        y[k, :n] = rng.permutation(np.arange(n) % 2)
        centre = np.array([1.0, 0.5]) + 0.3 * rng.normal(size=width)
        X[k, :n] = rng.normal(size=(n, width)) + np.where(y[k, :n, None] == 1, centre, -centre)
    return X.round(2) + 0.0, y


def row_numbers(rows, size, rounds=1, seed=201):
    """(rounds, N, size) row numbers below each worker's number of rows, without repetition in a batch."""
    rng = np.random.default_rng(seed)
    return np.array([[rng.permutation(n)[:size] for n in rows] for _ in range(rounds)])


ROWS = [6, 4, 5, 6, 4, 5, 6]


def setup(**changes):
    """Seven workers, 1 and 4 of them attackers; unless changed, adaptive against a sign flip."""
    X, y = local_data(ROWS)
    given = {"model": MODEL, "X": X, "y": y, "graph": graphs.complete(7), "attackers": np.array([1, 4])}
    given |= {"rule": "adaptive", "attack": "sign-flip", "risk": "local", "smoothing": 1.0}
    given |= {"optimizer": "sgd", "lr": 0.3, "W": draw(202, 7, D), "batch": row_numbers(ROWS, 4)[0]}
    return given | changes


def clear_round(given, made):
    """Asserts that every decision of a round is clear of rounding."""
    graph, attackers, sent = given["graph"], given["attackers"], made["sent"]
    for k in range(len(graph)):
        clear(given["model"], given["W"][k], made["batch_X"][k], labels=False)
        if given["optimizer"] == "adam":
            g = abs(made["gradient"][k])
            assert ((g < 1e-15) | (g > MARGIN / 10)).all()  # rounding of a sum that is 0
        if k in attackers:
            continue
        members = np.flatnonzero(graph[k])
        M = (sent if sent.ndim == 2 else sent[k])[members]
        r = made["smoothed"][k] if given["rule"] == "adaptive" else np.full(len(graph), nan)
        if np.isfinite(r[k]):
            gap = abs(r[members] - r[k])[members != k]
            assert gap[np.isfinite(gap)].min() > MARGIN * r[k]
        if given["rule"] in ("krum", "medoid") and len(M) > 2:  # two models tie exactly
            krum = given["rule"] == "krum"
            found = scores(M, len(M) - len(attackers) - 2 if krum else len(M) - 1, 2.0 if krum else 1.0)
            best = min(found)
            other = [s for s, w in zip(found, M) if not np.array_equal(w, M[found.index(best)])]
            assert all(s[0] > best[0] or s[1] - best[1] > MARGIN * s[1] for s in other)


def one_round(**changes):
    """The inputs of a round whose decisions are clear, and what it makes of them."""
    given = setup(**changes)
    made = round_(**given)
    clear_round(given, made)
    return given, made


file(
    "round",
    "Algorithm 1, one pass of the outer loop",
    [
        "Rows of W are workers. risks[k][l] = r_k(sent[l]); smoothed is what Eq. (6) sees.",
        "risks and smoothed are NaN, weights 0, where l is not in N_k and in the attackers' rows.",
        "Check the outputs in the order of `outputs`: the first that differs is where to look.",
    ],
)


@case("round")
def adaptive_sign_flip():
    """Catches attackers that aggregate, attackers that do not train, and models replaced while others read."""
    given, made = one_round()
    C, attackers = made["weights"], given["attackers"]
    assert (C[np.ix_([0, 2, 3, 5, 6], attackers)] == 0).any()
    assert ((C > 0).sum(axis=1) > 1).any()
    assert np.array_equal(made["W"][attackers], made["local"][attackers])
    unlike(made["W"][attackers], given["W"][attackers], made["sent"].mean(axis=0))
    W = made["sent"].copy()
    for k in (0, 2, 3, 5, 6):  # in place: a later receiver reads what an earlier one made
        W[k] = C[k] @ W
    unlike(W, made["W"])
    return "round", given


@case("round")
def adaptive_arbitrary():
    """Catches signals in the wrong order: row i belongs to the i-th attacker."""
    signals = np.random.default_rng(203).uniform(-0.5, 0.5, (2, D)).round(3)
    given, made = one_round(attack="arbitrary", signals=signals)
    unlike(made["sent"], round_(**given | {"signals": signals[::-1]})["sent"])
    return "round", given


@case("round")
def adaptive_foe():
    """Catches a mean over all workers: the attackers' own models are not in it."""
    given, made = one_round(attack="foe")
    unlike(made["sent"][1], -made["local"].mean(axis=0))
    assert np.array_equal(made["sent"][1], made["sent"][4])
    return "round", given


@case("round")
def adaptive_alie():
    """Catches statistics over all workers: the attackers' own models are not in them."""
    given, made = one_round(attack="alie")
    unlike(made["sent"][1], made["local"].mean(axis=0) - 0.2533471 * made["local"].std(axis=0))
    return "round", given


@case("round")
def adaptive_none():
    """Catches honest behaviour of an attacker under "none": it sends its model but does not aggregate."""
    given, made = one_round(attack="none")
    assert (made["weights"][:, [1, 4]] > 0).any()
    assert np.array_equal(made["W"][1], made["local"][1])
    return "round", given


@case("round")
def adaptive_sparse():
    """Catches models from workers that are not neighbours, and `own` taken for a worker number."""
    given, made = one_round(graph=SPARSE)
    unlike(made["W"], round_(**given | {"graph": graphs.complete(7)})["W"])
    return "round", given


@case("round")
def adaptive_batch_risk():
    """Catches the risk over all local data where the round's own batch is asked for."""
    given, made = one_round(risk="batch")
    unlike(made["W"], round_(**given | {"risk": "local"})["W"])
    return "round", given


@case("round")
def adaptive_smoothing_starts_at_the_first_risk():
    """Catches a running average that starts at 0 or 1: without a previous one it is the risk."""
    given, made = one_round(smoothing=0.25)
    assert np.array_equal(made["risks"], made["smoothed"], equal_nan=True)
    return "round", given


def previous_risks():
    """Running averages from an earlier round; the receiver's own one of worker 0 was lost."""
    previous = abs(draw(204, 7, 7, digits=3)) + 0.1
    previous[0, 0] = inf
    previous[[1, 4]] = nan
    return previous


@case("round")
def adaptive_smoothing_goes_on():
    """Catches exchanged shares: L = 0.75 L + 0.25 r here; one that was infinite starts again at r."""
    given, made = one_round(smoothing=0.25, smoothed=previous_risks())
    unlike(made["weights"], round_(**given | {"smoothing": 0.75})["weights"])
    assert made["smoothed"][0, 0] == made["risks"][0, 0]
    return "round", given


@case("round")
def adaptive_adam_goes_on():
    """Catches bias correction that starts again each round: this is step 3."""
    state = {"t": 2, "m": draw(205, 7, D), "v": abs(draw(206, 7, D)) + 0.01}
    given, made = one_round(optimizer="adam", lr=0.05, optimizer_state=state)
    unlike(made["local"], round_(**given | {"optimizer_state": state | {"t": 0}})["local"])
    return "round", given


@case("round")
def adaptive_not_finite():
    """Catches a hostile -Infinity in one hidden bias: the risk would be finite, but counts as infinite."""
    hostile = draw(207, 2, D, scale=0.3)
    MODEL.model.layout.views(hostile[0])["b1"][0] = -inf
    hostile[1] = nan
    given, made = one_round(attack="given", messages=hostile)
    assert np.isinf(made["risks"][0, [1, 4]]).all()
    assert np.isfinite(made["W"]).all()
    with np.errstate(invalid="ignore"):
        assert np.isfinite(MODEL.model.risk(hostile[0], given["X"][0], given["y"][0]))
    return "round", given


@case("round")
def inverse_risk_sparse():
    """Catches Eq. (6) where Eq. (5) is asked for: no filter."""
    given, made = one_round(rule="inverse-risk", graph=SPARSE)
    unlike(made["W"], round_(**given | {"rule": "adaptive"})["W"])
    return "round", given


@case("round")
def average_sparse():
    """Catches a mean that leaves the receiver's own model out."""
    given, made = one_round(rule="average", graph=SPARSE)
    unlike(made["W"][6], made["sent"][5])
    return "round", given


@case("round")
def median_sparse():
    """Catches a median over all workers: worker 6 has two models, and takes their mean."""
    return "round", one_round(rule="median", graph=SPARSE)[0]


@case("round")
def medoid_sparse():
    """Catches another tie: of two models both are medoids, and the lower worker number wins."""
    given, made = one_round(rule="medoid", graph=SPARSE, attack="foe")
    assert np.array_equal(made["W"][6], made["sent"][5])
    return "round", given


@case("round")
def trimmed_mean_complete():
    """Catches trimming one a side: f is the number of all attackers, 2."""
    given, made = one_round(rule="trimmed-mean")
    unlike(made["W"][0], np.sort(made["sent"], axis=0)[1:6].mean(axis=0))
    return "round", given


@case("round")
def krum_complete():
    """Catches a Krum that each receiver starts from its own model: all normal workers get the same one."""
    given, made = one_round(rule="krum", attack="alie")
    assert len(np.unique(made["W"][[0, 2, 3, 5, 6]], axis=0)) == 1
    return "round", given


@case("round")
def local_listens_to_nobody():
    """Catches any aggregation: every worker keeps its local model."""
    given, made = one_round(rule="local")
    assert np.array_equal(made["W"], made["local"])
    return "round", given


# --- Draws and the score ------------------------------------------------------------------------------------


@case("round")
def rounds_per_epoch_is_an_average_rounded_up():
    """Catches rounds until the shortest (3) or the longest worker (8) is through: ceil(78 / (3 * 5)) = 6."""
    return "rounds_per_epoch", {"sizes": [12, 40, 26], "batch_size": 5}


@case("round")
def batches_go_on_with_another_order():
    """Catches short batches and drawing with replacement: a worker that runs out takes another order."""
    orders = [np.random.default_rng(seed).permutation(n) for seed, n in enumerate([3, 3, 3, 9, 6])]
    given = {"sizes": [3, 9, 6], "batch_size": 3, "rounds": 3, "orders": [*orders, orders[4][::-1].copy()]}
    made = FUNCTIONS["batches"](**given)["batches"]
    assert made.shape == (3, 3, 3)
    assert np.array_equal(made[:, 1].ravel(), orders[3])
    return "batches", given


@case("round")
def score_of_normal_workers_only():
    """Catches attackers in the worst and the mean, and `own` taken over the whole test set."""
    X, y = local_data([6], seed=208)
    own = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]], dtype=bool)
    given = {"model": MODEL, "X_test": X[0], "y_test": y[0], "own_test": own, "attackers": np.array([1])}
    given["W"] = draw(212, 3, D)
    for w in given["W"]:
        clear(MODEL, w, X[0])
    made = FUNCTIONS["evaluate"](**given)
    assert len(set(made.values())) == 4, made
    unlike(list(made.values()), list(FUNCTIONS["evaluate"](**given | {"attackers": np.array([0])}).values()))
    return "evaluate", given


# --- Settings that cannot be trained ------------------------------------------------------------------------


@error("round")
def krum_in_too_small_a_neighbourhood():
    """Catches a check on the number of all workers: worker 2 has 3 models, and Krum needs 7."""
    return "round", setup(rule="krum", graph=SPARSE), ["krum", "worker"]


@error("round")
def nobody_is_normal():
    """Catches a network of attackers."""
    return "round", setup(attackers=np.arange(7)), ["7"]


@error("round")
def graph_not_connected():
    """Catches training in two parts."""
    return "round", setup(graph=graphs.from_edges(7, [(0, 1), (2, 3)])), ["connected"]


@error("round")
def smoothing_of_zero():
    """Catches an average that never moves."""
    return "round", setup(smoothing=0.0), ["smoothing"]


@error("round")
def unknown_rule():
    """Catches falling back to some rule when the name is misspelt."""
    return "round", setup(rule="kruml"), ["kruml"]
