"""The functions that the family `related` names; `functions` takes them in with `register`."""

import itertools

import numpy as np

from refimpl import algorithm, graphs
from refimpl.attacks import ATTACKS, View
from refimpl.related import attacks, mixing, rules, systems


def steps_of(lr):
    """The step sizes of a case as a `Setting` has them: a number, or those of the workers, (N,) or (T, N)."""
    if not np.ndim(lr):
        return lr
    return lambda k, t: lr[k] if lr.ndim == 1 else lr[t - 1, k]


def unpadded(X, y):
    """The workers' rows without their padding, which has the label -1."""
    return [own[labels >= 0] for own, labels in zip(X, y)], [labels[labels >= 0] for labels in y]


def related_rounds(
    system,
    model,
    X,
    y,
    attackers,
    attack,
    step_size,
    W,
    batches,
    graph=None,
    graphs=None,
    signals=None,
    optimizer="sgd",
    l2=0.0,
    risk="local",
    **options,
):
    """Rounds of a system: the models after each, what was sent in the last one, and what it remembers then.

    All rounds are on one graph, or round t is on graphs[t - 1].
    """
    schedule = None if graphs is None else lambda t: graphs[t - 1]
    first, learning = graph if graphs is None else graphs[0], {"optimizer": optimizer, "l2": l2, "risk": risk}
    s = algorithm.Setting(model.model, *unpadded(X, y), first, attackers, attack=attack, **learning)
    systems.check(system, s, schedule, len(batches))
    step = systems.engine(system, schedule, **options)(s._replace(step_size=steps_of(step_size))).step
    state, path = algorithm.start(s, W), []
    for batch, drawn in zip(batches, itertools.repeat(None) if signals is None else signals):
        result = step(state, batch, drawn)
        state = result.state
        path.append(state.W)
    outputs = {f"sent_{i}": message for i, message in enumerate(result.sent, start=1)}
    outputs |= {"weights": result.weights} if result.weights is not None else {}
    return outputs | {"W": np.stack(path)} | ({"memory": state.memory} if len(state.memory) else {})


def sent_by(name, own, honest):
    """What an attack makes of models alone."""
    return ATTACKS[name].made_from(View(None, None, None, own, honest, None, None))


def sent_to(attack, W, attackers, receiver=0, rule="", graph=None, before=None):
    """What an attack that sees models (N, d), and those before the round, sends a receiver with a rule."""
    N = len(W)
    graph = graphs.complete(N) if graph is None else graph
    nothing = [np.zeros((1, 1))] * N, [np.zeros(1, dtype=int)] * N  # no rule that scores is asked
    s = algorithm.Setting(None, *nothing, graph, attackers, rule, attack)
    state = None if before is None else algorithm.start(s, before)
    batch = np.zeros((N, 1), dtype=int)
    view = View(s, state, batch, W[attackers], W[s.normal], s.normal, None, receiver)
    return {"sent": ATTACKS[attack].made_from(view)}


def poison(attack, X, y, classes):
    X, y = ATTACKS[attack].poison(X, y, classes)
    return {"X": X, "y": y}


def tailored(attack, model, receiver, X, y, own=None, round=1, l2=0.0):
    """What an attack that knows Eq. (6) sends a receiver whose rows are X (n, ...), y (n,).

    Of `boundary-own` they are the attackers' rows, (f, n, ...) and (f, n). `own` (f, d) are the models of the
    attackers; unless it is given there is one, at whose model nobody looks.
    """
    own = receiver[None] if own is None else own
    N, theirs = 1 + len(own), attack == "boundary-own"
    X, y = ([rows[0], *rows] if theirs else [rows] * N for rows in (X, y))
    s = algorithm.Setting(model.model, X, y, graphs.complete(N), np.arange(1, N), attack=attack, l2=l2)
    before = algorithm.start(s, np.stack([receiver, *own]))._replace(t=round - 1)
    view = View(s, before, np.zeros((N, 1), dtype=int), own, receiver[None], s.normal, None, 0)
    return {"sent": ATTACKS[attack].made_from(view)}


FUNCTIONS = {
    "metropolis_weights": lambda graph: {"weights": mixing.metropolis_weights(graph)},
    "push_weights": lambda graph: {"weights": mixing.push_weights(graph)},
    "top_k": lambda x, k: {"kept": mixing.top_k(x, k)},
    "geometric_median": lambda W, steps, tolerance, nu: {"w": rules.geometric_median(W, steps, tolerance, nu)},
    "multi_krum": lambda W, f: {"w": rules.multi_krum(W, f)},
    "bulyan": lambda W, f: {"w": rules.bulyan(W, f)},
    "minimum_diameter_average": lambda W, f: {"w": rules.minimum_diameter_average(W, f)},
    "own_trimmed_mean": lambda W, own, f: {"w": rules.own_trimmed_mean(W, own, f)},
    "iterative_outlier_scissor": lambda W, own, weights, f: {
        "w": rules.iterative_outlier_scissor(W, own, weights, f)
    },
    "clipped_gossip": lambda W, own, weights, tau: {"w": rules.clipped_gossip(W, own, weights, tau)},
    "oracle_radius": lambda W, own, weights, honest: {"tau": rules.oracle_radius(W, own, weights, honest)},
    "adaptive_radius": lambda W, own, weights, f: {"tau": rules.adaptive_radius(W, own, weights, f)},
    "mozi": lambda W, own, risks, count, alpha, empty: {"w": rules.mozi(W, own, risks, count, alpha, empty)},
    "gaussian": lambda honest, signals, scale: {"sent": attacks.gaussian(honest, signals, scale)},
    "zero": lambda W: {"sent": sent_by("zero", W, W)},
    "mimic": lambda honest: {"sent": sent_by("mimic", honest, honest)},
    "min_max": lambda honest: {"sent": attacks.min_max(honest)},
    "min_sum": lambda honest: {"sent": attacks.min_sum(honest)},
    "fang_trimmed_mean": lambda **given: {"sent": attacks.fang_trimmed_mean(**given)},
    "dissensus": lambda **given: {"sent": attacks.dissensus(**given)},
    "spectral": lambda **given: {"sent": attacks.spectral(**given)},
    "sent_to": sent_to,
    "poison": poison,
    "tailored": tailored,
    "related_rounds": related_rounds,
}
_ONE_STEP = {"rtol": 1e-12, "atol": 1e-14}
TOLERANCES = dict.fromkeys(FUNCTIONS, _ONE_STEP) | {
    "geometric_median": {"rtol": 1e-9, "atol": 1e-11},
    "spectral": {"rtol": 1e-9, "atol": 1e-11},
    "tailored": {"rtol": 1e-10, "atol": 1e-12},
    "related_rounds": {"rtol": 1e-9, "atol": 1e-11},
}


def register(functions, tolerances):
    """Adds them to the tables of `functions`."""
    functions.update(FUNCTIONS)
    tolerances.update(TOLERANCES)
