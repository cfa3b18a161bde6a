"""Risks on all local data, from products carried from round to round. Plain: `algorithm.risk`.

Test: test_carried.py. Nearly all of the time of scoring goes into products of the receivers' rows X with the
first layers of what was sent. But Eq. (3) is linear, and a step of SGD adds a product over the few rows of a
batch. If A_l is the first layer of message l, x the batch of worker k and D the derivatives with respect to the
layer's outputs, times mu, then k's next message has the first layer A = sum_l c(l, k) A_l - x^T D, so that

    X A = sum_l c(l, k) (X A_l) - (X x^T) D

where X A_l is known from the last round, and X x^T are columns of X X^T, which never change. On HAR under ALIE
that adds up 28 numbers in place of 562. Attackers' messages can be anything and are multiplied from scratch. So
are all messages now and then, lest rounding add up.
"""

from typing import Any

import numpy as np

from refimpl.algorithm import State
from refimpl.arrays import Array
from refimpl.fast.elementwise import cross_entropy, relu
from refimpl.fast.parts import FLOATS, boxes, each
from refimpl.fast.plan import Plan, numbers_of
from refimpl.fast.rules import all_finite

EVERY = 32  # rounds: then all products are computed from scratch


def from_scratch(t: int) -> bool:
    """Whether the round after t rounds carries nothing over."""
    return t % EVERY == 0


class Carried:
    """The products of a round's messages with the receivers' rows, and the weights that it ended with."""

    def __init__(self, p: Plan) -> None:
        assert p.network
        (group,) = p.groups
        (rows,) = group.local
        self.network, self.receivers, self.count = p.network, group.receivers[0], group.count[0]
        self.X, self.y, self.starts = rows.X[0, 0], rows.y[0, 0], np.asarray(rows.starts)
        self.gram = self.X @ self.X.T
        own, n = group.own[0], group.numbers.shape[1]
        self.order = numbers_of(np.append(own, np.setdiff1d(np.arange(n), own)), np)  # receivers' own first
        size = FLOATS // 4 // (n * p.network.dense[0].h)
        self.parts = [part for (part,) in boxes((len(self.y),), max(1, size))]
        self.products: list[Any] = [None] * len(self.parts)  # (n, h, rows) each
        self.finite = [False] * len(self.parts)  # these: a weight of 0 would not undo infinity
        self.W: Array | None = None
        self.weights: Any = None  # (m, n)

    def risks(self, M: Array, state: State, batch: Array, delta: Array) -> Array:
        """Of the messages M (n, d) of a round from `state`, for every receiver: -> (m, n).

        `batch` (N, B) are the row numbers of the workers' samples, `delta` (N, B, h) as in `Batched.step`.
        """
        network, m, n = self.network, len(self.receivers), len(M)
        M, first = M[self.order], network.dense[0]
        carries = self.W is state.W and all(self.finite) and not from_scratch(state.t)
        known = m if carries and self.weights is not None else 0
        unknown = network.first_layers(M[known:])
        if known:
            columns = self.gram[self.starts[:, None] + batch[self.receivers]]  # (m, B, rows)
            delta = delta[self.receivers].swapaxes(-1, -2)  # (m, h, B)
        losses = np.empty((n, len(self.y)), M.dtype)

        def score(i: int) -> None:
            part, before = self.parts[i], self.products[i]
            now = np.empty((n, first.h, len(self.y[part])), M.dtype)
            if known:
                np.matmul(self.weights, before.reshape(n, -1), out=now.reshape(n, -1)[:m])  # Eq. (3)
                now[:m] -= delta @ columns[:, :, part]  # Eq. (2)
            np.matmul(unknown, self.X[part].T, out=now.reshape(n * first.h, -1)[known * first.h :])
            self.products[i], self.finite[i] = now, all_finite(now.reshape(n, -1))
            hidden = relu(now, out=np.empty_like(now))
            losses[:, part] = cross_entropy(network.upper_layers(M, hidden), self.y[part])

        each(score, range(len(self.parts)))
        r = np.empty((m, n), M.dtype)
        r[:, self.order] = np.add.reduceat(losses, self.starts, axis=-1).T / self.count
        return r

    def keep(self, W: Array, weights: Array | None) -> None:
        """That the round ended with the parameters W, by the weights (m, n); None: without products."""
        self.W, self.weights = W, None if weights is None else weights[:, self.order]
