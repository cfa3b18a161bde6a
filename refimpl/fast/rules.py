"""The rules for many neighbourhoods at once: the table TWINS. Plain: `aggregate`; test: test_fast_rules.py.

And the attacks that take some coordinates at a time: the table COORDINATEWISE. Plain: `attacks`.

A rule that is not in TWINS, such as a user's own, is computed receiver by receiver as the specification does.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl.aggregate import RULES, require_trimmable, trim_count
from refimpl.arrays import Array, module_of, quiet
from refimpl.attacks import ATTACKS, alie_z
from refimpl.fast import distances
from refimpl.fast.parallel import FLOATS, device_factor, parallel_for, tiles

COLUMNS = 2048  # of Eq. (3) at a time: OpenBLAS takes half the time per column for products as small as that


def all_finite(W: Array) -> bool:
    """True only if all entries are finite; also False on a GPU, which would have to wait for the answer.

    A sum of squares with an entry that is not finite is not finite either; it is one product.
    """
    return module_of(W) is np and math.isfinite(np.vdot(W, W))


def a_little_is_enough(honest: Array, z: float) -> Array:
    """`attacks.a_little_is_enough`, (h, d) -> (d,); means are products, in half the time."""
    xp = module_of(honest)
    share = xp.empty(len(honest), honest.dtype)
    share.fill(1 / len(honest))
    mean = share @ honest
    D = honest - mean
    D *= D
    std = xp.sqrt(share @ D)
    std *= z
    return mean - std


def combine_into(
    weights: Array, M: Array, finite: bool, W: Array, receivers: Array, receiver_slice: Array | slice
) -> None:
    """`aggregate.combine`, (u, m, n), (u, n, d) -> W[receivers]; without its guard if all models are finite.

    `receiver_slice` are the receivers of a single neighbourhood; where it is a slice, nothing is copied.
    """
    if not finite:
        W[receivers] = combine(weights, M)
    elif len(M) > 1:
        W[receivers] = weights @ M
    else:

        def fill(part: tuple[slice, ...]) -> None:
            for start in range(part[0].start, min(part[0].stop, M.shape[2]), COLUMNS):
                some = slice(start, min(start + COLUMNS, part[0].stop))
                if isinstance(receiver_slice, slice):
                    np.matmul(weights[0], M[0][:, some], out=W[receiver_slice, some])
                else:
                    W[receiver_slice, some] = weights[0] @ M[0][:, some]

        # Several to a part: with fewer, threads would wait for the interpreter lock.
        parallel_for(fill, tiles(M.shape[2:], 8 * COLUMNS))


def combine(weights: Array, M: Array) -> Array:
    """`aggregate.combine`, (u, m, n), (u, n, d) -> (u, m, d)."""
    xp = module_of(M)
    finite = xp.isfinite(M).all(axis=-1, keepdims=True)
    weight_on_lost = weights @ (~finite).astype(M.dtype)
    return xp.where(weight_on_lost > 0, xp.nan, weights @ xp.where(finite, M, 0))


def adaptive_weights(risks: Array, own: Array, senders: Array | None = None) -> Array:
    """`aggregate.adaptive_weights`, (u, m, n), (u, m) -> (u, m, n); see `Twin.weights`."""
    xp, n = module_of(risks), risks.shape[-1]
    mine = risks.reshape(-1)[own.ravel() + n * xp.arange(own.size)].reshape(*own.shape, 1)
    if xp is np and _ordinary(risks.min(), mine.max()):
        return shares((risks <= mine) / risks, senders)  # N_k^+
    in_N_plus = (risks <= mine) | ~xp.isfinite(mine)
    return shares(_inverse(xp.where(in_N_plus, risks, xp.inf), own), senders)


def inverse_risk_weights(risks: Array, own: Array, senders: Array | None = None) -> Array:
    """`aggregate.inverse_risk_weights`, and `or_keep_own`, (u, m, n), (u, m) -> (u, m, n)."""
    if module_of(risks) is np and _ordinary(risks.min(), risks.max()):
        return shares(1 / risks, senders)
    return shares(_inverse(risks, own), senders)


@quiet
def _inverse(risks: Array, own: Array) -> Array:
    """Numbers in proportion to 1 / risk, whatever the risks are; 1 for one's own model if none is finite."""
    xp = module_of(risks)
    r = xp.where(xp.isfinite(risks), risks, xp.inf)
    best = r.min(axis=-1, keepdims=True)
    c = xp.where(xp.isfinite(r), xp.where(r == best, 1.0, best / r).astype(r.dtype), 0)
    is_own = xp.arange(r.shape[-1]) == own[..., None]
    return xp.where(xp.isfinite(best), c, is_own.astype(r.dtype))


