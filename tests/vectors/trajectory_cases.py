"""The family trajectory: ten rounds of a small MLP under each attack and rule, three of a narrow CNN."""

import numpy as np
from common import draw, family, file, unlike
from functions import round_, trajectory
from model_cases import cnn
from round_cases import ROWS, D, clear_round, row_numbers, setup

from refimpl import aggregate, graphs
from refimpl.attacks import ATTACKS

file(
    "trajectory",
    "Algorithm 1, several passes of the outer loop",
    [
        "W[t] holds all workers' parameters after round t + 1, with batches[t] and signals[t] as its draws.",
        "Every decision on the way (ReLU, max-pooling, filter, Krum, medoid) is clear of rounding.",
    ],
)


def clear_rounds(given):
    """Follows the trajectory round by round and asserts that each decision is clear. Returns W by round."""
    given, path, state = dict(given), [], {}
    batches, signals = given.pop("batches"), given.pop("signals", None)
    for t, batch in enumerate(batches):
        now = given | state | {"batch": batch} | ({} if signals is None else {"signals": signals[t]})
        now |= {"lr": now["lr"][t]} if np.ndim(now["lr"]) else {}
        made = round_(**now)
        clear_round(now, made)
        path.append(made["W"])
        state = {"W": made["W"]} | ({"smoothed": made["smoothed"]} if "smoothed" in made else {})
        if "t" in made:
            state["optimizer_state"] = {key: made[key] for key in "tmv"}
    return np.stack(path)


def sound(given):
    """Asserts clear decisions, and that a change of the last bits at the start stays below the tolerance."""
    W = clear_rounds(given)
    assert np.array_equal(W, trajectory(**given)["W"])
    nudged = given | {"W": given["W"] * (1 + 1e-12 * np.sign(draw(300, *given["W"].shape)))}
    assert (abs(trajectory(**nudged)["W"] - W) <= 1e-10 / 2 + 1e-8 / 2 * abs(W)).all()
    return W


def mlp_setup(**changes):
    given = setup(batches=row_numbers(ROWS, 4, rounds=10, seed=301), **changes)
    del given["batch"]
    return given


MISTAKES = {
    "adaptive": "a filter or a weight that goes wrong only later",
    "inverse-risk": "a filter where there is none",
    "average": "an average over the normal workers only",
    "medoid": "another distance, or the medoid of the normal workers only",
    "trimmed-mean": "trimming other than 2 a side",
    "median": "a lower or upper median: attackers and normal workers are 7 together",
    "krum": "another count of neighbours or power of the distance",
    "local": "messages that leak into a worker that listens to nobody",
}


@family("trajectory")
def ten_rounds_of_an_mlp():
    signals = np.random.default_rng(302).uniform(-0.5, 0.5, (10, 2, D)).round(3)
    for attack in (name for name, entry in ATTACKS.items() if entry.by_default):
        ends = {}
        for rule in aggregate.RULES:
            given = mlp_setup(rule=rule, attack=attack)
            if attack == "arbitrary":
                given["signals"] = signals
            ends[rule] = sound(given)[-1]
            yield f"mlp-{rule}-{attack}", f"Catches {MISTAKES[rule]}, under {attack}.", "trajectory", given
        for rule in set(ends) - {"adaptive"}:
            unlike(ends["adaptive"], ends[rule])


@family("trajectory")
def ten_rounds_otherwise():
    ring = graphs.ring(7)
    variants = {
        "ring": ({"graph": ring}, "Catches neighbours other than k - 1, k, k + 1."),
        "batch-risk": ({"risk": "batch"}, "Catches scoring on the last round's batch."),
        "smoothing": ({"smoothing": 0.2}, "Catches smoothing that starts at 0 or 1, or that smooths weights."),
        "adam": (
            {"optimizer": "adam", "lr": 0.05},
            "Catches an optimiser state that aggregation resets or mixes.",
        ),
        "all-but-one": (
            {"attackers": np.array([0, 1, 2, 4, 5, 6])},
            "Catches trust in a majority: one is normal.",
        ),
    }
    plain = sound(mlp_setup())[-1]
    for name, (changes, comment) in variants.items():
        given = mlp_setup(**changes)
        unlike(plain, sound(given)[-1])
        yield f"mlp-adaptive-sign-flip-{name}", comment, "trajectory", given


@family("trajectory")
def three_rounds_of_a_cnn():
    model, N, rows = cnn(8, (2, 3), 4, 3), 5, 5
    rng = np.random.default_rng(303)
    y = np.array([rng.permutation(np.arange(rows) % 3) for _ in range(N)])
    shapes = rng.normal(size=(3, 8, 8))
    X = (shapes[y] + 0.5 * rng.normal(size=(N, rows, 8, 8))).round(2) + 0.0
    given = {"model": model, "X": X, "y": y, "graph": graphs.complete(N), "attackers": np.array([2])}
    given |= {"attack": "sign-flip", "risk": "local", "smoothing": 1.0, "rule": "adaptive", "optimizer": "sgd"}
    given |= {"lr": 0.2, "W": draw(304, N, model.model.layout.size, scale=0.4)}
    given |= {"batches": row_numbers([rows] * N, 3, rounds=3, seed=305)}
    sound(given)
    yield "cnn-adaptive-sign-flip", "Catches a CNN that only fails once it moves.", "trajectory", given
    given = given | {"optimizer": "adam", "lr": 0.02, "attack": "alie", "rule": "krum"}
    sound(given)
    yield "cnn-krum-alie-adam", "Catches Adam on convolutions, the paper's MNIST setting.", "trajectory", given
