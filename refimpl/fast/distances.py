"""Distances between models by matrix products. Plain: `aggregate.squared_distances`; test: test_distances.py.

Differences of all pairs of n models are n^2 d numbers, too many for a cache. A product needs none of them, but
loses digits between models that are close to each other and far from the origin. So products are centred, and
close pairs done again, until distances are right to 1e-9. Ties are decided by differences, so that the lowest
index still wins them.
"""

import math
from collections.abc import Callable

import numpy as np

from refimpl.aggregate import as_float, require_krum
from refimpl.arrays import Array, module_of, quiet
from refimpl.fast.parallel import FLOATS, device_factor, tiles

PRODUCTS = FLOATS  # with more differences than this, products are faster
PRECISION = 1e-10  # of a distance by products, relative


@quiet
def medoid(W: Array) -> Array:
    """`aggregate.medoid`, (..., n, d) -> (..., d)."""
    return _closest(W, module_of(W).sqrt)


@quiet
def krum(W: Array, f: int) -> Array:
    """`aggregate.krum`, (..., n, d) -> (..., d)."""
    n = W.shape[-2]
    require_krum(n, f)

    def nearest(D: Array) -> Array:
        D.sort(axis=-1)
        return D[..., 1 : n - f - 1]  # all but the 0 of the diagonal

    return _closest(W, nearest)


def _by_differences_alone(W: Array) -> bool:
    """Whether W is of whole numbers, whose differences are exact, or on a GPU, which would have to wait."""
    return module_of(W) is not np or W.dtype.kind != "f"


def between(V: np.ndarray) -> np.ndarray:
    """`aggregate.squared_distances` of floats (n, d) in float64; infinite where their own dtype overflows."""
    n, d = V.shape
    # pdist would take longer to convert them.
    D = by_products(V) if n * n * d > PRODUCTS else of_pairs(V.astype(np.float64), "sqeuclidean")
    most = np.finfo(V.dtype).max
    return D if D.max() <= most else or_infinite(np.where(most >= D, D, np.inf))  # larger, or NaN


def or_infinite(D: Array) -> Array:
    """D (..., n, n) with infinity where it is not finite, and 0 on its diagonal."""
    xp = module_of(D)
    D = xp.where(xp.isfinite(D), D, xp.inf)
    return xp.where(xp.eye(D.shape[-1], dtype=bool), 0, D)


