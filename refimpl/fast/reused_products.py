"""Risks on all local data, from products carried from round to round. Plain: `algorithm.risk`.

Test: test_reused_products.py. Nearly all of the time of scoring goes into products of the receivers' rows X
with the first layers of what was sent. But Eq. (3) is linear, and a step of SGD adds a product over the few
rows of a batch. If A_l is the first layer of message l, x the batch of worker k and D the derivatives with
respect to the layer's outputs, times mu, then k's next message has the first layer
A = sum_l c(l, k) A_l - x^T D, so that

    X A = sum_l c(l, k) (X A_l) - (X x^T) D

where X A_l is known from the last round, and X x^T are columns of X X^T, which never change. On HAR under ALIE
that adds up 28 numbers in place of 562. An attacker's message can be anything, so it is multiplied from
scratch; if the rule filters, only until some of the rows show that no receiver will trust it. In every 32nd
round all messages are, so that rounding errors do not add up.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl.algorithm import State
from refimpl.arrays import Array
from refimpl.fast.elementwise import cross_entropy, relu
from refimpl.fast.parallel import FLOATS, parallel_for
from refimpl.fast.plan import STAGES, WHOLE, Plan, numbers_of
from refimpl.fast.risks import loss_bound

EVERY = 32  # rounds: then all products are computed from scratch


def from_scratch(t: int) -> bool:
    """Whether the round after t rounds reuses nothing."""
    return t % EVERY == 0


class Stage(NamedTuple):
    """Some of every receiver's rows, one receiver's after another's."""

    parts: list[slice]  # of all rows: as many at a time as fit in the cache
    first: int  # the number of the first of these parts
    starts: np.ndarray  # (m,) where each receiver's begin among the stage's rows


