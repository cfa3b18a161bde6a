"""Rules of other papers: what a worker makes of the models that it hears.

W (n, d) are the models of a neighbourhood, the receiver's own at position `own`, f is the number of attackers.
Ties go to the lowest index. A model that is not finite, or whose square overflows, is infinitely far from all.
Inputs are never written to.
"""

import math
from itertools import combinations

import numpy as np

from refimpl.aggregate import ascending, require_krum, squared_distances
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.related.mixing import combine

# --- For comparison: rules that see all models alike --------------------------------------------------------


@quiet
def geometric_median(W: Array, steps: int = 80, tolerance: float = 1e-5, nu: float = 1e-5) -> Array:
    """The point with the least sum of distances to the models, by Weiszfeld's iteration: (n, d) -> (d,).

    z <- sum_i w_i / a_i / sum_i 1 / a_i, a_i = max(nu, |z - w_i|), from the mean, until z moves by no more than
    `tolerance`, at most `steps` times. Steps and tolerance as in the codes of Wu et al. (2020, 2023); nu and
    dropping models that are not finite as in Pillutla et al. (2022), who stop after 4 steps.
    """
    xp = module_of(W)
    finite = xp.isfinite((W * W).sum(axis=-1))
    if not finite.any():
        return W[0]
    W = W[finite]
    z = W.mean(axis=0)
    for _ in range(steps):
        closeness = 1 / xp.maximum(xp.sqrt(((W - z) ** 2).sum(axis=-1)), nu)
        before, z = z, closeness @ W / closeness.sum()
        if float(((z - before) ** 2).sum()) ** 0.5 <= tolerance:
            break
    return z


def krum_order(D: np.ndarray, f: int) -> np.ndarray:
    """The positions of n models, the best Krum score first (see `aggregate.krum`): (n,).

    D (n, n) are their squared distances, on the host. A score is the sum of n - f - 2 of them, or of one where
    Bulyan has taken most models away.
    """
    n = len(D)
    nearest = np.sort(np.where(np.eye(n, dtype=bool), np.inf, D), axis=1)[:, : max(n - f - 2, 1)]
    infinite = np.isinf(nearest)
    return np.lexsort((np.where(infinite, 0, nearest).sum(axis=1), infinite.sum(axis=1)))


@quiet
def multi_krum(W: Array, f: int) -> Array:
    """The mean of the n - f - 2 models with the best Krum scores (Blanchard et al. 2017): (n, d) -> (d,).

    m = n - f - 2 is the largest that they allow, and the default of the LPD group's code.
    Raises ValueError unless n >= 2f + 3.
    """
    require_krum(len(W), f)
    best = np.sort(krum_order(to_host(squared_distances(W)), f)[: len(W) - f - 2])
    return W[module_of(W).asarray(best)].mean(axis=0)


def repeated_krum(W: Array, f: int) -> Array:
    """n - 2f models, picked one by one as Krum's choice among those that are left: (n, d) -> (n - 2f, d)."""
    D, left, picked = to_host(squared_distances(W)), list(range(len(W))), []
    for _ in range(len(W) - 2 * f):
        picked.append(left.pop(int(krum_order(D[np.ix_(left, left)], f)[0])))
    return W[module_of(W).asarray(np.array(picked))]


