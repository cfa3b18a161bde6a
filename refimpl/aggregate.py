"""Aggregation: Eq. (3), (5) and (6), then the paper's baselines.

W is (..., n, d): the n models of a neighbourhood, one a row, in ascending order of the workers' numbers.
Ties go to the lowest of them. Leading axes are independent neighbourhoods. Results keep the dtype and the
array module of the input, and inputs are never written to.

A model with a NaN or infinite entry is "not finite"; attackers may send one.
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import connected_components

from refimpl.arrays import FLOATS, Array, boxes, grain, module_of, quiet

PRODUCTS = FLOATS  # as many differences are computed as such; of more, distances come from products

# --- The paper's rule ---------------------------------------------------------------------------------------


@quiet
def inverse_risk_weights(risks: Array) -> Array:
    """c_l = r_l^-1 / sum_p r_p^-1: Eq. (5). (..., n) -> (..., n).

    Computed as min(r) / r, normalised, which cannot overflow. Zero risks share all the weight equally, the
    limit of the formula. A NaN or infinite risk has weight 0, so if no risk is finite, all weights are 0.
    """
    xp = module_of(risks)
    r = xp.where(xp.isfinite(risks), risks, xp.inf)
    best = r.min(axis=-1, keepdims=True)
    c = xp.where(r == best, 1.0, best / r).astype(r.dtype)  # where: at r = best = 0 the quotient is 0 / 0
    c = xp.where(xp.isfinite(r), c, 0)
    return c / xp.maximum(c.sum(axis=-1, keepdims=True), 1)  # Eq. (5); the sum is >= 1, or 0 if none is finite


@quiet
def adaptive_weights(risks: Array, own: int | Array) -> Array:
    """Eq. (5) over N_k^+ = {l : r_l <= r_own}, 0 elsewhere: Eq. (6). (..., n), (...) -> (..., n).

    `own` is the receiver's position among the n. If its own risk is not finite, every finite model passes;
    if nothing is finite, the receiver keeps its own model.
    """
    xp = module_of(risks)
    n = risks.shape[-1]
    if isinstance(own, int | np.integer) and not 0 <= own < n:
        raise ValueError(f"adaptive_weights needs 0 <= own < n, got own={own}, n={n}")
    is_own = xp.arange(n) == xp.asarray(own)[..., None]
    r_own = xp.where(is_own, risks, 0).sum(axis=-1, keepdims=True)
    in_N_plus = (risks <= r_own) | ~xp.isfinite(r_own)
    return or_own(inverse_risk_weights(xp.where(in_N_plus, risks, xp.inf)), own)  # Eq. (6)


def or_own(weights: Array, own: int | Array) -> Array:
    """Gives all weight to the receiver's own model where `weights` are all 0. (..., n), (...) -> (..., n)."""
    xp = module_of(weights)
    is_own = xp.arange(weights.shape[-1]) == xp.asarray(own)[..., None]
    nothing = (weights == 0).all(axis=-1, keepdims=True)
    return xp.where(nothing, is_own.astype(weights.dtype), weights)


@quiet
def combine(weights: Array, W: Array) -> Array:
    """sum_l c_l w_l: Eq. (3). (n,), (n, d) -> (d,); or for m receivers (..., m, n), (..., n, d) -> (..., m, d).

    A model with weight 0 contributes nothing, also when it is not finite (0 * NaN would be NaN). One with a
    positive weight that is not finite makes the result NaN.
    """
    xp = module_of(W)
    finite = xp.isfinite(W).all(axis=-1, keepdims=True)
    if xp is np and finite.all():  # as always without attackers' help; a GPU would have to wait for the answer
        return weights @ W
    w = weights @ xp.where(finite, W, 0)  # Eq. (3)
    spoilt = weights @ (~finite).astype(W.dtype)
    return xp.where(spoilt > 0, xp.nan, w)


# --- The paper's baselines ----------------------------------------------------------------------------------


@quiet
def average(W: Array) -> Array:
    """The mean of the models, (..., n, d) -> (..., d). One NaN among them is NaN."""
    return W.mean(axis=-2)


@quiet
def coordinate_median(W: Array) -> Array:
    """The median of each coordinate, (..., n, d) -> (..., d): BRIDGE-M (Fang et al. 2022).

    The mean of the two middle values when n is even. NaN counts as +infinity.
    """
    n = W.shape[-2]
    low, high = (n - 1) // 2, n // 2
    s = _sorted(W, low, high + 1)
    return (s[..., 0, :] + s[..., high - low, :]) / 2


