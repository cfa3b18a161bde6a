"""The algorithm again, as scalar loops written from the papers. Imports nothing from refimpl.

Models are lists of floats. Where a comparison decides (Krum, medoid, median), exact fractions are used.
"""

import math
from fractions import Fraction
from statistics import NormalDist

# --- Sec. 3 of the paper: weights and aggregation -----------------------------------------------------------


def inverse_risk_weights(risks):
    """Eq. (5), in exact fractions."""
    finite = [math.isfinite(r) for r in risks]
    zeros = [ok and r == 0 for r, ok in zip(risks, finite)]
    if any(zeros):
        return [1 / sum(zeros) if z else 0.0 for z in zeros]
    inverse = [1 / Fraction(r) if ok else Fraction(0) for r, ok in zip(risks, finite)]
    total = sum(inverse)
    return [float(i / total) if total else 0.0 for i in inverse]


def adaptive_weights(risks, own):
    """Eq. (6): N_k^+ holds the neighbours with r_k(w_l) <= r_k(w_k)."""
    if math.isfinite(risks[own]):
        chosen = [l for l, r in enumerate(risks) if r <= risks[own]]
    else:
        chosen = [l for l, r in enumerate(risks) if math.isfinite(r)] or [own]
    weights = [0.0] * len(risks)
    inner = inverse_risk_weights([risks[l] for l in chosen]) if math.isfinite(risks[chosen[0]]) else [1.0]
    for l, c in zip(chosen, inner):
        weights[l] = c
    return weights


def combine(weights, models):
    """Eq. (3)."""
    total = [0.0] * len(models[0])
    for c, w in zip(weights, models):
        if c > 0:
            total = [t + c * x for t, x in zip(total, w)]
    return total


# --- Baselines ----------------------------------------------------------------------------------------------


def average(models):
    return [float(sum(map(Fraction, column)) / len(column)) for column in zip(*models)]


def _ascending(column):
    return sorted(math.inf if math.isnan(x) else x for x in column)


def coordinate_median(models):
    """Fang et al. 2022, BRIDGE-M."""
    result = []
    for column in zip(*models):
        s, n = _ascending(column), len(column)
        result.append(s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2)
    return result


def trimmed_mean(models, f):
    """Fang et al. 2022, BRIDGE-T."""
    kept = [_ascending(column)[f : len(column) - f] for column in zip(*models)]
    return [sum(k) / len(k) for k in kept]


def _squared_distance(a, b):
    """Exact; None if one of the models is not finite."""
    if not all(map(math.isfinite, [*a, *b])):
        return None
    return sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b))


def krum_scores(models, f):
    """Blanchard et al. 2017, Sec. 4: (how many infinite, sum of the finite) of the n - f - 2 smallest."""
    n = len(models)
    scores = []
    for i in range(n):
        to_others = [_squared_distance(models[i], models[j]) for j in range(n) if j != i]
        finite = sorted(d for d in to_others if d is not None)[: n - f - 2]
        scores.append((n - f - 2 - len(finite), sum(finite)))
    return scores


def krum(models, f):
    scores = krum_scores(models, f)
    return models[scores.index(min(scores))]


def medoid_scores(models):
    scores = []
    for a in models:
        distances = [_squared_distance(a, b) for b in models if b is not a]
        scores.append((distances.count(None), math.fsum(math.sqrt(d) for d in distances if d is not None)))
    return scores


def medoid(models):
    scores = medoid_scores(models)
    return models[scores.index(min(scores))]


