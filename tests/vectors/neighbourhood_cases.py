"""More of the family round: what depends on who hears whom, and names that nobody knows."""

import numpy as np
from common import case, draw, error, unlike
from round_cases import MODEL, SPARSE, D, local_data, one_round, row_numbers, setup

from refimpl import aggregate, graphs
from refimpl.attacks import a_little_is_enough, alie_z

nan, inf = np.nan, np.inf
NOBODY = np.array([], dtype=int)
BAND = graphs.from_edges(9, [(k, (k + step) % 9) for k in range(9) for step in (1, 2, 3)])  # 7 in each N_k


def larger(N, seed, **changes):
    """Inputs of N workers, in place of the seven of `setup`."""
    rows = [4 + k % 3 for k in range(N)]
    X, y = local_data(rows, seed=seed)
    return {
        "X": X,
        "y": y,
        "W": draw(seed + 1, N, D),
        "batch": row_numbers(rows, 4, seed=seed + 2)[0],
    } | changes


def with_fewer_attackers(given):
    """The normal workers of whose neighbourhood not all attackers are members, and how many are."""
    among = given["graph"][:, given["attackers"]].sum(axis=1)
    fewer = [k for k in range(len(among)) if k not in given["attackers"] and among[k] < len(given["attackers"])]
    return {k: int(among[k]) for k in fewer}


@case("round")
def krum_sparse_counts_all_attackers():
    """Catches f for the neighbourhood: it is F = 2 also where only one attacker is a neighbour."""
    given, made = one_round(**larger(9, 220), rule="krum", graph=BAND)
    fewer = with_fewer_attackers(given)
    assert fewer
    wrong = {k: aggregate.krum(made["sent"][BAND[k]], f) for k, f in fewer.items()}
    assert any(not np.allclose(made["W"][k], w, 1e-3) for k, w in wrong.items())
    return "round", given


@case("round")
def trimmed_mean_sparse_counts_all_attackers():
    """Catches f for the neighbourhood: F = 2 a side are trimmed also where only one attacker is a neighbour."""
    given, made = one_round(**larger(9, 230), rule="trimmed-mean", graph=BAND)
    fewer = with_fewer_attackers(given)
    assert fewer
    for k, f in fewer.items():
        unlike(made["W"][k], aggregate.trimmed_mean(made["sent"][BAND[k]], f))
    return "round", given


@case("round")
def adaptive_alie_sparse():
    """Catches z, or the statistics, for a neighbourhood: both are those of the whole network."""
    given, made = one_round(attack="alie", graph=SPARSE)
    local, attackers = made["local"], given["attackers"]
    normal = np.setdiff1d(np.arange(7), attackers)
    for N_k in map(np.flatnonzero, SPARSE):
        near = np.intersect1d(N_k, normal)
        z = alie_z(len(N_k), len(N_k) - len(near))
        wrong = a_little_is_enough(local[normal], z), a_little_is_enough(local[near], alie_z(7, 2))
        unlike(made["sent"][1], *wrong, a_little_is_enough(local[near], z))
    return "round", given


@case("round")
def trimmed_mean_without_attackers():
    """Catches trimming nothing when F = 0, and floor(N / 10): a tenth of each neighbourhood goes."""
    graph = graphs.complete(10)
    graph[9, 5:9] = graph[5:9, 9] = False  # 10 in N_0 ... N_4, 9 in N_5 ... N_8, 6 in N_9
    given, made = one_round(**larger(10, 240), rule="trimmed-mean", graph=graph, attackers=NOBODY)
    for k in range(10):
        mean = made["sent"][graph[k]].mean(axis=0)
        if k < 5:
            unlike(made["W"][k], mean)
        else:
            assert np.allclose(made["W"][k], mean)
            if k < 9:
                unlike(made["W"][k], aggregate.trimmed_mean(made["sent"][graph[k]], 1))
    return "round", given


@case("round")
def adaptive_without_attackers():
    """Catches trouble with an empty list of attackers: everybody is normal."""
    given, made = one_round(attackers=NOBODY, graph=SPARSE)
    assert np.array_equal(made["sent"], made["local"])
    assert (made["weights"].sum(axis=1) > 0.5).all()
    return "round", given


@case("round")
def inverse_risk_of_nothing_finite_keeps_own():
    """Catches weights of 0 and so a model of 0: with no finite risk the receiver, worker 6, keeps its own."""
    W = draw(202, 7, D)
    MODEL.model.layout.views(W[6])["b1"][0] = -inf  # a dead unit: the gradient is finite, the model is not
    given, made = one_round(
        rule="inverse-risk",
        graph=SPARSE,
        attackers=np.array([1, 5]),
        attack="given",
        messages=np.full((2, D), nan),
        W=W,
    )
    assert np.isfinite(made["gradient"]).all()
    assert np.isinf(made["risks"][6, [5, 6]]).all()
    assert made["weights"][6].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert np.isnan(made["W"][6]).all()
    assert np.isfinite(np.delete(made["W"], 6, axis=0)).all()
    return "round", given


@case("round")
def krum_in_an_attackers_small_neighbourhood():
    """Catches refusing where only an attacker hears too few: attacker 1 hears 0 alone, and needs no rule."""
    graph = graphs.complete(9)
    graph[1, 2:] = graph[2:, 1] = False
    given, made = one_round(**larger(9, 250), rule="krum", graph=graph)
    assert [k for k in range(9) if graph[k].sum() < 2 * 2 + 3] == [1]
    assert np.array_equal(made["W"][1], made["local"][1])
    return "round", given


@case("round")
def adaptive_alie_corrupted():
    """Catches knowledge of the honest models, and ddof 1: the attackers know only each other's models."""
    given, made = one_round(attack="alie-corrupted", attackers=np.array([1, 4, 5]))
    local, z = made["local"], alie_z(7, 3)
    own, normal = local[given["attackers"]], np.delete(local, given["attackers"], axis=0)
    mean, wider = own.mean(axis=0), own.std(axis=0, ddof=1)
    wrong = a_little_is_enough(normal, z), a_little_is_enough(local, z), mean, mean - z * wider
    unlike(made["sent"][1], *wrong, a_little_is_enough(own, -z))
    assert np.array_equal(made["sent"][1], made["sent"][5])
    return "round", given


@error("round")
def unknown_attack():
    """Catches attackers that behave when the name of the attack is misspelt."""
    return "round", setup(attack="sign-flop"), ["sign-flop"]


@error("round")
def unknown_risk():
    """Catches taking any other word for "local" or for "batch"."""
    return "round", setup(risk="batches"), ["batches"]


@error("round")
def unknown_optimizer():
    """Catches falling back to some optimiser when the name is misspelt."""
    return "round", setup(optimizer="adamw"), ["adamw"]


@error("round")
def smoothing_above_one():
    """Catches an average that overshoots, with a negative share of the previous one."""
    return "round", setup(smoothing=1.5), ["smoothing", "1.5"]
