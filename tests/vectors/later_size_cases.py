"""Sizes beyond those of the first cases: thirty models, seventy coordinates, many attackers, twenty steps.

A port that is right for ten models of a few coordinates may still have a buffer that is full, a loop that ends
early, or a sort of numbers as strings.
"""

import later_network_cases  # noqa: F401
import later_round_cases  # noqa: F401
import later_rule_cases  # noqa: F401
import numpy as np
from attack_and_graph_cases import DEFAULTS, adam_like
from common import case, draw, family, unlike
from model_cases import gradient_is_right, mlp
from neighbourhood_cases import larger
from round_cases import one_round
from rule_cases import selected

from refimpl import aggregate, attacks, graphs

THIRTY, WIDE = draw(574, 30, 3), draw(460, 7, 70)
FEWER = "Catches models beyond the tenth that are left out: there are thirty."
NARROWER = "Catches coordinates beyond the 64th that are left out: there are seventy."

# --- Weights, rules and attacks -----------------------------------------------------------------------------


@family("weights")
def thirty_risks():
    risks = np.random.default_rng(420).uniform(0.1, 2, 30).round(3)
    for own, name in ((17, "adaptive"), (None, "inverse_risk")):
        given = {"risks": risks} | ({} if own is None else {"own": own})
        compute = getattr(aggregate, f"{name}_weights")
        right = compute(*given.values())
        assert right[10:].sum() > 0.5
        comment = "Catches risks beyond the tenth that are left out: there are thirty."
        yield f"{name.replace('_', '-')}-of-thirty", comment, f"{name}_weights", given


@family("combine")
def large_sums():
    c = np.random.default_rng(421).integers(1, 9, 30) / 128
    unlike(c @ THIRTY, c[:10] @ THIRTY[:10])
    yield "combine-of-thirty", FEWER, "combine", {"weights": c, "W": THIRTY}
    yield "combine-of-seventy-coordinates", NARROWER, "combine", {"weights": c[:7], "W": WIDE}


MANY = {"average": None, "coordinate_median": None, "medoid": None, "trimmed_mean": 13, "krum": 13}


@family("rules")
def rules_of_thirty_models():
    assert len({selected(THIRTY, 15), selected(THIRTY, 22), selected(THIRTY, 29, power=1)}) == 3
    for name, f in MANY.items():
        given = {"W": THIRTY} | ({} if f is None else {"f": f})
        rule = getattr(aggregate, name)
        unlike(rule(*given.values()), rule(THIRTY[:10], *([] if f is None else [3])))
        yield f"{name.replace('_', '-')}-of-thirty", FEWER, name, given


@case("rules")
def krum_with_six_attackers_of_thirty():
    """Catches a number of attackers that is cut off below 6: 22 distances count, not 24 or 25."""
    assert selected(THIRTY, 22) not in (selected(THIRTY, 24), selected(THIRTY, 25))
    return "krum", {"W": THIRTY, "f": 6}


@family("rules")
def rules_of_seventy_coordinates():
    for name in ("medoid", "krum"):
        rule = getattr(aggregate, name)
        given = (WIDE,) if name == "medoid" else (WIDE, 2)
        unlike(rule(*given)[:64], rule(WIDE[:, :64], *given[1:]))
    for name, f in MANY.items():
        given = {"W": WIDE} | ({} if f is None else {"f": 2})
        yield f"{name.replace('_', '-')}-of-seventy-coordinates", NARROWER, name, given


@family("attacks")
def attacks_on_seventy_coordinates():
    own, signals = WIDE[:5], np.random.default_rng(422).uniform(-0.5, 0.5, (5, 70)).round(3)
    yield "sign-flip-of-seventy-coordinates", NARROWER, "sign_flip", {"W": own, "sigma": 1.0}
    yield "arbitrary-of-seventy-coordinates", NARROWER, "arbitrary", {"W": own, "signals": signals}
    yield "foe-of-seventy-coordinates", NARROWER, "fall_of_empires", {"honest": WIDE, "epsilon": 1.0}
    yield "alie-of-seventy-coordinates", NARROWER, "a_little_is_enough", {"honest": WIDE, "z": 0.75}


@family("attacks")
def attacks_on_thirty_models():
    unlike(THIRTY.mean(axis=0), THIRTY[:10].mean(axis=0))
    yield "foe-of-thirty", FEWER, "fall_of_empires", {"honest": THIRTY, "epsilon": 1.0}
    yield "alie-of-thirty", FEWER, "a_little_is_enough", {"honest": THIRTY, "z": 0.75}


@case("attacks")
def alie_of_a_negative_z():
    """Catches |z| and max(z, 0): with few attackers z is negative, and they send more than the mean."""
    honest, z = draw(35, 5, 3), -0.25
    unlike(attacks.a_little_is_enough(honest, z), attacks.a_little_is_enough(honest, -z), honest.mean(axis=0))
    return "a_little_is_enough", {"honest": honest, "z": z}


