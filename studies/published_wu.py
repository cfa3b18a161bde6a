"""Wu, Ling, Chen and Giannakis 2020 (Byrd-SAGA), Table I, mini-batch SGD; see published.py.

No other network here has tanh, so this one is written out.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from published_common import Cell, Data, Rng, accuracy, geometric_median

from refimpl import aggregate
from refimpl.arrays import quiet
from refimpl.fast.elementwise import with_one

WU = {"none": (98.6, 98.0), "gaussian": (36.3, 98.0), "sign": (0.16, 90.3), "zero": (9.89, 81.5)}
WU_ATTACKS: dict[str, Callable[[np.ndarray, Rng], np.ndarray]] = {
    "none": lambda G, rng: G[:0],
    "gaussian": lambda G, rng: G.mean(axis=0) + 30 * rng.standard_normal((20, G.shape[1]), G.dtype),
    "sign": lambda G, rng: np.tile(-3 * G.mean(axis=0), (20, 1)),
    "zero": lambda G, rng: np.tile(-G.sum(axis=0) / 20, (20, 1)),
}


WU_RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": aggregate.average,
    "geometric median": geometric_median,
}
HIDDEN, CLASSES = 50, 10


def layers_of(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Views of the two layers, the bias in the last row: (..., d) -> (..., p + 1, 50), (..., 51, 10)."""
    *lead, d = w.shape
    first = d - (HIDDEN + 1) * CLASSES
    return w[..., :first].reshape(*lead, -1, HIDDEN), w[..., first:].reshape(*lead, -1, CLASSES)


def softmax(z: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (..., n, p + 1) -> the hidden layer with a 1 behind (..., n, 51), the outputs (..., n, 10)."""
    A, B = layers_of(w)
    H = with_one(np.tanh(rows @ A))
    return H, softmax(H @ B)


def gradients(w: np.ndarray, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradients of a model's mean loss on each client's batch: (d,), (c, n, p + 1), (c, n) -> (c, d).

    The loss is the cross-entropy, which takes outputs for logits, as in their code: softmax is applied twice.
    """
    H, out = forward(w, rows)
    d_out = (softmax(out) - np.eye(CLASSES, dtype=w.dtype)[y]) / w.dtype.type(y.shape[1])
    dz = out * (d_out - (d_out * out).sum(axis=-1, keepdims=True))
    dH = dz @ layers_of(w)[1][:-1].T * (1 - H[..., :-1] ** 2)
    G = np.empty((len(y), len(w)), w.dtype)
    dA, dB = layers_of(G)
    np.matmul(rows.swapaxes(1, 2), dH, out=dA)
    np.matmul(H.swapaxes(1, 2), dz, out=dB)
    return G


@quiet
def wu_cell(data: Data, rule: str, attack: str, seed: int, rounds: int) -> list[float]:
    """A server, 50 honest clients with a 50th of the data each, 20 attackers; batches of 50, mu 0.5, no decay.

    784-50-10, tanh. From their code: pixels less 0.1307, divided by 0.3081, and through tanh, too; a start
    uniform in +- fan_in^-0.5; rows as they come, batches with replacement; Gaussian attackers with a standard
    deviation of 30 (their paper: variance). Not from their notebook, but from their paper: sign flipping by
    -3 (there -10), and 70 messages (there 90, 20 of them zeros besides the attackers'). The accuracy is that
    on the training data: their code computes both and the table does not say which, but without an attack the
    mean has 98.7 there, where they have 98.6, and 96.7 on the test images.
    """
    rng = np.random.default_rng(seed)
    rows = with_one(np.tanh((data.rows[:, :-1] - 0.1307) / 0.3081))
    fans = ((rows.shape[1], HIDDEN), (HIDDEN + 1, CLASSES))
    start = [rng.uniform(-1, 1, (p, h)) * (p - 1) ** -0.5 for p, h in fans]
    w: np.ndarray = np.concatenate([tensor.ravel() for tensor in start]).astype(np.float32)
    size = len(data.y) // 50
    for _ in range(rounds):
        batch = np.arange(50)[:, None] * size + rng.integers(size, size=(50, 50))
        G = gradients(w, rows[batch], data.y[batch])
        w = w - np.float32(0.5) * WU_RULES[rule](np.concatenate([G, WU_ATTACKS[attack](G, rng)]))
    return [accuracy(forward(w, rows)[1].T, data.y)]


def wu(data: Data, options: argparse.Namespace) -> Iterator[Cell]:
    for attack, numbers in WU.items():
        for rule, theirs in zip(WU_RULES, numbers, strict=True):
            yield Cell(rule, attack, theirs, partial(wu_cell, data, rule, attack, options.seed))