@quiet
def by_differences(W: Array) -> Array:
    """The sums of squared differences, (..., n, d) -> (..., n, n), a few coordinates at a time."""
    xp = module_of(W)
    *lead, n, d = W.shape
    D = xp.zeros((*lead, n, n), W.dtype)
    for part in tiles((*lead, d), FLOATS * device_factor(xp) // n**2):
        some, coordinates = part[:-1], part[-1]
        V = W[..., coordinates][some]
        diff = V[..., :, None, :] - V[..., None, :, :]
        diff *= diff
        D[some] += diff.sum(axis=-1)
    return D


def by_products(V: np.ndarray) -> np.ndarray:
    """The squared distances from |c_i|^2 + |c_j|^2 - 2 c_i c_j, c being the models about one of them.

    That takes a tenth of the time of differences.

    The subtraction loses digits between models that are closer to each other than to that one. It loses few
    enough for PRECISION as long as the result is not much smaller than |c_i|^2 + |c_j|^2; the other pairs are
    done again, about a model among them, and by differences where that does not help. Models that are equal, as
    those of attackers who collude, are looked at once.
    """
    D = np.full((len(V), len(V)), np.inf)
    finite = np.flatnonzero(np.isfinite(V).all(axis=-1))
    if len(finite):
        sound = V if len(finite) == len(V) else V[finite]
        kept, place = different(sound)
        apart = sound if len(kept) == len(sound) else sound[kept]
        D[np.ix_(finite, finite)] = _about_one(apart)[np.ix_(place, place)]
    return D


def different(V: np.ndarray) -> tuple[list[int], list[int]]:
    """The numbers of the rows that equal no earlier one, and each row's place among these, by its equal."""
    kept: list[int] = []
    place: list[int] = []
    alike: dict[bytes, list[int]] = {}
    for i, row in enumerate(V):
        rows = alike.setdefault(row[:16].tobytes(), [])
        equal = next((j for j in rows if np.array_equal(V[kept[j]], row)), None)
        if equal is None:
            equal = len(kept)
            rows.append(equal)
            kept.append(i)
        place.append(equal)
    return kept, place


def _about_one(V: np.ndarray) -> np.ndarray:
    """The squared distances of finite models, from products about one of them: (n, d) -> (n, n).

    The one that is nearest to the others in some coordinates: it is in the midst of those that nearly agree.
    """
    n, d = V.shape
    some = V[:, :: max(1, d // 256)].astype(np.float64)
    centre = V[of_pairs(some).sum(axis=0).argmin()]
    G = np.zeros((n, n))
    for (part,) in tiles((d,), FLOATS // (8 * n)):
        C = V[:, part].astype(np.float64)
        C -= centre[part]
        G += C @ C.T
    scale = G.diagonal()[:, None] + G.diagonal()
    D = scale - 2 * G
    lost = 16 * d**0.5 * np.finfo(float).eps * scale  # by rounding
    close = ~(lost <= PRECISION * D)  # also where the scale has overflowed
    close[np.diag_indices(n)] = D[np.diag_indices(n)] = False
    if not close.any():
        return D
    group = linked(close)
    for k in np.flatnonzero(np.bincount(group) > 1):
        near = np.flatnonzero(group == k)
        if len(near) < n:
            D[np.ix_(near, near)] = _about_one(V[near])
        else:
            for i, j in zip(*np.nonzero(close), strict=True):
                D[i, j] = ((V[i].astype(np.float64) - V[j]) ** 2).sum()
    return D


def of_pairs(V: np.ndarray, metric: str = "euclidean") -> np.ndarray:
    """The distances of all pairs of rows, (n, d) -> (n, n)."""
    from scipy.spatial.distance import (  # here, as it takes longer to import than all of refimpl
        pdist,
        squareform,
    )

    return squareform(pdist(V, metric))


def linked(close: np.ndarray) -> np.ndarray:
    """The number of the group that each model is in, (n, n) bool -> (n,): models that are close share one."""
    from scipy.sparse.csgraph import connected_components  # here for the same reason

    return connected_components(close, directed=False)[1]


def _closest(W: Array, score: Callable[[Array], Array]) -> Array:
    """The row of W whose row of score(squared distances), (..., n, m), has the smallest sum: -> (..., d)."""
    xp = module_of(W)
    if _by_differences_alone(W):
        best, _ = smallest(score(or_infinite(by_differences(as_float(W)))))
        return xp.take_along_axis(W, best[..., None, None], axis=-2)[..., 0, :]
    *lead, n, d = W.shape
    result = np.empty((math.prod(lead), d), W.dtype)
    for i, V in enumerate(W.reshape(-1, n, d)):
        result[i] = V[_best(V, score)]
    return result.reshape(*lead, d)


def _best(V: np.ndarray, score: Callable[[Array], Array]) -> int:
    """The index of the row of V (n, d) with the smallest score. Differences decide where rounding could."""
    V = as_float(V)
    best, rivals = smallest(score(between(V)))
    if np.count_nonzero(rivals) > 1 and (V[rivals] != V[best]).any():
        best, _ = smallest(score(or_infinite(by_differences(V))))
    return int(best)


def smallest(R: Array) -> tuple[Array, Array]:
    """The index of the row of least sum, as in `aggregate.row_of_least`, and its rivals within rounding.

    (..., n, m) -> (...), (..., n) bool.
    """
    xp = module_of(R)
    near = R.sum(axis=-1)
    if xp is not np or not near.max(initial=0) < np.inf:
        infinite = xp.isinf(R)
        far, near = infinite.sum(axis=-1), xp.where(infinite, 0, R).sum(axis=-1)
        near = xp.where(far == far.min(axis=-1, keepdims=True), near, xp.inf)
    rivals = near <= (1 + 1e-9 + 8 * xp.finfo(near.dtype).eps) * near.min(axis=-1, keepdims=True)
    return near.argmin(axis=-1), rivals