class ReusedProducts:
    """The products of a round's messages with the receivers' rows, and the weights that the round ended with.

    There are m receivers and n messages, the receivers' own first, then the lies. Rows are sorted by stages.
    """

    def __init__(self, p: Plan) -> None:
        assert p.network
        (group,) = p.groups
        (rows,) = group.local
        self.network, self.receivers, self.count = p.network, group.receivers[0], group.count[0]
        own, n = group.own[0], group.numbers.shape[1]
        self.order = numbers_of(np.append(own, np.setdiff1d(np.arange(n), own)), np)
        self.filters = bool(p.twin and p.twin.filters)
        each_ones = np.split(np.arange(rows.y.size), np.asarray(rows.starts)[1:])
        staged = self.filters and self.count.min() >= 8  # so that no receiver has an empty one
        size = max(1, FLOATS // 4 // (n * p.network.dense[0].h))
        self.stages: list[Stage] = []
        self.parts: list[slice] = []  # of all stages
        in_order: list[int] = []  # the rows, sorted by stages
        for stage in STAGES if staged else WHOLE:
            some, start, first = [own_rows[stage] for own_rows in each_ones], len(in_order), len(self.parts)
            in_order += np.concatenate(some).tolist()
            stop = len(in_order)
            self.parts += [slice(a, min(a + size, stop)) for a in range(start, stop, size)]
            starts = np.cumsum([0, *map(len, some[:-1])])
            self.stages.append(Stage(self.parts[first:], first, starts))
        self.X, self.y = rows.X[0, 0, in_order], rows.y[0, 0, in_order]
        self.gram = self.X @ self.X.T
        self.places = [np.argsort(in_order)[own_rows] for own_rows in each_ones]  # of each receiver's rows
        self.own: list[Array] = []  # products (m, h, rows) of each part
        self.lies: list[Array] = []  # (k, h, rows), of those lies that saw all rows; empty if k = 0
        self.W: Array | None = None
        self.weights: Array | None = None  # (m, m + k)

    def risks(self, M: Array, state: State, batch: Array, delta: Array) -> Array:
        """The risks of the messages M (n, d) of a round from `state`, for every receiver: -> (m, n).

        `batch` (N, B) are the row numbers of the workers' samples, `delta` (N, B, h) as in `Batched.step`. A
        risk above the receiver's own may come out as infinity, if the rule filters.
        """
        M, m, sums = M[self.order], len(self.receivers), np.empty((len(M), len(self.receivers)), M.dtype)
        sums[:m], self.own, _ = self.score(M[:m], self.last_products(state, batch, delta))
        self.scored, self.lies = np.arange(m), []
        if len(M) > m:
            bound = loss_bound(sums[:m].diagonal(), self.count[:, 0]) if self.filters else None
            sums[m:], self.lies, left = self.score(M[m:], None, bound)
            self.scored = np.append(self.scored, m + left)
        r = np.empty((m, len(M)), M.dtype)
        r[:, self.order] = sums.T / self.count
        return r

    def last_products(self, state: State, batch: Array, delta: Array) -> Callable[[int], Array] | None:
        """A function that carries the products of a part over, i -> (m, h, rows); None: from scratch."""
        own, lies, m = self.own, self.lies, len(self.receivers)
        c, self.weights = self.weights, None  # a round that is interrupted leaves nothing to carry over
        if c is None or self.W is not state.W or from_scratch(state.t):
            return None
        columns = [place[batch[k]] for k, place in zip(self.receivers, self.places, strict=True)]
        K = self.gram[np.stack(columns)]  # (m, B, rows)
        delta = delta[self.receivers].swapaxes(-1, -2)  # (m, h, B)

        def carried(i: int) -> Array:
            before, own[i] = own[i], own[i][:0]  # its memory can be used again
            now = (c[:, :m] @ before.reshape(m, -1)).reshape(before.shape)  # Eq. (3)
            if lies:
                now += (c[:, m:] @ lies[i].reshape(len(lies[i]), -1)).reshape(before.shape)
            now -= delta @ K[:, :, self.parts[i]]  # Eq. (2)
            return now

        return carried

    def score(
        self, M: Array, carried: Callable[[int], Array] | None, bound: Array | None = None
    ) -> tuple[Array, list[Array], Array]:
        """The sums of the losses of the models M (n, d) on each receiver's rows, (n, m), products, and whose.

        With a bound (m,), models that have lost more in the eyes of every receiver see no more rows, and their
        sums are infinite. The products are those of the models left, by part; last come the numbers of these.
        """
        sums, left = np.zeros((len(M), len(self.receivers)), M.dtype), np.arange(len(M))
        products: list[Array] = []
        for stage in self.stages:
            losses, more = self.score_stage(M[left], stage, carried)
            products += more
            sums[left] += np.add.reduceat(losses, stage.starts, axis=1)
            out = (sums[left] > bound).all(axis=1) if bound is not None else np.zeros(len(left), bool)
            if out.any():  # NaN never is: it is left to the rule
                sums[left[out]], left, products = np.inf, left[~out], [Z[~out] for Z in products]
            if not len(left):
                return sums, [], left
        return sums, products, left

    def score_stage(
        self, M: Array, stage: Stage, carried: Callable[[int], Array] | None
    ) -> tuple[Array, list[Array]]:
        """The losses of models M (n, d) on a stage's rows, (n, rows), and the products of its parts."""
        network, start = self.network, stage.parts[0].start
        matrix = None if carried else network.first_layers(M)
        losses = np.empty((len(M), stage.parts[-1].stop - start), M.dtype)
        products = [losses] * len(stage.parts)  # each is replaced

        def fill(i: int) -> None:
            part = stage.parts[i]
            Z = matrix @ self.X[part].T if carried is None else carried(stage.first + i)
            products[i] = Z = Z.reshape(len(M), network.dense[0].h, -1)
            hidden = relu(Z, out=np.empty_like(Z))
            here = slice(part.start - start, part.stop - start)
            losses[:, here] = cross_entropy(network.upper_layers(M, hidden), self.y[part])

        parallel_for(fill, range(len(stage.parts)))
        return losses, products

    def keep(self, W: Array, weights: Array | None) -> None:
        """Records the final W of the round and the weights (m, n) that led to it.

        None: a message is not finite, or so large that its products may not be, and 0 times infinity is not 0.
        """
        self.W = W
        self.weights = None if weights is None else weights[:, self.order][:, self.scored]
