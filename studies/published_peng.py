"""Peng, Li and Ling 2021: stored curves, without attack; see published.py."""

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np
from published_common import Cell, Data, accuracy, softmax_regression

from refimpl import graphs
from refimpl.related import diminishing, uniform_weights

PENG = {  # name: accuracy after 5000 rounds, a of mu_t = a / sqrt(t), penalty or None
    "DPSGD": (89.9, 0.5, None),
    "BRIDGE": (90.0, 0.5, None),  # with nobody to trim it is DPSGD; its script reads DPSGD's step size
    "TV penalty": (89.5, 0.3, 0.005),
}


def peng_cell(data: Data, a: float, penalty: float | None, seed: int, rounds: int) -> list[float]:
    """30 workers, Erdos-Renyi with p = 0.7; softmax regression without a bias, from 0; L2 0.01.

    Batches are 32 rows side by side from a random place; theirs are cut at the end of the data, ours go on from
    the beginning. Mix-and-step with the plain mean of the neighbourhood, or the penalty. Of one worker.
    """
    rng, net = np.random.default_rng(seed), softmax_regression(data)
    graph = graphs.erdos_renyi(30, 0.7, rng)
    graphs.require_connected(graph)
    W, mixing = np.zeros((30, net.layout.size), np.float32), uniform_weights(graph).astype(np.float32)
    parts = np.stack([part[: len(data.y) // 30] for part in np.array_split(np.arange(len(data.y)), 30)])
    for t in range(1, rounds + 1):
        places = rng.integers(parts.shape[1], size=(30, 1)) + np.arange(32)
        rows = np.take_along_axis(parts, places % parts.shape[1], axis=1)
        G = net.step(W, data.rows[rows], data.y[rows], 1) + 0.01 * W
        G[:, -10:] = 0  # the biases
        base = mixing @ W
        if penalty is not None:
            base = W
            G = G + penalty * np.stack([np.sign(W[k] - W[graph[k]]).sum(axis=0) for k in range(30)])
        W = base - diminishing(a)(0, t) * G
    return [accuracy(net.logits(W[0], data.rows_test), data.y_test)]


def peng(data: Data, options: argparse.Namespace) -> Iterator[Cell]:
    for name, (theirs, a, penalty) in PENG.items():
        yield Cell(name, "none", theirs, partial(peng_cell, data, a, penalty, options.seed))
