"""The functions that cases name, each as (inputs by name) -> outputs by name: all are the specification's."""

from unittest import mock

import numpy as np
import related_functions
from related_functions import steps_of, unpadded

from refimpl import aggregate, algorithm, attacks, draws, graphs, layers, optim, released, train
from refimpl.arrays import module_of, quiet
from refimpl.attacks import ATTACKS, Attack


class Replay:
    """A random generator that hands out the draws that a case carries."""

    def __init__(self, draws):
        self.draws = iter(draws)

    def random(self, shape):
        return next(self.draws).reshape(shape)

    def uniform(self, low, high, shape):
        return next(self.draws).reshape(shape)

    def permutation(self, of):
        return next(self.draws)


def prepared(model, X, y, graph, attackers, batch, lr, smoothing, **options):
    """The setting of a case, checked. Its rows are padded to one length, with label -1."""
    s = algorithm.Setting(
        model.model,
        *unpadded(X, y),
        graph,
        attackers,
        step_size=steps_of(lr),
        batch_size=batch.shape[-1],
        **options,
    )
    train.check(s)
    released.smooth(np.ones(1), np.ones(1), smoothing)  # refuses a share that is none
    return s


def given(messages):
    """The attack "given": the case carries what attackers send, (F, d), or (N, F, d) to each receiver."""
    if messages is None:
        return mock.patch.dict(ATTACKS)
    if messages.ndim == 2:
        entry = Attack(lambda own: module_of(own).asarray(messages), "given", "-", ("own",))
    else:
        to = lambda own, place: module_of(own).asarray(messages[place])
        entry = Attack(to, "given", "-", ("own", "place"), per_receiver=True)
    return mock.patch.dict(ATTACKS, given=entry)


def one_round(s, state, batch, signals, smoothing, smoothed):
    """The round, and the risks that its rule saw: those of the round, unless the case smooths them."""
    if smoothing < 1:
        return released.round_(s, state, batch, signals, {"smoothed-risk"}, smoothed, smoothing)
    made = algorithm.round_(s, state, batch, signals)
    return made, made.risks


def round_(W, batch, smoothing, signals=None, smoothed=None, optimizer_state=None, messages=None, **case):
    with given(messages):
        s = prepared(batch=batch, smoothing=smoothing, **case)
        state = algorithm.start(s, W)
        if optimizer_state is not None:
            memory = np.stack([optimizer_state["m"], optimizer_state["v"]])
            state = state._replace(memory=memory, t=optimizer_state["t"])
        made, smoothed = one_round(s, state, batch, signals, smoothing, smoothed)
    outputs = {
        "batch_X": np.stack([own[rows] for own, rows in zip(s.X, batch)]),
        "batch_y": np.stack([labels[rows] for labels, rows in zip(s.y, batch)]),
    }
    outputs |= {"gradient": made.gradient, "local": made.local, "sent": made.sent}
    if made.weights is not None:
        outputs |= {"risks": made.risks, "smoothed": smoothed, "weights": made.weights}
    outputs["W"] = made.state.W
    if len(made.state.memory):
        outputs |= {"t": made.state.t, "m": made.state.memory[0], "v": made.state.memory[1]}
    return outputs


def trajectory(W, batches, smoothing, signals=None, **case):
    s = prepared(batch=batches, smoothing=smoothing, **case)
    state, smoothed, path = algorithm.start(s, W), None, []
    for t, batch in enumerate(batches):
        drawn = None if signals is None else signals[t]
        made, smoothed = one_round(s, state, batch, drawn, smoothing, smoothed)
        state = made.state
        path.append(state.W)
    return {"W": np.stack(path)}


def evaluate(model, X_test, y_test, own_test, attackers, W):
    nothing = np.zeros((len(W), 1, *X_test.shape[1:])), np.zeros((len(W), 1), int)
    s = algorithm.Setting(model.model, *nothing, graphs.complete(len(W)), attackers)
    numbers = train.evaluate(s, train.HeldOut(X_test, y_test, own_test), W, s.model)
    return {key: numbers[key] for key in ("worst_own", "mean_own", "worst_whole", "mean_whole")}


def adam(W, gradients, lr, beta1, beta2, eps):
    memory, path = np.zeros((2, *W.shape), W.dtype), []
    for t, G in enumerate(gradients, start=1):
        W, memory = optim.adam(W, G, memory, lr, t, beta1, beta2, eps)
        path.append(W)
    return {"W": np.stack(path), "m": memory[0], "v": memory[1]}


def affine_backward(dy, x, W):
    dx, dW, db = layers.affine_backward(dy, x, W, np.zeros(W.shape[1], W.dtype))
    return {"dx": dx, "dW": dW, "db": db}


def conv2d(x, K):
    return {"y": layers.conv2d(x, K, np.zeros(K.shape[-1], K.dtype))}


def conv2d_backward(dy, x, K):
    dx, dK, _ = layers.conv2d_backward(dy, x, K, np.zeros(K.shape[-1], K.dtype))
    return {"dx": dx, "dK": dK}