@quiet
def trimmed_mean(W: Array, f: int) -> Array:
    """The mean of each coordinate without its f lowest and f highest values: BRIDGE-T (Fang et al. 2022).

    (..., n, d) -> (..., d). The receiver's own value is trimmed like any other. NaN counts as +infinity.
    Raises ValueError unless n >= 2f + 1.
    """
    n = W.shape[-2]
    require_trimmable(n, f)
    return _sorted(W, f, n - f).mean(axis=-2)


@quiet
def medoid(W: Array) -> Array:
    """The model with the smallest sum of Euclidean distances to the others, (..., n, d) -> (..., d).

    Models that are not finite are infinitely far from all; see `_closest` for what that decides.
    """
    return _closest(W, module_of(W).sqrt)


@quiet
def krum(W: Array, f: int) -> Array:
    """The model whose n - f - 2 nearest others have the smallest sum of squared distances to it.

    Krum (Blanchard et al. 2017, Sec. 4); with BRIDGE, BRIDGE-K. (..., n, d) -> (..., d).
    Raises ValueError unless n >= 2f + 3.
    """
    xp = module_of(W)
    n = W.shape[-2]
    require_krum(n, f)

    def nearest(D: Array) -> Array:
        others = xp.where(xp.eye(n, dtype=bool), xp.inf, D)
        return xp.sort(others, axis=-1)[..., : n - f - 2]

    return _closest(W, nearest)


def require_trimmable(n: int, f: int) -> None:
    """Raises ValueError unless f values can be trimmed on each side of n."""
    if f < 0:
        raise ValueError(f"trimmed_mean needs f >= 0, got f={f}")
    if n < 2 * f + 1:
        raise ValueError(f"trimmed_mean needs n >= 2f + 1 models, got n={n}, f={f}")


def require_krum(n: int, f: int) -> None:
    """Raises ValueError unless Krum is defined for n models with f attackers."""
    if f < 0:
        raise ValueError(f"krum needs f >= 0, got f={f}")
    if n < 2 * f + 3:
        raise ValueError(f"krum needs n >= 2f + 3 models, got n={n}, f={f}")


@quiet
def squared_distances(W: Array) -> Array:
    """|w_i - w_j|^2 for all pairs, (..., n, d) -> (..., n, n).

    Infinite for a model that is not finite, and where the square overflows.
    """
    return _or_infinite(_distances(W).astype(W.dtype, copy=False))


def _distances(W: Array) -> Array:
    return by_products(W) if _large(W) else by_differences(W)


def _large(W: Array) -> bool:
    """Are products worth it? Not on a GPU, which would have to wait for the answer which pairs are close."""
    *_, n, d = W.shape
    return module_of(W) is np and n * n * d > PRODUCTS and W.dtype.kind == "f"


def _or_infinite(D: Array) -> Array:
    xp = module_of(D)
    D = xp.where(xp.isfinite(D), D, xp.inf)
    return xp.where(xp.eye(D.shape[-1], dtype=bool), 0, D)


