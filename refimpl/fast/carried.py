"""Risks on all local data, from products carried from round to round. Plain: `algorithm.risk`.

Test: test_carried.py. Nearly all of the time of scoring goes into products of the receivers' rows X with the
first layers of what was sent. But Eq. (3) is linear, and a step of SGD adds a product over the few rows of a
batch. If A_l is the first layer of message l, x the batch of worker k and D the derivatives with respect to the
layer's outputs, times mu, then k's next message has the first layer A = sum_l c(l, k) A_l - x^T D, so that

    X A = sum_l c(l, k) (X A_l) - (X x^T) D

where X A_l is known from the last round, and X x^T are columns of X X^T, which never change. On HAR under ALIE
that adds up 28 numbers in place of 562. Attackers' messages can be anything and are multiplied from scratch, if
the filter of Eq. (6) lets them pass on an eighth of the rows. So are all messages now and then, lest rounding
add up.
"""

from typing import Any

import numpy as np

from refimpl.algorithm import State
from refimpl.arrays import Array
from refimpl.fast.elementwise import cross_entropy, relu
from refimpl.fast.parts import FLOATS, boxes, each
from refimpl.fast.plan import STAGES, Plan, numbers_of
from refimpl.fast.scores import most_to_pass

EVERY = 32  # rounds: then all products are computed from scratch


def from_scratch(t: int) -> bool:
    """Whether the round after t rounds carries nothing over."""
    return t % EVERY == 0


class Carried:
    """The products of a round's messages with the receivers' rows, and the weights that it ended with.

    Of m receivers and n messages: the receivers' own come first, then the lies.
    """

    def __init__(self, p: Plan) -> None:
        assert p.network
        (group,) = p.groups
        (rows,) = group.local
        self.network, self.receivers, self.count = p.network, group.receivers[0], group.count[0]
        self.X, self.y, self.starts = rows.X[0, 0], rows.y[0, 0], np.asarray(rows.starts)
        self.gram = self.X @ self.X.T
        own, n = group.own[0], group.numbers.shape[1]
        self.order = numbers_of(np.append(own, np.setdiff1d(np.arange(n), own)), np)
        size = FLOATS // 4 // (n * p.network.dense[0].h)
        self.parts = [part for (part,) in boxes((len(self.y),), max(1, size))]
        self.own: list[Any] = []  # products (m, h, rows) of each part
        self.lies: list[Any] = []  # (k, h, rows), of those lies that were scored on all rows; empty if k = 0
        self.filters = bool(p.twin and p.twin.filters)
        eighths = [rows[STAGES[0]] for rows in np.split(np.arange(len(self.y)), self.starts[1:])]
        self.eighth = tuple(A[np.concatenate(eighths)][None, None] for A in (self.X, self.y))
        self.eighth_starts = np.cumsum([0, *map(len, eighths[:-1])])
        self.W: Array | None = None
        self.weights: Any = None  # (m, m + k)

    def risks(self, M: Array, state: State, batch: Array, delta: Array) -> Array:
        """Of the messages M (n, d) of a round from `state`, for every receiver: -> (m, n).

        `batch` (N, B) are the row numbers of the workers' samples, `delta` (N, B, h) as in `Batched.step`. A
        risk above the receiver's own may come out as infinity, if the rule filters.
        """
        M, m, n = M[self.order], len(self.receivers), len(M)
        sums = np.full((n, m), np.inf, M.dtype)
        sums[:m], self.own = self.score(M[:m], self.last_products(state, batch, delta))
        lies, self.lies = np.arange(m, n), []
        if self.filters and len(lies):
            lies = lies[self.may_pass(M[m:], sums[:m].diagonal())]
        if len(lies):
            sums[lies], self.lies = self.score(M[lies])
        self.scored = np.append(np.arange(m), lies)
        r = np.empty((m, n), M.dtype)
        r[:, self.order] = sums.T / self.count
        return r

    def last_products(self, state: State, batch: Array, delta: Array) -> Any:
        """A function that carries the products of a part over, i -> (m, h, rows); None: from scratch."""
        if self.weights is None or self.W is not state.W or from_scratch(state.t):
            return None
        columns = self.gram[self.starts[:, None] + batch[self.receivers]]  # (m, B, rows)
        delta, m = delta[self.receivers].swapaxes(-1, -2), len(self.receivers)  # (m, h, B)
        own, lies = self.own, self.lies

        def carried(i: int) -> Array:
            before, own[i] = own[i], None  # its memory can be used again
            now = (self.weights[:, :m] @ before.reshape(m, -1)).reshape(before.shape)  # Eq. (3)
            if lies:
                now += (self.weights[:, m:] @ lies[i].reshape(len(lies[i]), -1)).reshape(now.shape)
            now -= delta @ columns[:, :, self.parts[i]]  # Eq. (2)
            return now

        return carried

    def score(self, M: Array, carried: Any = None) -> tuple[Array, list[Any]]:
        """The sums of the losses of the models M (n, d) on each receiver's rows, (n, m), and their products."""
        network, shape = self.network, (len(M), self.network.dense[0].h, -1)
        matrix = None if carried else network.first_layers(M)
        losses = np.empty((len(M), len(self.y)), M.dtype)
        products: list[Any] = [None] * len(self.parts)

        def fill(i: int) -> None:
            part = self.parts[i]
            products[i] = Z = carried(i) if carried else (matrix @ self.X[part].T).reshape(shape)
            hidden = relu(Z, out=np.empty_like(Z))
            losses[:, part] = cross_entropy(network.upper_layers(M, hidden), self.y[part])

        each(fill, range(len(self.parts)))
        return np.add.reduceat(losses, self.starts, axis=1), products

    def may_pass(self, M: Array, own: Array) -> Array:
        """Which of the models M (k, d) a receiver may trust, whose own model's losses sum up to `own` (m,)."""
        losses = self.network.losses_of_all(M[None], *self.eighth)[0]  # (k, rows)
        sums = np.add.reduceat(losses, self.eighth_starts, axis=1)
        return ~(sums > most_to_pass(own, self.count[:, 0])).all(axis=1)  # NaN is left to the rule

    def keep(self, W: Array, weights: Any) -> None:
        """That the round ended with the parameters W, by the weights (m, n).

        None: some message is not finite, or so large that its products may not be; 0 times that is no 0.
        """
        self.W = W
        self.weights = None if weights is None else weights[:, self.order][:, self.scored]
