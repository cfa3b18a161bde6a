"""The functions that cases name, each as (inputs by name) -> outputs by name, all of them refimpl's."""

import numpy as np

from refimpl import aggregate, attacks, draws, graphs, layers, optim, train


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


def setting(model, X, y, graph, attackers, batch, **options):
    """train.Setting of a case; there is no test data."""
    nothing = np.zeros((0, *X.shape[2:])), np.zeros(0, int), np.zeros((len(graph), 0), bool)
    data = train.Data(X, y, *nothing)
    if options["attack"] == "given":
        messages = options.pop("messages")
        options["attack"] = lambda own, honest, signals: messages
    return train.Setting(model.model, data, graph, attackers, batch_size=batch.shape[-1], **options)


def round_(W, batch, signals=None, smoothed=None, optimizer_state=None, **given):
    s = setting(batch=batch, **given)
    train.check(s)
    groups = train.groups(s)
    if smoothed is not None:
        smoothed = [smoothed[g.receivers[..., None], g.members[:, None, :]] for g in groups]
    if optimizer_state is not None:
        optimizer_state = tuple(optimizer_state[key] for key in "tmv")
    result = train.round_(s, groups, train.State(W, optimizer_state, smoothed), batch, signals)
    rows = np.arange(len(W))[:, None]
    outputs = {"batch_X": s.data.X[rows, batch], "batch_y": s.data.y[rows, batch]}
    outputs |= {"gradient": result.gradient, "local": result.local, "sent": result.sent}
    if result.risks:
        outputs["risks"] = matrix(groups, result.risks, len(W), np.nan)
        outputs["smoothed"] = matrix(groups, result.state.smoothed, len(W), np.nan)
        outputs["weights"] = matrix(groups, result.weights, len(W), 0.0)
    outputs["W"] = result.state.W
    if result.state.optimizer is not None:
        outputs["t"], outputs["m"], outputs["v"] = result.state.optimizer
    return outputs


def matrix(groups, parts, N, elsewhere):
    """The groups' numbers as one (N, N) matrix, row k the receiver."""
    M = np.full((N, N), elsewhere, parts[0].dtype)
    for g, part in zip(groups, parts):
        M[g.receivers[..., None], g.members[:, None, :]] = part
    return M


def trajectory(W, batches, signals=None, **given):
    s = setting(batch=batches, **given)
    train.check(s)
    groups, state, path = train.groups(s), train.State(W), []
    for t, batch in enumerate(batches):
        state = train.round_(s, groups, state, batch, None if signals is None else signals[t]).state
        path.append(state.W)
    return {"W": np.stack(path)}


def evaluate(model, X_test, y_test, own_test, attackers, W):
    nothing = np.zeros((len(W), 1, *X_test.shape[1:])), np.zeros((len(W), 1), int)
    data = train.Data(*nothing, X_test, y_test, own_test)
    numbers = train.evaluate(train.Setting(model.model, data, graphs.complete(len(W)), attackers), W)
    return {key: numbers[key] for key in ("worst_own", "mean_own", "worst_whole", "mean_whole")}


def adam(W, gradients, lr, beta1, beta2, eps):
    state, path = None, []
    for G in gradients:
        W, state = optim.adam(W, G, state, lr, beta1, beta2, eps)
        path.append(W)
    return {"W": np.stack(path), "m": state[1], "v": state[2]}


def affine_backward(dy, x, W):
    dW, db = layers.affine_backward_parameters(dy, x)
    return {"dx": layers.affine_backward_input(dy, W), "dW": dW, "db": db}


def conv2d_backward(dy, x, K):
    dx = layers.conv2d_backward_input(dy, K, x.shape[-3:-1])
    return {"dx": dx, "dK": layers.conv2d_backward_kernel(dy, x)}


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
    "rule": lambda rule, W, f: {"w": aggregate.RULES[rule](W, f)},
    "sign_flip": lambda W, sigma: {"sent": attacks.sign_flip(W, sigma)},
    "arbitrary": lambda W, signals: {"sent": attacks.arbitrary(W, signals)},
    "fall_of_empires": lambda honest, epsilon: {"sent": attacks.fall_of_empires(honest, epsilon)},
    "a_little_is_enough": lambda honest, z: {"sent": attacks.a_little_is_enough(honest, z)},
    "alie_z": lambda n, f: {"z": attacks.alie_z(n, f)},
    "affine": lambda x, W, b: {"y": layers.affine(x, W, b)},
    "affine_backward": affine_backward,
    "relu": lambda x: {"y": layers.relu(x)},
    "relu_backward": lambda dy, y: {"dx": layers.relu_backward(dy, y)},
    "softmax_cross_entropy": lambda z, y: {"losses": layers.softmax_cross_entropy(z, y)},
    "softmax_cross_entropy_backward": lambda z, y: {"dz": layers.softmax_cross_entropy_backward(z, y)},
    "conv2d": lambda x, K: {"y": layers.conv2d(x, K)},
    "conv2d_backward": conv2d_backward,
    "maxpool2d": lambda x: {"y": layers.maxpool2d(x)},
    "maxpool2d_backward": lambda dy, x: {"dx": layers.maxpool2d_backward(dy, x, layers.maxpool2d(x))},
    "layout": layout,
    "initial": lambda model, uniforms: {
        "W": draws.initial(model.model.layout, len(uniforms), Replay([uniforms]))
    },
    "logits": lambda model, w, X: {"logits": model.model.logits(w, X)},
    "risk": lambda model, w, X, y: {"risk": model.model.risk(w, X, y)},
    "gradient": lambda model, w, X, y: {"gradient": model.model.gradient(w, X, y)},
    "predict": lambda model, w, X: {"labels": model.model.predict(w, X)},
    "sgd": lambda W, G, lr: {"W": optim.sgd(W, G, None, lr)[0]},
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
