"""What the tables of published.py share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from data_loaders import mnist
from refimpl import models
from refimpl.fast.elementwise import with_one
from refimpl.fast.networks import Batched, batched

Rng = np.random.Generator


class Data(NamedTuple):
    """Samples and labels; the samples have a 1 behind them, as `Batched.step` takes them."""

    rows: np.ndarray  # (n, p + 1) float32
    y: np.ndarray
    rows_test: np.ndarray
    y_test: np.ndarray


def load(data_dir: str | None, symmetric: bool) -> Data:
    """MNIST with pixels in [0, 1], or in [-1, 1] if symmetric."""
    d = mnist.load(data_dir)
    assert d.X_test is not None
    assert d.y_test is not None
    factor, less = (2, 1) if symmetric else (1, 0)
    rows, rows_test = (with_one(x.reshape(len(x), -1) * factor - less) for x in (d.X, d.X_test))
    return Data(rows, d.y, rows_test, d.y_test)


def softmax_regression(data: Data) -> Batched:
    made = batched(models.mlp((data.rows.shape[1] - 1, 10)))
    assert made
    return made


def accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    """Of logits (..., classes, n), in the mean, in percent. NaN is never right."""
    return 100 * float(np.mean((logits.argmax(axis=-2) == y) & ~np.isnan(logits).any(axis=-2)))


def mean_of(some: np.ndarray) -> np.ndarray:
    """(n, h) bool -> the coefficients of the mean of these."""
    return some / some.sum(axis=1, keepdims=True)


def products(sent: np.ndarray) -> np.ndarray:
    """Of models (m, d) about their mean, in float64: (m, m)."""
    C = sent.astype(np.float64)
    C -= C.mean(axis=0)
    return C @ C.T


def away(a: np.ndarray, P: np.ndarray) -> np.ndarray:
    """The squared distances of the points with coefficients a (h, m), of sum 1, from all models: (h, m)."""
    aP = a @ P
    return np.maximum(P.diagonal() - 2 * aP + (aP * a).sum(axis=1, keepdims=True), 0)


def geometric_median(
    hears: np.ndarray, P: np.ndarray, steps: int = 80, tolerance: float = 1e-5, nu: float = 1e-5
) -> np.ndarray:
    """`rules.geometric_median` of those models that each worker hears, (h, m) bool: coefficients (h, m)."""
    a, moving = mean_of(hears), np.ones((len(hears), 1), dtype=bool)
    for _ in range(steps):
        closeness = hears / np.maximum(np.sqrt(away(a, P)), nu)
        before, a = a, np.where(moving, closeness / closeness.sum(axis=1, keepdims=True), a)
        move = a - before
        moving = (move @ P * move).sum(axis=1, keepdims=True) > tolerance**2
        if not moving.any():
            break
    return a


class Cell(NamedTuple):
    """A number of a table."""

    row: str
    column: str
    theirs: float
    compute: Callable[[int], list[float]]
    """(rounds) -> records, of which ours is the mean"""
