"""Variants of the loss, the local steps and the mixing weights."""

from collections.abc import Callable

import numpy as np

from refimpl import layers
from refimpl.audit.variant import Variant
from refimpl.related.mixing import metropolis_weights

cross_entropy = layers.softmax_cross_entropy


def overflowing(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    z_y = z[np.arange(len(y)), y]
    return np.where(y >= 0, np.log(np.exp(z).sum(axis=1)) - z_y, 0)


def clipped(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """-log(p + 1e-8) of the softmax."""
    p = np.exp(-cross_entropy(z, np.maximum(y, 0)))
    return np.where(y >= 0, -np.log(p + 1e-8), 0)


def adam(
    corrected: bool = True,
    step: Callable = lambda m, v: m / (np.sqrt(v) + 1e-8),
    betas: tuple[float, float] = (0.9, 0.999),
    later: int = 0,
) -> Callable:
    """Adam with something changed; `later` is added to the step's number."""

    def compute(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
        m = v = np.zeros_like(w)
        for t, g in enumerate(gradients, start=1 + later):
            m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
            m_hat, v_hat = (m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)) if corrected else (m, v)
            w = w - mu * step(m_hat, v_hat)
        return w

    return compute


def epsilon_hat(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    """eps is added before the second moment is corrected."""
    m = v = np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - mu * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
    return w


def forgetful(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    for t, g in enumerate(gradients, start=1):
        m_hat, v_hat = 0.1 * g / (1 - 0.9**t), 0.001 * g * g / (1 - 0.999**t)
        w = w - mu * m_hat / (np.sqrt(v_hat) + 1e-8)
    return w


def mixing(edge: Callable[[np.ndarray, np.ndarray], np.ndarray], itself: int = 0) -> Callable:
    """Symmetric weights edge(d_i, d_j); `itself` is added to the degrees."""

    def compute(graph: np.ndarray) -> np.ndarray:
        edges = graph & ~np.eye(len(graph), dtype=bool)
        d = edges.sum(axis=1) + itself
        W = np.where(edges, edge(d[:, None], d), 0.0)
        return W + np.diag(1 - W.sum(axis=1))

    return compute


# A path of three workers, and two that hear each other.
THREE_AND_TWO = [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]

VARIANTS = {
    "softmax-cross-entropy": (
        Variant(
            "cross-entropy that overflows",
            "log(sum exp z) without subtracting the maximum",
            "",
            overflowing,
            (([[0, 1000]], [0]), ([[0, 0, 1000]], [0])),
        ),
        Variant(
            "padding counts as the last class",
            "label -1 picks the last column, as Python's indices do",
            "numpy indexing",
            lambda z, y: cross_entropy(z, y % z.shape[1]),
            (([[0, 0]], [-1]), ([[0, 0], [0, 0]], [0, -1])),
        ),
        Variant(
            "cross-entropy of the sigmoid",
            "the softmax cross-entropy of 1 / (1 + exp(-z))",
            "the released code on Spambase",
            lambda z, y: cross_entropy(1 / (1 + np.exp(-z)), y),
            (([[0, 1]], [0]), ([[0, 0], [0, 1]], [0, 0])),
        ),
        Variant(
            "cross-entropy of the softmax",
            "the softmax is taken twice: of z, and inside the loss",
            "torch's CrossEntropyLoss on probabilities",
            lambda z, y: cross_entropy(
                np.exp(
                    z
                    - z.max(axis=1, keepdims=True)
                    - np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
                ),
                y,
            ),
            (([[0, 1]], [0]), ([[0, 0], [0, 1]], [0, 0])),
        ),
        Variant(
            "in bits",
            "the logarithm to base 2",
            "",
            lambda z, y: cross_entropy(z, y) / np.log(2),
            (([[0, 0]], [0]), ([[0, 0, 0]], [0])),
        ),
        Variant(
            "-log(p + 1e-8)",
            "the probability plus a guard against log(0)",
            "a common guard",
            clipped,
            (([[0, 0]], [0]), ([[0, 0, 0]], [0])),
        ),
        Variant(
            "the probability",
            "p_y without the logarithm",
            "",
            lambda z, y: np.where(y >= 0, np.exp(-cross_entropy(z, y)), 0),
            (([[0, 0]], [0]), ([[0, 0, 0]], [0])),
        ),
        Variant(
            "divided by the number of rows",
            "so that the sum is the mean",
            "",
            lambda z, y: cross_entropy(z, y) / len(y),
            (([[0, 0], [0, 0]], [0, 0]), ([[0, 0, 0], [0, 0, 0]], [0, 0])),
        ),
    ),
    "sgd": (
        Variant(
            "SGD uphill", "w + mu g", "", lambda w, g, mu: w + mu * g, (([0], [1], 1), ([0, 0], [0, 1], 1))
        ),
        Variant(
            "a step of g / mu",
            "w - g / mu",
            "",
            lambda w, g, mu: w - g / mu,
            (([0], [1], 0.5), ([0, 0], [0, 1], 0.5)),
        ),
        Variant(
            "a step of mu along g / |g|",
            "the gradient is normalised",
            "",
            lambda w, g, mu: w - mu * g / max(np.sqrt((g * g).sum()), 1e-12),
            (([0], [2], 1), ([0, 0], [0, 2], 1)),
        ),
        Variant(
            "the signs of the gradient",
            "w - mu sign(g)",
            "signSGD",
            lambda w, g, mu: w - mu * np.sign(g),
            (([0], [2], 1), ([0, 0], [0, 2], 1)),
        ),
        Variant(
            "the step alone",
            "-mu g",
            "",
            lambda w, g, mu: -mu * g + 0 * w,
            (([1], [0], 1), ([1, 0], [0, 0], 1)),
        ),
    ),
    "adam": (
        Variant(
            "Adam without bias correction",
            "w - mu m / (sqrt(v) + eps)",
            "",
            adam(corrected=False),
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
        Variant(
            "Adam with eps inside of the root",
            "w - mu m_hat / sqrt(v_hat + eps)",
            "",
            adam(step=lambda m, v: m / np.sqrt(v + 1e-8)),
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
        Variant(
            "Adam with eps before the correction",
            "the step size is corrected by sqrt(1 - beta2^t) / (1 - beta1^t), eps is not",
            "Kingma and Ba's second form (epsilon hat); TensorFlow, Keras",
            epsilon_hat,
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
        Variant(
            "Adam that counts from 2",
            "t is one too many in the correction",
            "",
            adam(later=1),
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
        Variant(
            "Adam with beta2 = 0.99",
            "instead of 0.999",
            "",
            adam(betas=(0.9, 0.99)),
            (([0], [[0], [1]], 1), ([0, 0], [[0, 0], [0, 1]], 1)),
        ),
        Variant(
            "Adam with eps 1e-7",
            "instead of 1e-8",
            "",
            adam(step=lambda m, v: m / (np.sqrt(v) + 1e-7)),
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
        Variant(
            "Adam without momentum",
            "RMSprop with bias correction: beta1 = 0",
            "",
            adam(betas=(0.0, 0.999)),
            (([0], [[0], [1]], 1), ([0, 0], [[0, 0], [0, 1]], 1)),
        ),
        Variant(
            "Adam that forgets",
            "both moments start at 0 in every step",
            "",
            forgetful,
            (([0], [[1], [0]], 1), ([0, 0], [[0, 1], [0, 0]], 1)),
        ),
        Variant(
            "SGD",
            "the moments are not used",
            "",
            lambda w, g, mu: w - mu * g.sum(axis=0),
            (([0], [[1]], 1), ([0, 0], [[0, 1]], 1)),
        ),
    ),
    "metropolis-weights": (
        Variant(
            "Metropolis weights without the + 1",
            "1 / max(d_i, d_j), with which an even ring never averages",
            "mh.m of CVX's examples (Boyd's group)",
            mixing(lambda i, j: 1 / np.maximum(np.maximum(i, j), 1)),
            (([[1, 1], [1, 1]],), ([[1, 1, 0], [1, 1, 0], [0, 0, 1]],)),
        ),
        Variant(
            "degrees that count the worker itself",
            "1 / (2 + max(d_i, d_j)): row sums of a matrix with ones on its diagonal",
            "",
            mixing(lambda i, j: 1 / (1 + np.maximum(i, j)), itself=1),
            (([[1, 1], [1, 1]],), ([[1, 1, 0], [1, 1, 0], [0, 0, 1]],)),
        ),
        Variant(
            "the mean of the neighbourhood",
            "1 / (1 + d_i), whose columns need not sum to 1",
            "Peng et al. 2021, BRIDGE's DGD",
            lambda A: A / A.sum(axis=1, keepdims=True),
            (([[1, 1, 1], [1, 1, 0], [1, 0, 1]],), ([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]],)),
        ),
        Variant(
            "min for max",
            "1 / (1 + min(d_i, d_j))",
            "",
            mixing(lambda i, j: 1 / (1 + np.minimum(i, j))),
            (([[1, 1, 1], [1, 1, 0], [1, 0, 1]],), ([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]],)),
        ),
        Variant(
            "the largest degree of all",
            "1 / (1 + max_k d_k) on every edge",
            "",
            mixing(lambda i, j: 1 / (1 + np.maximum(i, j).max()) + 0 * (i + j)),
            ((THREE_AND_TWO,), ([row[::-1] for row in THREE_AND_TWO[::-1]],)),
        ),
        Variant(
            "lazy Metropolis weights",
            "half of them, and half of the identity",
            "",
            lambda A: (metropolis_weights(A) + np.eye(len(A))) / 2,
            (([[1, 1], [1, 1]],), ([[1, 1, 0], [1, 1, 0], [0, 0, 1]],)),
        ),
        Variant(
            "no weight for itself",
            "a diagonal of 0",
            "",
            lambda A: metropolis_weights(A) * ~np.eye(len(A), dtype=bool),
            (([[1]],), ([[1, 0], [0, 1]],)),
        ),
    ),
}
