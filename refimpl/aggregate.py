"""Aggregation: Eq. (5), (6) and (3), then the paper's baselines; the table RULES is at the end.

The paper's rule is the first section and the first entry of RULES; it needs nothing in between.

W is (n, d): the n models of a neighbourhood, one per row, in ascending order of the workers' numbers. Ties go
to the lowest number. Results keep the dtype and the array module of the input, and inputs are never written to.
Arrays may be of any library with the Python array API standard: only its functions are used.

A model with a NaN or infinite entry is "not finite"; attackers may send one.
"""

from collections.abc import Callable
from typing import NamedTuple

from refimpl.arrays import Array, module_of, positions, quiet

# --- The paper's rule ---------------------------------------------------------------------------------------


@quiet
def inverse_risk_weights(risks: Array) -> Array:
    """c_l = r_l^-1 / sum_p r_p^-1: Eq. (5). (n,) -> (n,).

    Risks are not negative. Computed as min(r) / r, normalised, which cannot overflow. Zero risks share all the
    weight equally, the limit if they tend to 0 together. A NaN or infinite risk has weight 0, so if no risk is
    finite, all weights are 0.
    """
    xp = module_of(risks)
    r = xp.where(xp.isfinite(risks), risks, xp.inf)
    c = xp.where(r == xp.min(r), 1.0, xp.min(r) / r)  # min(r) / min(r) is 1, even if it is 0 / 0
    c = xp.where(xp.isfinite(r), c, 0.0)
    total = xp.sum(c)
    return c / xp.where(total > 0, total, 1.0)  # Eq. (5); the sum is >= 1, or 0 if none is finite


@quiet
def adaptive_weights(risks: Array, own: int) -> Array:
    """Eq. (5) over N_k^+ = {l : r_l <= r_own}, 0 elsewhere: Eq. (6). (n,) -> (n,).

    `own` is the receiver's position among the n; raises ValueError if it is not one of them. If its own risk
    is not finite, every model of finite risk passes; if there is none, the receiver keeps its own model.
    """
    xp, n = module_of(risks), risks.shape[0]
    if not 0 <= own < n:
        raise ValueError(f"adaptive_weights needs 0 <= own < n, got own={own}, n={n}")
    in_N_plus = (risks <= risks[own]) | ~xp.isfinite(risks[own])
    return or_keep_own(inverse_risk_weights(xp.where(in_N_plus, risks, xp.inf)), own)  # Eq. (6)


def or_keep_own(weights: Array, own: int) -> Array:
    """The weights (n,), or all weight on the receiver's own model if they are all 0."""
    xp = module_of(weights)
    return xp.where(xp.any(weights != 0), weights, xp.asarray(positions(weights) == own, dtype=weights.dtype))


@quiet
def combine(weights: Array, W: Array) -> Array:
    """sum_l c_l w_l: Eq. (3). (n,), (n, d) -> (d,).

    A model of weight 0 contributes nothing, even if it is not finite (0 * NaN would be NaN). One of positive
    weight that is not finite makes the result NaN.
    """
    xp = module_of(W)
    finite = xp.all(xp.isfinite(W), axis=1, keepdims=True)
    w = weights @ xp.where(finite, W, 0.0)  # Eq. (3)
    weight_on_not_finite = weights @ xp.asarray(~finite, dtype=W.dtype)
    return xp.where(weight_on_not_finite > 0, xp.nan, w)


# --- The paper's baselines ----------------------------------------------------------------------------------


@quiet
def average(W: Array) -> Array:
    """The mean of the models, (n, d) -> (d,). NaN in, NaN out."""
    return module_of(W).mean(W, axis=0)


