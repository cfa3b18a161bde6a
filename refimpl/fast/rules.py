"""The rules for many neighbourhoods at once; the table TWINS. Plain: `aggregate`; test: test_fast_rules.py.

A rule that is not in TWINS, such as a user's own, is computed receiver by receiver as the specification does.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl import aggregate
from refimpl.aggregate import RULES, require_trimmable, trim
from refimpl.arrays import Array, module_of, quiet
from refimpl.fast import distances
from refimpl.fast.parts import FLOATS, boxes, grain


@quiet
def combine(weights: Array, W: Array) -> Array:
    """`aggregate.combine`, without its guard where all models are finite, as they usually are."""
    xp = module_of(W)
    if xp is np and np.isfinite(W).all():  # a GPU would have to wait for the answer
        return weights @ W
    return aggregate.combine(weights, W)


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
    for part in boxes((*lead, d), FLOATS * grain(xp) // (16 * n)):  # what a sort holds fits in the inner cache
        some, coordinates = part[:-1], part[-1]
        V = W[..., coordinates][some].swapaxes(-1, -2).copy()  # a coordinate's values side by side
        V.sort(axis=-1)  # NaN comes last, behind +infinity
        s[..., coordinates][some] = V[..., start:stop].swapaxes(-1, -2)
    return xp.where(xp.isnan(s), xp.inf, s)


class Twin(NamedTuple):
    """A rule for u neighbourhoods of n models, each with m receivers."""

    models: Callable[[Array, int], Array] | None = None
    """(models (u, n, d), number of attackers) -> (u, d), the same for all receivers of a neighbourhood"""
    weights: Callable[[Array, Array], Array] | None = None
    """(risks (u, m, n), own (u, m)) -> weights (u, m, n). The ratio of two weights depends on their two risks,
    so a message of several senders can be weighed once and its weight multiplied by their number"""


TWINS = {
    RULES["adaptive"].compute: Twin(weights=aggregate.adaptive_weights),
    RULES["inverse-risk"].compute: Twin(
        weights=lambda risks, own: aggregate.or_own(aggregate.inverse_risk_weights(risks), own)
    ),
    RULES["average"].compute: Twin(lambda W, f: aggregate.average(W)),
    RULES["medoid"].compute: Twin(lambda W, f: distances.medoid(W)),
    RULES["trimmed-mean"].compute: Twin(lambda W, f: trimmed_mean(W, trim(W.shape[-2], f))),
    RULES["median"].compute: Twin(lambda W, f: coordinate_median(W)),
    RULES["krum"].compute: Twin(distances.krum),
    RULES["local"].compute: Twin(),  # nothing to compute: the local step stands
}