@family("attacks")
def more_values_of_z():
    sizes = {
        (4, 1): "Catches clamping at 0 where there are attackers: s = 2 of 3, and z is negative.",
        (10, 1): "Catches |z|: s = 5 of 9, and z is negative.",
        (100, 4): "Catches a table of z that ends: s = 47 of 96.",
        (101, 49): "Catches an approximation that is poor in the tail: s = 2 of 52.",
    }
    for (n, f), comment in sizes.items():
        yield f"alie-z-{n}-{f}", comment, "alie_z", {"n": n, "f": f}


assert attacks.alie_z(4, 1) < -0.4
assert attacks.alie_z(10, 1) < -0.1
assert attacks.alie_z(101, 49) > 1.7

# --- Steps and networks -------------------------------------------------------------------------------------


@case("sgd")
def sgd_of_seventy_parameters():
    """Catches parameters beyond the 64th that do not move: there are seventy."""
    return "sgd", {"W": WIDE[:1], "G": draw(423, 1, 70), "lr": 0.3}


@case("adam")
def adam_of_twenty_steps():
    """Catches bias correction that ends, or powers of beta that go wrong, after the first few steps."""
    W, gradients = draw(424, 3), draw(425, 20, 3)
    right = adam_like(W, gradients, 0.1)
    assert not np.allclose(right, adam_like(W, gradients, 0.1, start=7), 1e-3)
    return "adam", {"W": W, "gradients": gradients, "lr": 0.1, **DEFAULTS}


@case("adam")
def adam_of_seventy_parameters():
    """Catches parameters beyond the 64th that do not move: there are seventy."""
    return "adam", {"W": WIDE[0], "gradients": draw(426, 2, 70), "lr": 0.1, **DEFAULTS}


LARGER = mlp(9, 8, 3)


@family("mlp")
def a_network_of_a_hundred_parameters():
    w, X, y = draw(429, LARGER.model.layout.size, scale=0.5), draw(428, 12, 9), np.arange(12) % 3
    right = gradient_is_right(LARGER, w, X, y)
    assert len(right) > 100
    assert np.any(right[64:])
    unlike(right, LARGER.model.gradient(w, X[:10], y[:10]))
    comment = "Catches a fixed number of inputs, units or rows: 107 parameters, 12 rows."
    yield "mlp-gradient-of-a-hundred-parameters", comment, "gradient", {"model": LARGER, "w": w, "X": X, "y": y}
    yield "mlp-risk-of-a-hundred-parameters", comment, "risk", {"model": LARGER, "w": w, "X": X, "y": y}


# --- Rounds -------------------------------------------------------------------------------------------------


@case("round")
def adaptive_of_thirty_workers():
    """Catches workers beyond the tenth that are left out, or sorted as strings: 30, 6 of them attackers, each
    with 12 neighbours."""
    graph = graphs.from_edges(30, [(k, (k + step) % 30) for k in range(30) for step in range(1, 7)])
    attackers = np.array([2, 7, 11, 18, 23, 29])
    given, made = one_round(**larger(30, 430), graph=graph, attackers=attackers, attack="alie")
    assert ((made["weights"][:, 10:] > 0).sum(axis=1) > 1).any()
    return "round", given


@case("round")
def krum_with_four_attackers():
    """Catches a number of attackers that is cut off: F = 4, also where only three are neighbours."""
    graph = graphs.complete(13)
    for k, l in ((0, 3), (1, 5), (2, 8), (4, 11), (6, 9), (7, 10)):
        graph[k, l] = graph[l, k] = False
    attackers, normal = np.array([3, 5, 8, 12]), [0, 1, 2, 4, 6, 7, 9, 10, 11]
    given, made = one_round(**larger(13, 447), rule="krum", graph=graph, attackers=attackers)
    for f in (2, 3):
        unlike(made["W"][normal], np.stack([aggregate.krum(made["sent"][graph[k]], f) for k in normal]))
    return "round", given


@case("round")
def trimmed_mean_with_four_attackers():
    """Catches a number of values a side that is cut off: 4 of 9, so that the median is left."""
    attackers = np.array([0, 3, 5, 8])
    given, made = one_round(
        **larger(9, 436), rule="trimmed-mean", attackers=attackers, graph=graphs.complete(9)
    )
    assert np.allclose(made["W"][1], np.median(made["sent"], axis=0))
    return "round", given


@case("round")
def adaptive_alie_of_one_among_ten():
    """Catches |z| and max(z, 0): with 1 attacker of 10 z is negative, and it sends more than the mean."""
    given, made = one_round(
        **larger(10, 450), attack="alie", attackers=np.array([3]), graph=graphs.complete(10)
    )
    honest, z = np.delete(made["local"], 3, axis=0), attacks.alie_z(10, 1)
    assert z < -0.1
    unlike(made["sent"][3], attacks.a_little_is_enough(honest, -z), honest.mean(axis=0))
    return "round", given
