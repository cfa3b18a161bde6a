"""More of round and trajectory: mistakes of later ports that the first cases let pass."""

import numpy as np
from common import case, draw, error, family, unlike
from functions import FUNCTIONS, round_, trajectory
from model_cases import cnn, mlp
from neighbourhood_cases import NOBODY, larger
from round_cases import MODEL, SPARSE, D, one_round, previous_risks, row_numbers, setup
from trajectory_cases import mlp_setup, sound

from refimpl import aggregate, graphs

nan, inf = np.nan, np.inf

# --- Draws --------------------------------------------------------------------------------------------------


def orders(seed, *sizes):
    rng = np.random.default_rng(seed)
    return [rng.permutation(n) for n in sizes]


@case("round")
def batches_span_two_orders():
    """Catches dropping the rest of an order: worker 0 has 5 rows, and its second batch of 3 takes two of the
    first order and one of the next."""
    given = {"sizes": [5, 4], "batch_size": 3, "rounds": 3, "orders": orders(260, 5, 5, 4, 4, 4)}
    first, second = given["orders"][:2]
    made = FUNCTIONS["batches"](**given)["batches"]
    assert made[1, 0].tolist() == [*first[3:], second[0]]
    unlike(made[1, 0], second[:3])
    return "batches", given


@case("round")
def batches_of_more_rows_than_there_are():
    """Catches batches as short as the data, and rows drawn without repetition: one batch spans three orders."""
    given = {"sizes": [2, 7], "batch_size": 5, "rounds": 1, "orders": orders(261, 2, 2, 2, 7)}
    assert FUNCTIONS["batches"](**given)["batches"].shape == (1, 2, 5)
    return "batches", given


@family("round")
def rounds_of_an_epoch():
    sizes = {
        "without-a-rest": ([10, 20], 5, 3, "Catches floor + 1: 30 / (2 * 5) is 3 exactly."),
        "is-no-mean-of-rounds": (
            [1, 1, 1, 9],
            4,
            1,
            "Catches the mean of the workers' own ceils, (1 + 1 + 1 + 3) / 4 rounded up: 12 of 16 rows are 1.",
        ),
        "rounds-once": ([3, 3, 4], 3, 2, "Catches rounding the mean size down first: 10 / (3 * 3) is above 1."),
        "of-few-rows": ([2, 1], 20, 1, "Catches 0 rounds for workers that have less than a batch."),
    }
    for name, (rows, batch_size, right, comment) in sizes.items():
        given = {"sizes": rows, "batch_size": batch_size}
        assert FUNCTIONS["rounds_per_epoch"](**given)["rounds"] == right
        yield f"rounds-per-epoch-{name}", comment, "rounds_per_epoch", given


# --- Neighbourhoods as small as they may be -----------------------------------------------------------------


@case("round")
def trimmed_mean_of_2f_and_one_models():
    """Catches refusing n = 2F + 1, the fewest that are allowed: five workers, two of them attackers."""
    given, made = one_round(**larger(5, 262), rule="trimmed-mean", graph=graphs.complete(5))
    assert np.allclose(made["W"][0], np.median(made["sent"], axis=0))
    return "round", given


@case("round")
def trimmed_mean_in_an_attackers_small_neighbourhood():
    """Catches refusing where only an attacker hears too few: attacker 1 hears 0 alone, and needs no rule."""
    graph = graphs.complete(7)
    graph[1, 2:] = graph[2:, 1] = False
    given, _ = one_round(rule="trimmed-mean", graph=graph)
    assert [k for k in range(7) if graph[k].sum() < 2 * 2 + 1] == [1]
    return "round", given


@error("round")
def trimmed_mean_in_too_small_a_neighbourhood():
    """Catches a check on the number of all workers: worker 2 has 3 models, and trimming 2 a side needs 5."""
    return "round", setup(rule="trimmed-mean", graph=SPARSE), ["trimmed_mean", "worker"]


# --- A message for each receiver ----------------------------------------------------------------------------