def shares(c: Array, senders: Array | None) -> Array:
    """c (u, m, n), times the number of senders (u, 1, n) if given, in proportion, with sum 1. Writes to c."""
    if senders is not None:
        c *= senders
    c /= c.sum(axis=-1, keepdims=True)
    return c


def _ordinary(lowest: Array, highest: Array) -> bool:
    """Whether Eq. (5) can be computed as it stands from risks between these, in a quarter of the calls."""
    return bool(lowest > 1e-30 and highest < 1e30)


@quiet
def coordinate_median(W: Array) -> Array:
    """`aggregate.coordinate_median`, (..., n, d) -> (..., d)."""
    n = W.shape[-2]
    low, high = (n - 1) // 2, n // 2
    s = ascending(W, low, high + 1)
    return (s[..., 0, :] + s[..., high - low, :]) / 2


@quiet
def trimmed_mean(W: Array, f: int) -> Array:
    """`aggregate.trimmed_mean`, (..., n, d) -> (..., d)."""
    n = W.shape[-2]
    require_trimmable(n, f)
    return ascending(W, f, n - f).mean(axis=-2)


def ascending(W: Array, start: int, stop: int) -> Array:
    """`aggregate.ascending`, from place `start` to before `stop`."""
    xp = module_of(W)
    *lead, n, d = W.shape
    s = xp.empty((*lead, stop - start, d), W.dtype)

    def fill(part: tuple[slice, ...]) -> None:
        some, coordinates = part[:-1], part[-1]
        V = W[..., coordinates][some].swapaxes(-1, -2).copy()  # a coordinate's values side by side
        V.sort(axis=-1)  # NaN comes last, behind +infinity
        s[..., coordinates][some] = V[..., start:stop].swapaxes(-1, -2)

    most = FLOATS * device_factor(xp) // (16 * n)  # what a sort holds fits in the inner cache
    parallel_for(fill, tiles((*lead, d), most))
    return xp.where(xp.isnan(s), xp.inf, s)


class Twin(NamedTuple):
    """A rule for u neighbourhoods of n models, each with m receivers."""

    models: Callable[[Array, int], Array] | None = None
    """(models (u, n, d), number of attackers) -> (u, d), the same for all receivers of a neighbourhood"""
    weights: Callable[..., Array] | None = None
    """(risks (u, m, n), own (u, m), senders (u, 1, n) or None) -> weights (u, m, n). The ratio of two weights
    depends on their two risks, so a message of several is weighed once, times their number in the end"""
    filters: bool = False
    """whether a model with a higher risk than the receiver's own has no weight, however much higher it is"""


TWINS = {
    RULES["adaptive"].compute: Twin(weights=adaptive_weights, filters=True),
    RULES["inverse-risk"].compute: Twin(weights=inverse_risk_weights),
    RULES["average"].compute: Twin(lambda W, f: W.mean(axis=-2)),
    RULES["medoid"].compute: Twin(lambda W, f: distances.medoid(W)),
    RULES["trimmed-mean"].compute: Twin(lambda W, f: trimmed_mean(W, trim_count(W.shape[-2], f))),
    RULES["median"].compute: Twin(lambda W, f: coordinate_median(W)),
    RULES["krum"].compute: Twin(distances.krum),
    RULES["local"].compute: Twin(),  # nothing to compute: the local step stands
}

# Attacks that treat every coordinate by itself, so that they may be computed some coordinates at a time: how.
COORDINATEWISE = {ATTACKS[name].send: ATTACKS[name].send for name in ("none", "sign-flip", "arbitrary", "foe")}
COORDINATEWISE[ATTACKS["alie"].send] = lambda honest, counts: a_little_is_enough(honest, alie_z(*counts))
