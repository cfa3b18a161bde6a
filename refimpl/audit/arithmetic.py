"""A line of arithmetic for kinds that one explains: how the definition comes to an answer, on a small input.

A function is named and called as the definition that it explains.
"""

import numpy as np

from refimpl import aggregate, attacks
from refimpl.arrays import quiet
from refimpl.related import rules


def num(x: float) -> str:
    """The number with at most six digits."""
    return f"{float(x):.6g}"


def total(numbers: np.ndarray | list[float]) -> str:
    """The numbers and their sum: 1 + 4 = 5."""
    terms = [num(x) for x in numbers] or ["0"]
    return " + ".join(terms) + (f" = {num(sum(map(float, numbers)))}" if len(terms) > 1 else "")


def listed(numbers: np.ndarray) -> str:
    return ", ".join(num(x) for x in numbers)


def mean_of(numbers: np.ndarray) -> str:
    return f"({' + '.join(num(x) for x in numbers)}) / {len(numbers)} = {num(np.mean(numbers))}"


# --- Weights ------------------------------------------------------------------------------------------------


@quiet
def inverse_risk_weights(risks: np.ndarray) -> str:
    c = aggregate.inverse_risk_weights(risks)
    if (risks == 0).any():
        return f"risk 0 is the limit of 1 / r: all the weight, shared by the {(risks == 0).sum()} of risk 0"
    finite = risks[np.isfinite(risks)]
    if not len(finite):
        return "no risk is finite, so that every weight is 0"
    return f"1 / r over the finite risks: {total(1 / finite)}; each divided by the sum: {listed(c)}"


@quiet
def adaptive_weights(risks: np.ndarray, own: int) -> str:
    if not np.isfinite(risks[own]):
        return f"r_own = {num(risks[own])} is not finite: every finite model passes, or if there is none, own"
    passed = np.flatnonzero(risks <= risks[own])
    members = ", ".join(map(str, passed))
    return f"r_own = {num(risks[own])}, so N+ = {{{members}}}; " + inverse_risk_weights(risks[passed])


def combine(weights: np.ndarray, W: np.ndarray) -> str:
    lost = [l for l in range(len(W)) if not np.isfinite(W[l]).all()]
    if lost:
        return f"model {lost[0]} is not finite: at weight 0 it counts nothing, at any other the result is NaN"
    terms = " + ".join(f"{num(c)} * {num(w)}" for c, w in zip(weights, W[:, 0], strict=True))
    return f"first coordinate: {terms} = {num(weights @ W[:, 0])}"


# --- Rules --------------------------------------------------------------------------------------------------


def average(W: np.ndarray) -> str:
    return f"first coordinate: {mean_of(W[:, 0])}"


def coordinate_median(W: np.ndarray) -> str:
    s, n = aggregate.ascending(W)[:, 0], len(W)
    middle = f"the middle one is {num(s[n // 2])}"
    if n % 2 == 0:
        middle = f"the middle two: {mean_of(s[n // 2 - 1 : n // 2 + 1])}"
    return f"first coordinate in order (NaN last): {listed(s)}; {middle}"


def trimmed_mean(W: np.ndarray, f: int) -> str:
    s = aggregate.ascending(W)[:, 0]
    kept = s[f : len(W) - f]
    return f"first coordinate in order (NaN last): {listed(s)}; without {f} on each side: {mean_of(kept)}"


def krum(W: np.ndarray, f: int) -> str:
    n = len(W)
    D = np.where(np.eye(n, dtype=bool), np.inf, aggregate.squared_distances(W))
    nearest = np.sort(D, axis=1)[:, : n - f - 2]
    chosen = _chosen(nearest, W, aggregate.krum(W, f))
    return f"squared distances to the n - f - 2 = {n - f - 2} nearest others: {chosen}"


def multi_krum(W: np.ndarray, f: int) -> str:
    m = len(W) - f - 2
    D = aggregate.squared_distances(W)
    best = np.sort(rules.krum_order(D, f)[:m])
    scores = listed(np.sort(D, axis=1)[:, 1 : m + 1].sum(axis=1))
    return f"scores over n - f - 2 = {m} others: {scores}; the best are models {listed(best)}"


def own_trimmed_mean(W: np.ndarray, own: int, f: int) -> str:
    s = aggregate.ascending(np.delete(W, own, axis=0))[:, 0]
    kept = s[f : len(s) - f]
    others = f"the others in order: {listed(s)}; without {f} on each side, with {num(W[own, 0])}"
    return f"first coordinate, {others}: {mean_of(np.append(W[own, 0], kept))}"


def clipped_gossip(W: np.ndarray, own: int, weights: np.ndarray, tau: float) -> str:
    norms = np.sqrt(((W - W[own]) ** 2).sum(axis=1))
    return f"distances to model {own}: {listed(norms)}; factors: {listed(tau / np.maximum(norms, tau))}"


def medoid(W: np.ndarray) -> str:
    D = np.sqrt(aggregate.squared_distances(W))
    others = D[~np.eye(len(W), dtype=bool)].reshape(len(W), -1)
    return f"distances to the others: {_chosen(others, W, aggregate.medoid(W))}"