BASELINES = {
    "average": lambda models, f: average(models),
    "medoid": lambda models, f: medoid(models),
    "median": lambda models, f: coordinate_median(models),
    "trimmed-mean": lambda models, f: trimmed_mean(models, f or len(models) // 10),
    "krum": krum,
}

# --- Attacks ------------------------------------------------------------------------------------------------


def fall_of_empires(honest, epsilon):
    """Xie et al. 2020, Sec. 3."""
    return [-epsilon * x for x in average(honest)]


def a_little_is_enough(honest, z):
    """Baruch et al. 2019, Algorithm 3."""
    result = []
    for column, mean in zip(zip(*honest), average(honest)):
        variance = sum((Fraction(x) - Fraction(mean)) ** 2 for x in column) / len(column)
        result.append(mean - z * math.sqrt(variance))
    return result


def alie_z(n, m):
    """Baruch et al. 2019, Sec. 3.1."""
    s = math.floor(n / 2 + 1) - m
    return NormalDist().inv_cdf((n - m - s) / (n - m))


# --- Algorithm 1 with a two-layer network -------------------------------------------------------------------


def unflatten(w, sizes):
    """W1 (p, h) row by row, b1, W2 (h, c), b2."""
    p, h, c = sizes
    it = iter(w)
    W1 = [[next(it) for _ in range(h)] for _ in range(p)]
    b1 = [next(it) for _ in range(h)]
    W2 = [[next(it) for _ in range(c)] for _ in range(h)]
    return W1, b1, W2, [next(it) for _ in range(c)]


def forward(w, x, sizes):
    p, h, c = sizes
    W1, b1, W2, b2 = unflatten(w, sizes)
    hidden = [max(0.0, b1[j] + sum(x[i] * W1[i][j] for i in range(p))) for j in range(h)]
    return hidden, [b2[j] + sum(hidden[i] * W2[i][j] for i in range(h)) for j in range(c)]


def row_loss(w, x, label, sizes):
    _, z = forward(w, x, sizes)
    top = max(z)
    return math.log(sum(math.exp(v - top) for v in z)) + top - z[label]


def risk(w, X, y, sizes):
    return sum(row_loss(w, x, label, sizes) for x, label in zip(X, y)) / len(X)


def gradient(w, X, y, sizes):
    p, h, c = sizes
    _, _, W2, _ = unflatten(w, sizes)
    total = [0.0] * len(w)
    for x, label in zip(X, y):
        hidden, z = forward(w, x, sizes)
        top = max(z)
        e = [math.exp(v - top) for v in z]
        dz = [e[j] / sum(e) - (j == label) for j in range(c)]
        dh = [sum(dz[j] * W2[i][j] for j in range(c)) if hidden[i] > 0 else 0.0 for i in range(h)]
        row = [x[i] * dh[j] for i in range(p) for j in range(h)] + dh
        row += [hidden[i] * dz[j] for i in range(h) for j in range(c)] + dz
        total = [t + g / len(X) for t, g in zip(total, row)]
    return total


def algorithm_1_round(W, data, batches, neighbours, attackers, sizes, lr, rule, attack):
    """One round. W: one list per worker; data[k] = (X, y); batches[k] = rows; neighbours[k] ascending.

    The risk is over all local data; rule is a name, attack a function (k, own, honest) -> message.
    """
    N = len(W)
    local = []
    for k in range(N):  # local learning step
        X, y = data[k]
        g = gradient(W[k], [X[i] for i in batches[k]], [y[i] for i in batches[k]], sizes)
        local.append([w - lr * gi for w, gi in zip(W[k], g)])
    honest = [local[k] for k in range(N) if k not in attackers]
    sent = [attack(k, local[k], honest) if k in attackers else local[k] for k in range(N)]
    result = []
    for k in range(N):  # model aggregation step
        if k in attackers or rule == "local":
            result.append(local[k])
            continue
        models = [sent[l] for l in neighbours[k]]
        if rule in ("adaptive", "inverse-risk"):
            risks = [risk(w, *data[k], sizes) for w in models]
            own = neighbours[k].index(k)
            c = adaptive_weights(risks, own) if rule == "adaptive" else inverse_risk_weights(risks)
            result.append(combine(c, models))
        else:
            result.append(BASELINES[rule](models, len(attackers)))
    return result