@quiet
def bulyan(W: Array, f: int) -> Array:
    """The mean, per coordinate, of the n - 4f values nearest to the median, among models of `repeated_krum`.

    Bulyan (El-Mhamdi et al. 2018; from memory, unverified). (n, d) -> (d,). The code of Wu et al. 2023 does
    the same, but takes the lower of two middle values for the median; here it is their mean. Others pick
    n - 2f - 2.
    Raises ValueError unless n >= 4f + 3.
    """
    require_bulyan(len(W), f)
    xp, picked = module_of(W), ascending(repeated_krum(W, f))
    theta = len(picked)
    median = (picked[(theta - 1) // 2] + picked[theta // 2]) / 2
    nearest = xp.argsort(abs(picked - median), axis=0, kind="stable")[: theta - 2 * f]
    return xp.take_along_axis(picked, nearest, axis=0).mean(axis=0)


def require_bulyan(n: int, f: int) -> None:
    """Raises ValueError unless Bulyan is defined for n models with f attackers."""
    if n < 4 * f + 3:
        raise ValueError(f"bulyan needs n >= 4f + 3 models, got n={n}, f={f}")


@quiet
def minimum_diameter_average(W: Array, f: int) -> Array:
    """The mean of the n - f models with the smallest diameter: MDA (El-Mhamdi et al. 2021).

    (n, d) -> (d,). The first subset in lexicographic order wins, as in the authors' code; one with a model that
    is not finite has an infinite diameter. Raises ValueError unless n >= 2f + 1 and subsets are few enough.
    """
    require_mda(len(W), f)
    D = to_host(squared_distances(W))
    subsets = np.array(list(combinations(range(len(W)), len(W) - f)))
    diameters = D[subsets[:, :, None], subsets[:, None, :]].max(axis=(1, 2))
    return W[module_of(W).asarray(subsets[diameters.argmin()])].mean(axis=0)


SUBSETS = 50_000  # about half a second for each aggregation


def require_mda(n: int, f: int) -> None:
    """Raises ValueError unless MDA is defined for n models with f attackers, and subsets are few enough."""
    if n < 2 * f + 1:
        raise ValueError(f"mda needs n >= 2f + 1 models, got n={n}, f={f}")
    if (count := math.comb(n, f)) > SUBSETS:
        raise ValueError(
            f"mda looks at all subsets of n - f models, {count} for n={n}, f={f}: more than {SUBSETS}"
        )


def require_in_time(n: int, f: int) -> None:
    """Raises ValueError unless n - f messages are enough to drop f of them on each side: `screening.learn`."""
    if n < 3 * f + 1:
        raise ValueError(f"needs n >= 2f + 1 models in time, of {n} in all: got n={n - f}, f={f}")


# --- Rules that know which model is their own ---------------------------------------------------------------


@quiet
def own_trimmed_mean(W: Array, own: int, f: int) -> Array:
    """The mean, per coordinate, of the receiver's value and its neighbours' without their f lowest and highest.

    (n, d) -> (d,). BRIDGE-T (Fang et al. 2022) and ByRDiE (Yang and Bajwa 2019): y_k = (w_k + sum of the
    |N_k| - 2f values left) / (|N_k| - 2f + 1), N_k without k. Both papers from memory, unverified; the
    code of Wu et al. 2023 and one other do this. The authors' code sorts the receiver's value with the rest:
    `aggregate.trimmed_mean`. NaN counts as +infinity.
    """
    others = ascending(W[module_of(W).asarray(np.delete(np.arange(len(W)), own))])
    kept = others[f : len(others) - f]
    return (W[own] + kept.sum(axis=0)) / (len(kept) + 1)


@quiet
def bridge_b(W: Array, f: int) -> Array:
    """The mean, per coordinate, without the f lowest and highest values, of the models of `repeated_krum`.

    BRIDGE-B as in the authors' code; the paper (from memory, unverified) has Bulyan. (n, d) -> (d,).
    """
    picked = ascending(repeated_krum(W, f))
    return picked[f : len(picked) - f].mean(axis=0)


@quiet
def iterative_outlier_scissor(W: Array, own: int, weights: Array, f: int) -> Array:
    """The weighted mean after f times dropping the neighbour that is farthest from the mean of the rest: IOS.

    Wu, Chen and Ling 2023 (authors' code). The receiver's own model is never dropped. (n, d), (n,) -> (d,).
    All means but the last leave out models that are not finite.
    """
    left = np.ones(len(W), dtype=bool)
    finite = to_host(module_of(W).isfinite((W * W).sum(axis=-1)))
    for _ in range(min(f, len(W) - 1)):
        mean = weighted_mean(W, weights, left & finite)
        distance = np.where(finite, to_host(((W - mean) ** 2).sum(axis=-1)), np.inf)
        distance[own] = -1
        left[np.where(left, distance, -1).argmax()] = False
    return weighted_mean(W, weights, left)


def weighted_mean(W: Array, weights: Array, left: np.ndarray) -> Array:
    """sum c_l w_l / sum c_l over the models that are left."""
    c = module_of(W).where(module_of(W).asarray(left), weights, 0)
    return combine(c / c.sum(), W)


@quiet
def clipped_gossip(W: Array, own: int, weights: Array, tau: float) -> Array:
    """The model w_own + sum_l c_l Clip(w_l - w_own, tau), Clip(z, tau) = z min(1, tau / |z|) (He et al. 2022).

    (n, d), (n,) -> (d,). A difference whose square is not finite counts as 0.
    """
    xp = module_of(W)
    differences = W - W[own]
    norms = xp.sqrt((differences**2).sum(axis=-1, keepdims=True))
    shrink = xp.where(norms > tau, tau / norms, 1).astype(W.dtype)
    clipped = xp.where(xp.isfinite(norms), shrink * differences, 0)
    return W[own] + weights @ clipped


@quiet
def oracle_radius(W: Array, own: int, weights: Array, honest: np.ndarray) -> float:
    """The radius tau of He et al. 2022 (their code), which knows the attackers.

    tau^2 = sum over honest l of c_l |w_l - w_own|^2 / the attackers' weight. A square that is not finite counts
    as 0, as in `clipped_gossip`. Their code without a radius takes another way, the second-largest distance.
    """
    c = to_host(weights)
    delta = c[~honest].sum()
    squares = to_host(((W - W[own]) ** 2).sum(axis=-1))
    counted = honest & np.isfinite(squares)
    return float(np.sqrt((c * squares)[counted].sum() / delta)) if delta > 0 else math.inf


@quiet
def adaptive_radius(W: Array, own: int, weights: Array, f: int) -> float:
    """A radius as `oracle_radius`, but the nearest models stand for the honest ones.

    As in the code of Gaucher et al. 2025: models are taken in order of distance, the receiver's own first, as
    long as their total weight is below 1 - delta; tau^2 = sum over taken l of c_l |w_l - w_own|^2 / delta. That
    code has equal weights, delta being f of them; here delta is the sum of the f largest weights of neighbours.
    A total that equals 1 - delta up to rounding is not below it.
    """
    c = to_host(weights).astype(float)  # the sums of many float32 would be off by more than 1e-6
    delta = np.sort(np.delete(c, own))[::-1][:f].sum()
    if delta == 0:
        return math.inf
    squares = to_host(((W - W[own]) ** 2).sum(axis=-1))
    squares = np.where(np.isfinite(squares), squares, np.inf)
    squares[own] = -1  # first, also among models that equal it
    order = np.argsort(squares, kind="stable")
    squares[own] = 0
    taken = order[np.cumsum(c[order]) < c.sum() - delta - 1e-6]
    return float(np.sqrt((c[taken] * squares[taken]).sum() / delta))


@quiet
def mozi(W: Array, own: int, risks: Array, count: int, alpha: float = 0.5, empty: str = "nearest") -> Array:
    """The receiver's model and the mean of accepted ones, weighted alpha and 1 - alpha (Guo et al. 2021).

    (n, d), (n,) -> (d,). Of the `count` neighbours nearest to the receiver's model, those with a risk no higher
    than its own are accepted. If there are none, the "nearest" is accepted (MOZI, in two codes), or the one
    of the `count` with the "lowest-risk" (UBAR, in two others); the authors' code was not found. A model that
    is not finite is not accepted; if no neighbour's is finite, the worker keeps its own model. A risk of NaN is
    not accepted, nor accepts, and counts as infinite where the lowest is sought.
    """
    if empty not in ("nearest", "lowest-risk"):
        raise ValueError(f'mozi without an accepted model takes "nearest" or "lowest-risk", got {empty!r}')
    squares, r = to_host(((W - W[own]) ** 2).sum(axis=-1)), to_host(risks)
    others = np.delete(np.arange(len(W)), own)
    near = others[np.argsort(squares[others], kind="stable")][:count]
    near = near[np.isfinite(squares[near])]
    if not len(near):
        return W[own]
    accepted = near[r[near] <= r[own]]
    if not len(accepted):
        lowest = np.where(np.isnan(r), np.inf, r)[near].argmin()
        accepted = near[:1] if empty == "nearest" else near[lowest : lowest + 1]
    mean = W[module_of(W).asarray(np.sort(accepted))].mean(axis=0)
    return alpha * W[own] + (1 - alpha) * mean