def near_the_receiver(seed, by):
    """What attackers 1 and 4 send each of seven receivers: its model before the round, moved a little."""
    return draw(202, 7, D)[:, None] + by * draw(seed, 7, 2, D)


@case("round")
def adaptive_a_message_for_each_receiver():
    """Catches one message for all, and sent[l][k] in place of sent[k][l]: each of the two attackers sends every
    receiver a model near its own, of which some pass, and which no other receiver hears."""
    given, made = one_round(attack="given", messages=near_the_receiver(263, 0.2))
    weights = made["weights"][[0, 2, 3, 5, 6]][:, [1, 4]]
    assert (weights > 0).any()
    assert (weights == 0).any()
    np.testing.assert_array_equal(made["sent"][1], made["local"])  # attackers lie to no one but normal workers
    return "round", given


@case("round")
def median_a_message_for_each_receiver():
    """Catches a rule other than Eq. (6) that hears what another receiver was sent, on a sparse graph."""
    given, made = one_round(rule="median", graph=SPARSE, attack="given", messages=near_the_receiver(264, 1.0))
    swapped = given | {"messages": given["messages"][::-1]}
    unlike(made["W"], round_(**swapped)["W"])
    return "round", given


# --- Numbers that are not finite ----------------------------------------------------------------------------


@case("round")
def adaptive_a_lost_receiver_takes_its_neighbours():
    """Catches a receiver that trusts or keeps its own model when it is not finite: worker 2 has a dead unit and
    a finite loss, but an infinite risk, and takes what its neighbours 0 and 3 sent, weighed by Eq. (5)."""
    W = draw(202, 7, D)
    MODEL.model.layout.views(W[2])["b1"][0] = -inf
    given, made = one_round(graph=SPARSE, W=W)
    assert np.isfinite(MODEL.model.risk(made["sent"][2], given["X"][2], given["y"][2]))
    assert (made["weights"][2] > 0).tolist() == [k in (0, 3) for k in range(7)]
    assert np.isfinite(made["W"]).all()
    return "round", given


def overflowing(slope):
    """Finite parameters with a hidden unit of 1e10 wherever x is, and this slope of the first logit."""
    w = np.zeros(D)
    tensors = MODEL.model.layout.views(w)
    tensors["b1"][0], tensors["W2"][0, 0] = 1e10, slope
    return w


@case("round", precise=False)
def adaptive_messages_whose_loss_overflows():
    """Catches trust in a finite model whose loss is not: a logit of Infinity makes the risk NaN, and a right
    label's of -Infinity makes it Infinity. Neither model has a weight."""
    given, made = one_round(attack="given", messages=np.stack([overflowing(1e300), overflowing(-1e300)]))
    normal = [0, 2, 3, 5, 6]
    assert np.isnan(made["risks"][normal, 1]).all()
    assert np.isposinf(made["risks"][normal, 4]).all()
    assert not made["weights"][:, [1, 4]].any()
    return "round", given


@case("round", precise=False)
def inverse_risk_messages_whose_loss_overflows():
    """Catches NaN that spreads through the sum of Eq. (5), and a risk of 0 for one that is NaN."""
    given, made = one_round(
        rule="inverse-risk",
        attack="given",
        messages=np.stack([overflowing(1e300), overflowing(-1e300)]),
    )
    assert np.isfinite(made["W"]).all()
    return "round", given


@case("round")
def adaptive_smoothing_is_lost_and_starts_again():
    """Catches an average that stays lost, or restarts for the receiver or after one of NaN and Infinity only: 0
    had lost 2 and 3. And one that forgets a risk of Infinity: 4, of whom all had a finite average, is lost."""
    previous = previous_risks()
    previous[0, 0] = 0.5
    previous[0, 2], previous[0, 3] = inf, nan
    hostile = draw(263, 2, D, scale=0.3)
    hostile[1, 0] = nan
    given, made = one_round(smoothing=0.25, smoothed=previous, attack="given", messages=hostile)
    smoothed, risks = made["smoothed"], made["risks"]
    assert np.array_equal(smoothed[0, [2, 3]], risks[0, [2, 3]])
    assert np.isfinite(previous[[0, 2, 3, 5, 6], 4]).all()
    assert np.isposinf(smoothed[[0, 2, 3, 5, 6], 4]).all()
    unlike(smoothed[0], 0.75 * previous[0] + 0.25 * risks[0])
    return "round", given


