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
    """The mean accuracy of logits (..., classes, n), in percent. NaN is never right."""
    return 100 * float(np.mean((logits.argmax(axis=-2) == y) & ~np.isnan(logits).any(axis=-2)))


def mean_of(some: np.ndarray) -> np.ndarray:
    """The coefficients of the mean of the models that each row of `some` (n, h) bool names."""
    return some / some.sum(axis=1, keepdims=True)


def geometric_median(W: np.ndarray, steps: int = 80, tolerance: float = 1e-5, nu: float = 1e-5) -> np.ndarray:
    """`rules.geometric_median` of models (n, d) that are finite: (d,).

    The point is a linear combination of the models, and its coefficients depend on their products only: about
    30 times as fast with ten models of 7 850 numbers.
    """
    C = W.astype(np.float64)
    C -= C.mean(axis=0)
    P, a = C @ C.T, np.full(len(W), 1 / len(W))
    for _ in range(steps):
        aP = a @ P
        squared_distances = np.maximum(P.diagonal() - 2 * aP + aP @ a, 0)
        closeness = 1 / np.maximum(np.sqrt(squared_distances), nu)
        before, a = a, closeness / closeness.sum()
        if (a - before) @ P @ (a - before) <= tolerance**2:
            break
    return a.astype(W.dtype) @ W


class Cell(NamedTuple):
    """A number of a table."""

    row: str
    column: str
    theirs: float
    compute: Callable[[int], list[float]]
    """(rounds) -> records, of which ours is the mean"""