@quiet
def coordinate_median(W: Array) -> Array:
    """The median of each coordinate, (n, d) -> (d,): BRIDGE-M (Fang et al. 2022).

    The mean of the two middle values when n is even. NaN counts as +infinity.
    """
    n, s = W.shape[0], ascending(W)
    return (s[(n - 1) // 2, :] + s[n // 2, :]) / 2


@quiet
def trimmed_mean(W: Array, f: int) -> Array:
    """The mean of each coordinate without its f lowest and f highest values: BRIDGE-T (Fang et al. 2022).

    (n, d) -> (d,). The receiver's own value is trimmed like any other. NaN counts as +infinity.
    Raises ValueError unless n >= 2f + 1.
    """
    n = W.shape[0]
    require_trimmable(n, f)
    return average(ascending(W)[f : n - f, :])


@quiet
def medoid(W: Array) -> Array:
    """The model with the smallest sum of Euclidean distances to the others, (n, d) -> (d,).

    See `row_of_least` for models that are infinitely far away.
    """
    return row_of_least(module_of(W).sqrt(squared_distances(W)), W)


@quiet
def krum(W: Array, f: int) -> Array:
    """The model whose n - f - 2 nearest others have the smallest sum of squared distances to it.

    Krum (Blanchard et al. 2017, Sec. 4); within BRIDGE it is BRIDGE-K. (n, d) -> (d,).
    Raises ValueError unless n >= 2f + 3.
    """
    xp, n = module_of(W), W.shape[0]
    require_krum(n, f)
    to_others = xp.where(diagonal(W), xp.inf, squared_distances(W))
    nearest = xp.sort(to_others, axis=1)[:, : n - f - 2]
    return row_of_least(nearest, W)


def ascending(W: Array) -> Array:
    """Each coordinate's values in ascending order, NaN as +infinity: (n, d) -> (n, d)."""
    xp = module_of(W)
    return xp.sort(xp.where(xp.isnan(W), xp.inf, W), axis=0)


@quiet
def squared_distances(W: Array) -> Array:
    """|w_i - w_j|^2 for all pairs, (n, d) -> (n, n), by explicit differences.

    Between two models, infinite if one of them is not finite or the square overflows; 0 on the diagonal.
    Computed in float64 for whole numbers, booleans and float16, whose squares would soon overflow.
    """
    xp, W = module_of(W), as_float(W)
    D = xp.stack([xp.sum((W - W[i, :]) ** 2, axis=1) for i in range(W.shape[0])])
    D = xp.where(xp.isfinite(D), D, xp.inf)
    return xp.where(diagonal(W), 0.0, D)


def as_float(W: Array) -> Array:
    """W itself if it is float32 or float64, else as float64."""
    xp = module_of(W)
    return W if W.dtype in (xp.float32, xp.float64) else xp.asarray(W, dtype=xp.float64)


def diagonal(W: Array) -> Array:
    """Where a model meets itself in a table of all pairs of models: (n, d) -> (n, n) bool."""
    i = positions(W)
    return i[:, None] == i[None, :]


def row_of_least(scores: Array, W: Array) -> Array:
    """The row of W whose row of `scores` has the smallest sum; (n, m), (n, d) -> (d,).

    Infinite scores are compared as if they all grew without bound together: fewest of them first, then the
    smallest sum of the finite ones, then the lowest index. So a few models far away do not hide the rest.
    """
    xp = module_of(W)
    infinite = xp.isinf(scores)
    far, near = xp.count_nonzero(infinite, axis=1), xp.sum(xp.where(infinite, 0.0, scores), axis=1)
    best = xp.argmin(xp.where(far == xp.min(far), near, xp.inf), keepdims=True)
    return xp.take(W, best, axis=0)[0, :]


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


def trim_count(n: int, f: int) -> int:
    """How many of n values BRIDGE-T trims on each side: f, or n // 10 if there are no attackers.

    Sec. 5 has 10 %, and does not say whether on each side or on both together; we trim this many on each.
    """
    return f if f > 0 else n // 10


# --- The table ----------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """An entry of RULES."""

    compute: Callable[[Array, Array, int, int], Array]
    """(models (n, d), risks (n,) or None, own position, number of attackers) -> weights (n,) or a model (d,)"""
    about: str
    reference: str
    scores: bool = False  # does it look at risks?
    weighs: bool = False  # does it return weights, to be combined by Eq. (3)?
    listens: bool = True  # does it need what the others send?
    require: Callable[[int, int], None] = lambda n, f: None
    """raises ValueError if it is not defined for a neighbourhood of n models with f attackers"""
    needs: str = "nothing"  # what a worker must know besides its own data and what it hears


RULES = {
    "adaptive": Rule(
        lambda W, risks, own, f: adaptive_weights(risks, own),
        "averages the models no worse than one's own, weighted by 1 / risk",
        "Eq. (6)",
        scores=True,
        weighs=True,
    ),
    "inverse-risk": Rule(
        lambda W, risks, own, f: or_keep_own(inverse_risk_weights(risks), own),
        "averages all models, weighted by 1 / risk",
        "Eq. (5)",
        scores=True,
        weighs=True,
    ),
    "average": Rule(lambda W, risks, own, f: average(W), "mean of all models", "Sec. 5"),
    "medoid": Rule(
        lambda W, risks, own, f: medoid(W),
        "the model nearest to all others",
        "Sec. 5",
        needs="that most are honest",
    ),
    "trimmed-mean": Rule(
        lambda W, risks, own, f: trimmed_mean(W, trim_count(W.shape[0], f)),
        "mean without the f lowest and f highest values (TM); f = n / 10 if nobody lies",
        "BRIDGE-T, Fang et al. 2022",
        require=lambda n, f: require_trimmable(n, trim_count(n, f)),
        needs="the number of attackers",
    ),
    "median": Rule(
        lambda W, risks, own, f: coordinate_median(W),
        "median of each coordinate (the paper's CM)",
        "BRIDGE-M, Fang et al. 2022",
        needs="that most are honest",
    ),
    "krum": Rule(
        lambda W, risks, own, f: krum(W, f),
        "the model nearest to its n - f - 2 nearest others",
        "Blanchard et al. 2017",
        require=require_krum,
        needs="the number of attackers",
    ),
    "local": Rule(
        lambda W, risks, own, f: W[own, :],
        "one's own model: never listens to anyone",
        "-",
        listens=False,
    ),
}