def connected(graph):
    graphs.require_connected(graph)
    return {}


def layout(model):
    fields = model.model.layout.fields
    return {
        "names": [field.name for field in fields],
        "offsets": np.array([field.offset for field in fields]),
        "shapes": [np.array(field.shape) for field in fields],
        "fan_in": np.array([field.fan_in for field in fields]),
        "size": model.model.layout.size,
    }


FUNCTIONS = {
    "inverse_risk_weights": lambda risks: {"weights": aggregate.inverse_risk_weights(risks)},
    "adaptive_weights": lambda risks, own: {"weights": aggregate.adaptive_weights(risks, own)},
    "combine": lambda weights, W: {"w": aggregate.combine(weights, W)},
    "average": lambda W: {"w": aggregate.average(W)},
    "coordinate_median": lambda W: {"w": aggregate.coordinate_median(W)},
    "trimmed_mean": lambda W, f: {"w": aggregate.trimmed_mean(W, f)},
    "medoid": lambda W: {"w": aggregate.medoid(W)},
    "krum": lambda W, f: {"w": aggregate.krum(W, f)},
    "rule": lambda rule, W, f: {"w": aggregate.RULES[rule].compute(W, None, 0, f)},
    "sign_flip": lambda W, sigma: {"sent": attacks.sign_flip(W, sigma)},
    "arbitrary": lambda W, signals: {"sent": attacks.arbitrary(W, signals)},
    "fall_of_empires": lambda honest, epsilon: {"sent": attacks.fall_of_empires(honest, epsilon)},
    "a_little_is_enough": lambda honest, z: {"sent": attacks.a_little_is_enough(honest, z)},
    "alie_z": lambda n, f: {"z": attacks.alie_z(n, f)},
    "affine": lambda x, W, b: {"y": layers.affine(x, W, b)},
    "affine_backward": affine_backward,
    "relu": lambda x: {"y": layers.relu(x)},
    "relu_backward": lambda dy, y: {"dx": layers.relu_backward(dy, y)[0]},
    "softmax_cross_entropy": quiet(lambda z, y: {"losses": layers.softmax_cross_entropy(z, y)}),
    "softmax_cross_entropy_backward": quiet(lambda z, y: {"dz": layers.softmax_cross_entropy_backward(z, y)}),
    "conv2d": conv2d,
    "conv2d_backward": conv2d_backward,
    "maxpool2d": lambda x: {"y": layers.maxpool2d(x)},
    "maxpool2d_backward": lambda dy, x: {"dx": layers.maxpool2d_backward(dy, x)[0]},
    "layout": layout,
    "initial": lambda model, uniforms: {
        "W": draws.initial(model.model.layout, len(uniforms), Replay([uniforms]))
    },
    "logits": quiet(lambda model, w, X: {"logits": model.model.logits(w, X)}),
    "risk": quiet(lambda model, w, X, y: {"risk": model.model.risk(w, X, y)}),
    "gradient": lambda model, w, X, y: {"gradient": model.model.gradient(w, X, y)},
    "predict": quiet(lambda model, w, X: {"labels": model.model.predict(w, X)}),
    "sgd": lambda W, G, lr: {"W": optim.sgd(W, G, W[:0], lr, 1)[0]},
    "adam": adam,
    "complete": lambda n: {"graph": graphs.complete(n)},
    "ring": lambda n: {"graph": graphs.ring(n)},
    "from_edges": lambda n, edges: {"graph": graphs.from_edges(n, edges)},
    "erdos_renyi": lambda n, p, uniforms: {"graph": graphs.erdos_renyi(n, p, Replay([uniforms]))},
    "random_regular": lambda n, degree, shuffled: {"graph": graphs.random_regular(n, degree, Replay(shuffled))},
    "require_connected": connected,
    "rounds_per_epoch": lambda sizes, batch_size: {"rounds": draws.rounds_per_epoch(sizes, batch_size)},
    "batches": lambda sizes, batch_size, rounds, orders: {
        "batches": draws.batches(sizes, batch_size, rounds, Replay(orders))
    },
    "evaluate": evaluate,
    "round": round_,
    "trajectory": trajectory,
}

# Rounding alone stays far below these (asserted in `common`). Weights: no atol, so a 0 must be a 0.
_ONE_STEP, _DEEP = {"rtol": 1e-12, "atol": 1e-14}, {"rtol": 1e-10, "atol": 1e-12}
TOLERANCES = dict.fromkeys(FUNCTIONS, _ONE_STEP) | {
    "inverse_risk_weights": {"rtol": 1e-12, "atol": 0.0},
    "adaptive_weights": {"rtol": 1e-12, "atol": 0.0},
    "medoid": "exact",
    "krum": "exact",
    "logits": _DEEP,
    "risk": _DEEP,
    "gradient": _DEEP,
    "round": _DEEP,
    "round.weights": {"rtol": 1e-10, "atol": 0.0},
    "trajectory": {"rtol": 1e-8, "atol": 1e-10},
}
related_functions.register(FUNCTIONS, TOLERANCES)
