"""Distances between models by matrix products. Plain: `aggregate.squared_distances`; test: test_distances.py.

Differences of all pairs of n models are n^2 d numbers, too many for a cache. A product needs none of them, but
loses digits between models that are close to each other and far from the origin. So products are centred, and
close pairs done again, until distances are right to 1e-9. Ties are decided by differences, so that the lowest
index still wins them.
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import connected_components

from refimpl.aggregate import require_krum, wide
from refimpl.arrays import Array, module_of, quiet
from refimpl.fast.parts import FLOATS, boxes, grain

PRODUCTS = FLOATS  # with more differences than this, products are faster


@quiet
def medoid(W: Array) -> Array:
    """`aggregate.medoid`, (..., n, d) -> (..., d)."""
    return _closest(W, module_of(W).sqrt)


@quiet
def krum(W: Array, f: int) -> Array:
    """`aggregate.krum`, (..., n, d) -> (..., d)."""
    xp = module_of(W)
    n = W.shape[-2]
    require_krum(n, f)

    def nearest(D: Array) -> Array:
        others = xp.where(xp.eye(n, dtype=bool), xp.inf, D)
        return xp.sort(others, axis=-1)[..., : n - f - 2]

    return _closest(W, nearest)


@quiet
def squared_distances(W: Array) -> Array:
    """`aggregate.squared_distances`, by products where they are faster: (..., n, d) -> (..., n, n)."""
    return or_infinite(_distances(W).astype(wide(W).dtype, copy=False))


def _distances(W: Array) -> Array:
    return by_products(wide(W)) if _large(W) else by_differences(wide(W))


def _large(W: Array) -> bool:
    """Are products worth it? Not on a GPU, which would have to wait for the answer which pairs are close."""
    *_, n, d = W.shape
    return module_of(W) is np and n * n * d > PRODUCTS and W.dtype.kind == "f"


def or_infinite(D: Array) -> Array:
    """Infinite where D, (..., n, n), is not finite, and 0 on its diagonal."""
    xp = module_of(D)
    D = xp.where(xp.isfinite(D), D, xp.inf)
    return xp.where(xp.eye(D.shape[-1], dtype=bool), 0, D)


@quiet
def by_differences(W: Array) -> Array:
    """The sum of the squared differences, a few coordinates at a time."""
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
    again, about a model among them, and by differences where that does not help. In float64, whatever W is, but
    infinite where the dtype of W would overflow.
    """
    *lead, n, _ = W.shape
    finite = np.isfinite(W).all(axis=-1)
    D = np.full((*lead, n, n), np.inf)
    for i in np.ndindex(*lead):
        if finite[i].all():
            D[i] = _about_mean(W[i])
        elif finite[i].any():
            D[i][np.ix_(finite[i], finite[i])] = _about_mean(W[i][finite[i]])
    D[np.finfo(W.dtype).max < D] = np.inf
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


def _closest(W: Array, score: Callable[[Array], Array]) -> Array:
    """The row of W whose row of score(squared distances), (..., n, m), has the smallest sum: -> (..., d).

    Where products have rounded, differences decide among those that are as small but for rounding.
    """
    xp = module_of(W)
    best, rivals = smallest(score(or_infinite(_distances(W))))
    if _large(W):
        best = np.asarray(best)
        for i in map(tuple, np.argwhere(rivals.sum(axis=-1) > 1)):
            V = wide(W[i])
            if (V[rivals[i]] != V[best[i]]).any():
                best[i], _ = smallest(score(or_infinite(by_differences(V))))
    return xp.take_along_axis(W, best[..., None, None], axis=-2)[..., 0, :]


def smallest(R: Array) -> tuple[Array, Array]:
    """Which row has the smallest sum, as in `aggregate.row_of_least`, and which are as small but for rounding.

    (..., n, m) -> (...), (..., n) bool.
    """
    xp = module_of(R)
    infinite = xp.isinf(R)
    far, near = infinite.sum(axis=-1), xp.where(infinite, 0, R).sum(axis=-1)
    near = xp.where(far == far.min(axis=-1, keepdims=True), near, xp.inf)
    rivals = near <= (1 + 1e-9 + 8 * xp.finfo(near.dtype).eps) * near.min(axis=-1, keepdims=True)
    return near.argmin(axis=-1), rivals
