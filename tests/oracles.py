"""Weights, rules, attacks and Algorithm 1 again, as scalar loops written from the papers.

Imports nothing from refimpl; the layers are in oracle_layers.py. Models are lists of floats. Floats are
fractions with a power of two below, so sums and squared distances are exact here, without rounding, overflow
or underflow, and comparisons (Krum, medoid) are those of the definition.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import oracle_layers

LARGEST = Fraction(2) ** 1024  # from here on a float64 is infinite

# --- Sec. 3 of the paper: weights and aggregation -----------------------------------------------------------


def inverse_risk_weights(risks):
    """Eq. (5), in exact fractions; its limit where a risk is 0."""
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
    """Eq. (3): a model of weight 0 is not looked at; one that is not finite spoils the sum."""
    used = [(c, w) for c, w in zip(weights, models) if c > 0]
    if not all(math.isfinite(x) for _, w in used for x in w):
        return [math.nan] * len(models[0])
    return [math.fsum(c * w[i] for c, w in used) for i in range(len(models[0]))]


def rounded(x):
    """A fraction as a float, infinite where that overflows."""
    return float(x) if abs(x) < LARGEST else math.copysign(math.inf, x)


# --- Baselines ----------------------------------------------------------------------------------------------


def integers(models):
    """(integers, D) with model = integers / D, exactly."""
    D = max(x.as_integer_ratio()[1] for w in models for x in w)
    return [[p * (D // q) for p, q in (x.as_integer_ratio() for x in w)] for w in models], D


def average(models):
    """The exact mean, rounded once. NaN if a value is not finite, as the sum has to be then or may be."""
    result = []
    for column in zip(*models):
        if all(map(math.isfinite, column)):
            ((numbers,), D) = integers([column])
            result.append(rounded(Fraction(sum(numbers), D * len(column))))
        else:
            result.append(sum(column))
    return result


def ascending(column):
    """NaN as +infinity: an attacker's NaN is one more extreme value."""
    return sorted(math.inf if math.isnan(x) else x for x in column)


