"""What a network computes number by number. Plain: `layers`; test: test_networks.py."""

import functools
from typing import Any

import numpy as np

from refimpl.arrays import Array, module_of

LARGE = 80  # float32 holds e^80


def count(y: Array, dtype: Any) -> Array:
    """How many rows of y are not padding, (..., n) -> (...)."""
    return (y >= 0).sum(axis=-1).astype(dtype)


def full(y: Array) -> bool:
    """True only if no row is padding; also False on a GPU, which would have to wait for the answer."""
    return module_of(y) is np and bool(y.size and y.min() >= 0)


def with_one(x: Array) -> Array:
    """x with a 1 behind each row: (..., p) -> (..., p + 1)."""
    longer = module_of(x).empty((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
    longer[..., :-1], longer[..., -1] = x, 1
    return longer


def relu(x: Array, out: Array | None = None) -> Array:
    """`layers.relu`, in place or to `out`. numpy takes a third of the time with an array of zeros for the 0."""
    xp = module_of(x)
    shape = x.shape if x.size <= 2**18 else x.shape[-2:] if x.shape[-1] < 1000 else x.shape[-1:]
    return xp.maximum(x, _zeros(shape, x.dtype.str) if xp is np else 0, out=x if out is None else out)


@functools.lru_cache(maxsize=64)
def _zeros(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.zeros(shape, dtype)


def cross_entropy(z: Array, y: Array) -> Array:
    """`layers.softmax_cross_entropy` of (..., c, n), (..., n) -> (..., n). Writes to z."""
    xp = module_of(z)
    *lead, c, n = z.shape
    if c == 2 and xp is np and n:
        u = z[..., 0, :] - z[..., 1, :]
        if u.min() > -LARGE and u.max() < LARGE:  # not if one is NaN
            return _of_two(u, y)
    z -= z.max(axis=-2, keepdims=True)
    if xp is np and y.size == n:  # the same labels for all: a fifth of the time
        z_y = z.reshape(*lead, c * n).take(y.ravel() * n + np.arange(n), axis=-1)
    else:
        z_y = xp.where(y[..., None, :] == xp.arange(c)[:, None], z, 0).sum(axis=-2)
    xp.exp(z, out=z)
    losses = z.sum(axis=-2)
    xp.log(losses, out=losses)
    losses -= z_y
    return losses if full(y) else xp.where(y >= 0, losses, 0)


def _of_two(u: Array, y: Array) -> Array:
    """The cross-entropy of two classes from small differences of their logits, in half the time. Writes to u.

    It is log(1 + e^u), u the other class's logit less the label's.
    """
    u *= (2 * y - 1).astype(u.dtype)
    np.exp(u, out=u)
    u += 1
    np.log(u, out=u)
    return u if full(y) else np.where(y >= 0, u, 0)


def cross_entropy_backward(z: Array, y: Array, padded: bool = True) -> Array:
    """`layers.softmax_cross_entropy_backward` of (..., c, n), (..., n) -> (..., c, n). Writes to z.

    `padded`: whether a row of y may be padding.
    """
    xp = module_of(z)
    z -= z.max(axis=-2, keepdims=True)
    xp.exp(z, out=z)
    z /= z.sum(axis=-2, keepdims=True)
    z -= y[..., None, :] == xp.arange(z.shape[-2])[:, None]
    return xp.where(y[..., None, :] >= 0, z, 0) if padded else z