# --- Another network ----------------------------------------------------------------------------------------


@case("round")
def adaptive_of_a_cnn():
    """Catches a CNN that is wrong only inside of a round: images picked by row number, padded ones in the risk
    but not in it, a gradient of convolutions. Every intermediate is here."""
    model, rows, rng = cnn(4, (2, 2), 3, 2), [3, 4, 3, 4], np.random.default_rng(264)
    y = np.full((4, 4), -1)
    for k, n in enumerate(rows):
        y[k, :n] = rng.permutation(np.arange(n) % 2)
    X = (rng.normal(size=(2, 4, 4))[y] + 0.5 * rng.normal(size=(4, 4, 4, 4))).round(2) + 0.0
    W = draw(265, 4, model.model.layout.size, scale=0.5)
    given, made = one_round(
        model=model,
        X=X,
        y=y,
        graph=graphs.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
        attackers=np.array([1]),
        W=W,
        batch=row_numbers(rows, 2, seed=266)[0],
    )
    assert ((made["weights"] > 0).sum(axis=1) > 1).any()
    counted = round_(**given | {"y": np.maximum(y, 0)})
    unlike(made["risks"], counted["risks"])
    return "round", given


@family("trajectory")
def five_rounds_of_a_deeper_mlp():
    model, N, rows = mlp(3, 5, 4, 3), 6, 6
    rng = np.random.default_rng(306)
    y = np.array([rng.permutation(np.arange(rows) % 3) for _ in range(N)])
    X = (2 * np.eye(3)[y] + 0.7 * rng.normal(size=(N, rows, 3))).round(2) + 0.0
    given = setup(model=model, X=X, y=y, graph=graphs.ring(N), attackers=np.array([3]), attack="alie", lr=0.17)
    given |= {"W": draw(311, N, model.model.layout.size, scale=0.6)}
    given |= {"batches": row_numbers([rows] * N, 4, rounds=5, seed=308)}
    del given["batch"]
    unlike(sound(given)[-1], trajectory(**given | {"lr": 0.3})["W"][-1])
    comment = "Catches a network, a number of classes or a learning rate that is always the same."
    yield "deeper-mlp-adaptive-alie", comment, "trajectory", given


# --- Refusals do not wait -----------------------------------------------------------------------------------


@error("round")
def smoothing_below_zero():
    """Catches a check of 0 alone."""
    return "round", setup(smoothing=-0.5), ["smoothing", "-0.5"]


@error("round")
def unknown_risk_under_average():
    """Catches a check that waits until a risk is needed: the rule needs none."""
    return "round", setup(rule="average", risk="batches"), ["batches"]


@error("round")
def unknown_attack_without_attackers():
    """Catches a check that waits until somebody attacks: nobody does."""
    return "round", setup(attack="sign-flop", attackers=NOBODY), ["sign-flop"]


@error("round")
def smoothing_above_one_under_median():
    """Catches a check that waits until risks are averaged: the rule looks at none."""
    return "round", setup(rule="median", smoothing=1.5), ["smoothing", "1.5"]


@error("round")
def graph_not_connected_under_local():
    """Catches a check that waits until somebody listens: nobody does."""
    return "round", setup(rule="local", graph=graphs.from_edges(7, [(0, 1), (2, 3)])), ["connected"]


# --- The score ----------------------------------------------------------------------------------------------