def coordinate_median(models):
    """Fang et al. 2022, BRIDGE-M: half of the values on either side, the mean of the two middle ones."""
    result = []
    for column in zip(*models):
        s, n = ascending(column), len(column)
        result.append(s[n // 2] if n % 2 else average([[s[n // 2 - 1]], [s[n // 2]]])[0])
    return result


def trimmed_mean(models, f):
    """Fang et al. 2022, BRIDGE-T."""
    kept = [ascending(column)[f : len(column) - f] for column in zip(*models)]
    return [average([[x] for x in k])[0] for k in kept]


def squared_distances(models):
    """Exact; None if one of the two models is not finite, or if the square is beyond float64."""
    n = len(models)
    finite = [all(map(math.isfinite, w)) for w in models]
    numbers, D = integers([w for w, ok in zip(models, finite) if ok] or [[0.0]])
    rows = iter(numbers)
    exact = [next(rows) if ok else None for ok in finite]
    result = [[Fraction(0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            d = None
            if finite[i] and finite[j]:
                d = Fraction(sum((x - y) ** 2 for x, y in zip(exact[i], exact[j])), D * D)
                d = None if d >= LARGEST else d
            result[i][j] = result[j][i] = d
    return result


def krum_scores(models, f):
    """Blanchard et al. 2017, Sec. 4: (how many infinite, sum of the finite) of the n - f - 2 smallest."""
    n = len(models)
    scores = []
    for i, row in enumerate(squared_distances(models)):
        to_others = [d for j, d in enumerate(row) if j != i]
        finite = sorted(d for d in to_others if d is not None)[: n - f - 2]
        scores.append((n - f - 2 - len(finite), sum(finite)))
    return scores


def medoid_scores(models):
    """(How many infinite, sum of the finite distances to all models), to 60 digits."""
    scores = []
    with localcontext() as context:
        context.prec = 60
        for row in squared_distances(models):
            roots = [(Decimal(d.numerator) / Decimal(d.denominator)).sqrt() for d in row if d is not None]
            scores.append((row.count(None), Fraction(sum(roots))))
    return scores


def krum(models, f):
    scores = krum_scores(models, f)
    return models[scores.index(min(scores))]


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
WEIGHTS = {
    "adaptive": lambda risks, own: adaptive_weights(risks, own),
    "inverse-risk": lambda risks, own: inverse_risk_weights(risks),
}

# --- Attacks ------------------------------------------------------------------------------------------------


def sign_flip(own, sigma=1.0):
    """Sec. 2.2."""
    return [-sigma * x for x in own]


def arbitrary(own, signals):
    """Sec. 5."""
    return [s * x for s, x in zip(signals, own)]


def fall_of_empires(honest, epsilon=1.0):
    """Xie et al. 2020, Sec. 3."""
    return [-epsilon * x for x in average(honest)]


def a_little_is_enough(models, z):
    """Baruch et al. 2019, Algorithm 3: mean - z std, the deviation dividing by the number of models.

    These are the corrupted workers' own; many implementations take the honest ones.
    """
    result = []
    for column in zip(*models):
        ((numbers,), D) = integers([column])
        h, s = len(column), sum(numbers)
        variance = Fraction(h * sum(x * x for x in numbers) - s * s, h * h * D * D)
        result.append(float(Fraction(s, h * D)) - z * math.sqrt(variance))
    return result


def alie_z(n, m):
    """Baruch et al. 2019, Sec. 3.1."""
    s = math.floor(n / 2 + 1) - m
    return NormalDist().inv_cdf((n - m - s) / (n - m))


def majority_z(corrupted, honest):
    return alie_z(len(corrupted) + len(honest), len(corrupted))


ATTACKS = {  # (own model, all attackers' models, honest models, the worker's signals) -> what it sends
    "none": lambda own, corrupted, honest, signals: own,
    "sign-flip": lambda own, corrupted, honest, signals: sign_flip(own),
    "arbitrary": lambda own, corrupted, honest, signals: arbitrary(own, signals),
    "foe": lambda own, corrupted, honest, signals: fall_of_empires(honest),
    "alie": lambda own, corrupted, honest, signals: a_little_is_enough(honest, majority_z(corrupted, honest)),
    "alie-corrupted": lambda own, corrupted, honest, signals: a_little_is_enough(
        corrupted, majority_z(corrupted, honest)
    ),
}

# --- Algorithm 1 --------------------------------------------------------------------------------------------


def smoothed_risks(before, risks, share):
    """A running average with this share of the new risk. It starts, or starts again, at the risk itself."""
    return [
        (1 - share) * a + share * r if a is not None and math.isfinite(a) else r for a, r in zip(before, risks)
    ]


def algorithm_1(
    W,
    data,
    draws,
    neighbours,
    attackers,
    shapes,
    *,
    rule,
    attack,
    step_size,
    l2=0.0,
    optimizer="sgd",
    risk="local",
    smoothing=1.0,
):
    """Yields W after each round: Algorithm 1, with Eq. (2), (6) and (3), for networks of these shapes.

    W: one list per worker; data[k] = (X, y); neighbours[k] ascending, k among them. draws: per round
    (rows, signals), rows[k] the numbers of the worker's sampled rows, signals[k] for the attackers.
    step_size is mu(k, t), t counted from 1, or one number for all.
    The risk is over all local data (Sec. 2.1) or over the round's sample (Sec. 3, complexity), plus
    l2 / 2 times the sum of w_i^2; the gradient is that of this risk.
    Attackers take the local step, send what they like and do not aggregate.
    """
    N, step = len(W), oracle_layers.OPTIMIZERS[optimizer]
    states, running = [None] * N, [[None] * len(neighbours[k]) for k in range(N)]
    for t, (rows, signals) in enumerate(draws, start=1):
        sample = [([data[k][0][i] for i in rows[k]], [data[k][1][i] for i in rows[k]]) for k in range(N)]
        local = []
        for k in range(N):  # local learning step
            g = [g + l2 * w for g, w in zip(oracle_layers.gradient(W[k], *sample[k], shapes), W[k])]
            w, states[k] = step(W[k], g, states[k], step_size(k, t) if callable(step_size) else step_size)
            local.append(w)
        honest = [local[k] for k in range(N) if k not in attackers]
        corrupted = [local[k] for k in range(N) if k in attackers]
        sent = [
            ATTACKS[attack](local[k], corrupted, honest, signals[k]) if k in attackers else local[k]
            for k in range(N)
        ]
        W, seen = list(local), {}
        for k in range(N):  # model aggregation step
            if k in attackers or rule == "local":
                continue
            models = [sent[l] for l in neighbours[k]]
            if rule in BASELINES:
                group = tuple(neighbours[k])
                if group not in seen:
                    seen[group] = BASELINES[rule](models, len(attackers))
                W[k] = seen[group]
                continue
            scored_on = data[k] if risk == "local" else sample[k]
            risks = [
                oracle_layers.risk(w, *scored_on, shapes) + l2 * math.fsum(x * x for x in w) / 2 for w in models
            ]
            running[k] = smoothed_risks(running[k], risks, smoothing)
            own = neighbours[k].index(k)
            W[k] = combine(WEIGHTS[rule](running[k], own), models)
        yield W
