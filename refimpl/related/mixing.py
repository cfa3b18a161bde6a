"""Mixing matrices on the host, where [k, l] is how much worker k takes of l's message, and a compressor.

A graph is a boolean matrix as in `graphs`, A[k, l] = l sends to k, True on the diagonal; here it may be
directed.
"""

import math

import numpy as np

from refimpl import aggregate
from refimpl.arrays import Array, module_of, quiet


@quiet
def combine(weights: Array, W: Array) -> Array:
    """The sum of c_l w_l: (n,), (n, d) -> (d,). The bits are those of `aggregate.combine` if W is contiguous.

    It looks for models that are not finite only if the product is not: looking costs more than the product.
    """
    w = weights @ W
    return w if module_of(W).isfinite(w).all() else aggregate.combine(weights, W)


def metropolis_weights(graph: np.ndarray) -> np.ndarray:
    """Metropolis weights (Xiao and Boyd 2004): w_kl = 1 / (1 + max(d_k, d_l)) on edges, w_kk the rest.

    d_k counts N_k without k. Symmetric and doubly stochastic on every undirected graph: (N, N) -> (N, N). Six
    independent codes have the "+ 1"; without it (as in an example of Boyd's group) an even ring never averages.
    Raises ValueError, naming a worker, if the graph is directed.
    """
    one_way = np.argwhere(graph & ~graph.T)
    if len(one_way):
        k, l = one_way[0]
        one = f"worker {l} sends to worker {k} and not vice versa"
        raise ValueError(f"metropolis_weights needs an undirected graph, but {one}")
    edges = graph & ~np.eye(len(graph), dtype=bool)
    degree = edges.sum(axis=1)
    W = np.where(edges, 1 / (1 + np.maximum(degree[:, None], degree)), 0.0)
    return W + np.diag(1 - W.sum(axis=1))


def uniform_weights(graph: np.ndarray) -> np.ndarray:
    """Weights w_kl = 1 / n_k of the plain mean of the n_k models in N_k. Rows sum to 1, columns need not."""
    return graph / graph.sum(axis=1, keepdims=True)


def push_weights(graph: np.ndarray) -> np.ndarray:
    """Weights p_kl = 1 / (1 + out-degree of l): a sender splits its message evenly. Columns sum to 1.

    Assran et al. 2019 ("uniform mixing" in their code). (N, N) -> (N, N), for any directed graph.
    """
    return graph / graph.sum(axis=0, keepdims=True)


# --- A compressor -------------------------------------------------------------------------------------------


def top_k(x: Array, k: int) -> Array:
    """x with all but its k largest entries, by magnitude, set to 0; ties to the lowest index. (d,) -> (d,).

    With k = d, the identity. This is over the whole vector; the deep-learning code of Koloskova et al. goes
    tensor by tensor.
    """
    xp = module_of(x)
    largest = xp.argsort(-abs(x), kind="stable")[:k]
    kept = xp.zeros_like(x)
    kept[largest] = x[largest]
    return kept


def count_of(share: float, d: int) -> int:
    """The number of entries that this share of d is, halves rounded up: at least 1."""
    if not 0 < share <= 1:
        raise ValueError(f"a compressor keeps a share in (0, 1] of the entries, got {share}")
    return max(1, math.floor(share * d + 0.5))