@case("round")
def score_worst_own_and_worst_whole_of_two_workers():
    """Catches one worst worker for both: 0 is the worst on its own rows, 1 on all of them. And an empty list of
    attackers."""
    own = np.array([[0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=bool)
    given = {"model": mlp(1, 2), "X_test": np.array([[-2.0], [-1.0], [1.0], [2.0]])}
    given |= {"y_test": np.array([0, 0, 1, 1]), "own_test": own, "attackers": NOBODY}
    given["W"] = np.array([[0.0, 1.0, 0.0, -1.5], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    alone = [FUNCTIONS["evaluate"](**given | {"attackers": np.delete(np.arange(3), k)}) for k in range(3)]
    assert [one["worst_own"] for one in alone] == [0, 1, 1]
    assert [one["worst_whole"] for one in alone] == [0.75, 0.5, 1]
    return "evaluate", given


# --- Regularised, and with steps of one's own ---------------------------------------------------------------


def with_l2(made, given, factor):
    """The weights if the risks had factor * l2 |w|^2 / 2 in place of l2 |w|^2 / 2."""
    extra = (factor - 1) * given["l2"] / 2 * (made["sent"] ** 2).sum(axis=1)
    normal = np.setdiff1d(np.arange(7), given["attackers"])
    return np.stack([aggregate.adaptive_weights(made["risks"][k] + extra, k) for k in normal])


@case("round")
def adaptive_l2_is_in_the_gradient_and_in_the_risk():
    """Catches l2 in one of the two alone, l2 |w|^2 without the half, and biases left out of it."""
    given, made = one_round(l2=0.25)
    W, plain = given["W"], round_(**given | {"l2": 0.0})["gradient"]
    biases = np.concatenate([np.full(f.size, f.name[0] == "b") for f in MODEL.model.layout.fields])
    assert np.allclose(made["gradient"], plain + 0.25 * W)
    unlike(made["gradient"], plain, plain + 0.5 * W, plain + 0.25 * np.where(biases, 0, W))
    normal = np.setdiff1d(np.arange(7), given["attackers"])
    unlike(made["weights"][normal], with_l2(made, given, 0), with_l2(made, given, 2))
    return "round", given


@case("round")
def average_l2_goes_through_adam():
    """Catches weight decay beside Adam (AdamW): l2 w is in the gradient whose moments are taken."""
    given, made = one_round(rule="average", optimizer="adam", lr=0.05, l2=0.25)
    plain = round_(**given | {"l2": 0.0})
    unlike(made["local"], plain["local"] - 0.05 * 0.25 * given["W"], plain["local"])
    return "round", given


EACH_ITS_OWN = np.array([0.1, 0.5, 0.3, 0.05, 0.4, 0.2, 0.6])


@case("round")
def adaptive_each_worker_has_its_own_step_size():
    """Catches one step size for all: lr is (N,), mu_k^t of worker k in this round."""
    given, made = one_round(lr=EACH_ITS_OWN)
    for other in (EACH_ITS_OWN[0], EACH_ITS_OWN.mean(), EACH_ITS_OWN[::-1].copy()):
        unlike(made["local"], round_(**given | {"lr": other})["local"])
    return "round", given


@family("trajectory")
def five_rounds_with_l2_or_steps_that_shrink():
    t = np.arange(1, 6)[:, None]
    steps = (2 * EACH_ITS_OWN / np.sqrt(t)).round(3)
    variants = {
        "l2": ({"l2": 0.1}, {"l2": 0.0}, "Catches l2 that is in the first round alone."),
        "steps-that-shrink": (
            {"lr": steps},
            {"lr": np.stack([steps[0]] * 5)},
            "Catches the step sizes of one round for all: lr is (T, N), mu_k^t in row t - 1.",
        ),
        "steps-that-shrink-adam": (
            {"lr": steps / 8, "optimizer": "adam"},
            {"lr": np.stack([steps[-1] / 8] * 5)},
            "Catches the step sizes of the last round for all, and one for all workers, under Adam.",
        ),
    }
    for name, (changes, wrong, comment) in variants.items():
        given = mlp_setup(**changes)
        given["batches"] = given["batches"][:5]
        unlike(sound(given)[-1], trajectory(**given | wrong)["W"][-1])
        yield f"mlp-adaptive-sign-flip-{name}", comment, "trajectory", given


@error("round")
def smoothing_of_nan():
    """Catches a check by < and >, which NaN passes."""
    return "round", setup(smoothing=nan), ["smoothing"]
