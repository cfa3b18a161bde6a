"""Mixing weights of gossip, on the host. The paper's rule has weights of its own, Eq. (6)."""

import numpy as np


def metropolis_weights(graph: np.ndarray) -> np.ndarray:
    """w_kl = 1 / (1 + max(d_k, d_l)) on edges, w_kk the rest (Xiao and Boyd 2004), d without the worker itself.

    Symmetric and doubly stochastic on every undirected graph: (N, N) bool as in `graphs` -> (N, N).
    Raises ValueError, naming a worker, if the graph is directed.
    """
    one_way = np.argwhere(graph & ~graph.T)
    if len(one_way):
        k, l = one_way[0]
        raise ValueError(f"metropolis_weights needs an undirected graph, but worker {l} sends to {k} only")
    edges = graph & ~np.eye(len(graph), dtype=bool)
    degree = edges.sum(axis=1)
    W = np.where(edges, 1 / (1 + np.maximum(degree[:, None], degree)), 0.0)
    return W + np.diag(1 - W.sum(axis=1))