def _chosen(scores: np.ndarray, W: np.ndarray, row: np.ndarray) -> str:
    first = next(i for i, w in enumerate(W) if np.array_equal(w, row, equal_nan=True))
    parts = (f"model {i}: {_score(numbers)}" for i, numbers in enumerate(scores))
    return f"{'; '.join(parts)}; the least, of ties the first, is model {first}"


def _score(numbers: np.ndarray) -> str:
    """The sum of the finite numbers, and how many are infinite: see aggregate.row_of_least."""
    lost = int(np.isinf(numbers).sum())
    return total(numbers) if not lost else f"{lost} infinite, {total(numbers[np.isfinite(numbers)])}"


# --- Attacks ------------------------------------------------------------------------------------------------


def sign_flip(W: np.ndarray, sigma: float = 1.0) -> str:
    return f"first entry: -{num(sigma)} * {num(W[0, 0])} = {num(-sigma * W[0, 0])}"


def arbitrary(W: np.ndarray, signals: np.ndarray) -> str:
    i = (-1, -1)
    return f"last entry: {num(signals[i])} * {num(W[i])} = {num(signals[i] * W[i])}"


def fall_of_empires(honest: np.ndarray, epsilon: float = 1.0) -> str:
    mean = honest[:, 0].mean()
    times = f"-{num(epsilon)} * {num(mean)} = {num(-epsilon * mean)}"
    return f"first coordinate: mean {mean_of(honest[:, 0])}; {times}"


def a_little_is_enough(honest: np.ndarray, z: float) -> str:
    x = honest[:, 0]
    squares = " + ".join(f"({num(v)} - {num(x.mean())})^2" for v in x)
    result = x.mean() - z * x.std()
    return (
        f"first coordinate: mean {num(x.mean())}, std sqrt(({squares}) / {len(x)}) = {num(x.std())}; "
        f"{num(x.mean())} - {num(z)} * {num(x.std())} = {num(result)}"
    )


def alie_z(n: int, f: int) -> str:
    h, s = n - f, max(n // 2 + 1 - f, 1)
    least = "" if n // 2 + 1 - f >= 1 else " (at least 1)"
    if h == s:
        return f"h = {h} and s = {s}{least}: nobody is left over, z = 0"
    quantile = f"Phi^-1(({h} - {s}) / {h}) = {num(attacks.alie_z(n, f))}"
    return f"h = {n} - {f} = {h}, s = floor({n} / 2 + 1) - {f} = {s}{least}: {quantile}"


# --- Learning -----------------------------------------------------------------------------------------------


@quiet
def softmax_cross_entropy(z: np.ndarray, y: np.ndarray) -> str:
    if y[0] < 0:
        return "first row: label -1 is padding, loss 0"
    top = z[0].max()
    terms = " + ".join(f"e^{num(v - top)}" for v in z[0])
    loss = np.log(np.exp(z[0] - top).sum()) + top - z[0, y[0]]
    return f"first row: log({terms}) + {num(top)} - {num(z[0, y[0]])} = {num(loss)}"


def sgd(w: np.ndarray, g: np.ndarray, mu: float) -> str:
    return f"first entry: {num(w[0])} - {num(mu)} * {num(g[0])} = {num(w[0] - mu * g[0])}"


def adam(w: np.ndarray, gradients: np.ndarray, mu: float) -> str:
    x, m, v, lines = float(w[0]), 0.0, 0.0, []
    for t, g in enumerate(map(float, gradients[:, 0]), start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
        after = x - mu * m_hat / (v_hat**0.5 + 1e-8)
        first, second = num(1 - 0.9**t), num(1 - 0.999**t)
        moments = f"m_hat = {num(m)} / {first} = {num(m_hat)}, v_hat = {num(v)} / {second} = {num(v_hat)}"
        step = f"{num(x)} - {num(mu)} * {num(m_hat)} / (sqrt({num(v_hat)}) + 1e-8) = {num(after)}"
        lines.append(f"step {t}: {moments}, {step}")
        x = after
    return "first entry, " + "; ".join(lines)


def metropolis_weights(graph: np.ndarray) -> str:
    d = graph.sum(axis=1) - 1
    edges = [
        f"W_{i}{j} = 1 / (1 + max({d[i]}, {d[j]})) = {num(1 / (1 + max(d[i], d[j])))}"
        for i, j in np.argwhere(np.triu(graph, 1))
    ]
    return f"degrees {listed(d)} without the worker itself; " + "; ".join(
        [*edges, "W_ii = 1 - the rest of row i"]
    )


def push_weights(graph: np.ndarray) -> str:
    out = graph.sum(axis=0)
    return f"with itself, worker l sends to {listed(out)} of them: column l holds 1 over its number"


def top_k(x: np.ndarray, k: int) -> str:
    return f"magnitudes in order: {listed(np.sort(abs(x))[::-1])}; the first {k} are kept"