@quiet
def by_differences(W: Array) -> Array:
    """The plain form: the sum of the squared differences."""
    xp = module_of(W)
    *lead, n, d = W.shape
    D = xp.zeros((*lead, n, n), W.dtype)
    for part in boxes((*lead, d), FLOATS * grain(xp) // n**2):
        some, coordinates = part[:-1], part[-1]
        V = W[..., coordinates][some]
        diff = V[..., :, None, :] - V[..., None, :, :]
        diff *= diff
        D[some] += diff.sum(axis=-1)
    return D


@quiet
def by_products(W: np.ndarray) -> np.ndarray:
    """The same from |c_i|^2 + |c_j|^2 - 2 c_i c_j, c being the models about their mean: a tenth of the time.

    The subtraction loses digits between models that are closer to each other than to the mean. It loses few
    enough for 1e-10 as long as the result is not much smaller than |c_i|^2 + |c_j|^2; the other pairs are done
    again, about a model among them, and by differences where that does not help. In float64, whatever W is.
    """
    *lead, n, _ = W.shape
    finite = np.isfinite(W).all(axis=-1)
    D = np.full((*lead, n, n), np.inf)
    for i in np.ndindex(*lead):
        if finite[i].all():
            D[i] = _about_mean(W[i])
        elif finite[i].any():
            D[i][np.ix_(finite[i], finite[i])] = _about_mean(W[i][finite[i]])
    return D


def _about_mean(V: np.ndarray, first: bool = False) -> np.ndarray:
    """The squared distances of finite models, from products about their mean or the first: (n, d) -> (n, n)."""
    n, d = V.shape
    G = np.zeros((n, n))
    for (part,) in boxes((d,), FLOATS // (8 * n)):
        C = V[:, part].astype(np.float64)
        C -= C[0] if first else C.mean(axis=0)
        G += C @ C.T
    scale = G.diagonal()[:, None] + G.diagonal()
    D = scale - 2 * G
    lost = 16 * d**0.5 * np.finfo(float).eps  # of the scale, by rounding
    enough = 1e10 * lost * scale
    close = ~(enough <= D)  # also where the scale has overflowed
    close[np.diag_indices(n)] = False
    if not close.any():
        return D
    _, group = connected_components(close, directed=False)
    for k in np.flatnonzero(np.bincount(group) > 1):
        near = np.flatnonzero(group == k)
        if len(near) < n:
            D[np.ix_(near, near)] = _about_mean(V[near], first=True)
        else:
            for i, j in zip(*np.nonzero(close), strict=True):
                D[i, j] = ((V[i].astype(np.float64) - V[j]) ** 2).sum()
    return D


def _sorted(W: Array, start: int, stop: int) -> Array:
    """Each coordinate's values in ascending order, NaN as +infinity, from place `start` to before `stop`."""
    xp = module_of(W)
    *lead, n, d = W.shape
    s = xp.empty((*lead, stop - start, d), W.dtype)
    for part in boxes((*lead, d), FLOATS * grain(xp) // (16 * n)):
        some, coordinates = part[:-1], part[-1]
        V = W[..., coordinates][some].swapaxes(-1, -2).copy()  # a coordinate's values side by side
        V.sort(axis=-1)  # NaN comes last, behind +infinity
        s[..., coordinates][some] = V[..., start:stop].swapaxes(-1, -2)
    return xp.where(xp.isnan(s), xp.inf, s)


def _closest(W: Array, score: Callable[[Array], Array]) -> Array:
    """The row of W whose row of score(squared distances), (..., n, m), has the smallest sum: -> (..., d).

    Ties go to the lowest index; where products have rounded, differences decide them.
    """
    xp = module_of(W)
    best, rivals = _smallest(score(_or_infinite(_distances(W))))
    if _large(W):
        best = np.asarray(best)
        for i in map(tuple, np.argwhere(rivals.sum(axis=-1) > 1)):
            V = W[i]
            if (V[rivals[i]] != V[best[i]]).any():
                best[i], _ = _smallest(score(_or_infinite(by_differences(V))))
    return xp.take_along_axis(W, best[..., None, None], axis=-2)[..., 0, :]


def _smallest(R: Array) -> tuple[Array, Array]:
    """Which row has the smallest sum, and which are as small but for rounding: (..., n, m) -> (...), (..., n).

    Infinite entries are compared as if they all grew without bound together: fewest of them first, then the
    smallest sum of the finite ones, then the lowest index. So a few models far away do not hide the rest.
    """
    xp = module_of(R)
    far = xp.isinf(R).sum(axis=-1)
    near = xp.where(xp.isinf(R), 0, R).sum(axis=-1)
    near = xp.where(far == far.min(axis=-1, keepdims=True), near, xp.inf)
    rivals = near <= (1 + 1e-9 + 8 * xp.finfo(near.dtype).eps) * near.min(axis=-1, keepdims=True)
    return near.argmin(axis=-1), rivals


# --- By name ------------------------------------------------------------------------------------------------


def _trim(n: int, f: int) -> int:
    """How many values BRIDGE-T trims on each side: as many as attackers, 10 % if there are none (Sec. 5)."""
    return f if f > 0 else n // 10


# Rules that weigh models by the receiver's risk: (risks, own) -> weights.
WEIGHTS: dict[str, Callable[[Array, Array], Array]] = {
    "adaptive": adaptive_weights,
    "inverse-risk": lambda risks, own: or_own(inverse_risk_weights(risks), own),
}

# Rules that look at the models alone: (models, number of attackers) -> model.
RULES: dict[str, Callable[[Array, int], Array]] = {
    "average": lambda W, f: average(W),
    "medoid": lambda W, f: medoid(W),
    "trimmed-mean": lambda W, f: trimmed_mean(W, _trim(W.shape[-2], f)),
    "median": lambda W, f: coordinate_median(W),
    "krum": krum,
}

# What each rule needs of a neighbourhood of n models with f attackers; raises ValueError.
REQUIREMENTS: dict[str, Callable[[int, int], None]] = {
    "trimmed-mean": lambda n, f: require_trimmable(n, _trim(n, f)),
    "krum": require_krum,
}

NAMES = ("adaptive", "inverse-risk", "average", "medoid", "trimmed-mean", "median", "krum", "local")
