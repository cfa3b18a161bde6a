"""Risks on all local data, from the rows on which others' models lose most. Plain: `algorithm.risk`.

Test: test_ranked_rows.py. Eq. (6) drops every model with a higher risk than the receiver's own, and no loss is
negative: a model that has lost more on some rows than the receiver's own on all of them is out
(`risks.passing_risks`). Which rows these are is free. A few that are misclassified make up most of a loss, so
every 32nd round, which scores all models on all rows, ranks the rows of each receiver by what the models lost;
in the rounds up to the next, an eighth of the rows decides about most models. Where it would not, as in the
first rounds of a run, the others score all models on all rows as well.
"""

import numpy as np

from refimpl.algorithm import State
from refimpl.arrays import Array
from refimpl.fast.elementwise import cross_entropy, relu
from refimpl.fast.parallel import parallel_for
from refimpl.fast.plan import Plan, Rows
from refimpl.fast.reused_products import from_scratch
from refimpl.fast.risks import loss_bound, neighbour_risks, starts_of

CUTS = (1 / 8, 1 / 4, 1 / 2, 1)  # the shares of the rows after which a model may be out
PAYS = 0.75  # if scoring in stages costs less than this share of scoring all models on all rows
BY_RECEIVER = 2  # times the cost for a row: products are smaller, and more of them


class RankedRows:
    """The rows of m receivers who hear the same n messages, ranked; and whose round they are ranked for."""

    def __init__(self, p: Plan) -> None:
        assert p.network
        (group,) = p.groups
        (self.rows,) = group.local
        self.network, self.group, self.own, self.count = p.network, group, group.own[0], group.count[0]
        ends = starts_of(self.rows, len(self.own))
        self.of_receiver = [slice(*ends[j : j + 2]) for j in range(len(self.own))]
        self.stages: list[Rows] | None = None  # the ranked rows, most telling first; None: it does not pay
        self.W: Array | None = None

    def risks(self, M: Array, state: State) -> Array:
        """The risks of messages M (n, d) in a round from `state`: -> (m, n), infinite if Eq. (6) drops one."""
        ranked, self.W = self.W is state.W and not from_scratch(state.t), None
        if not ranked:
            return self.rank(M)
        if self.stages is None:
            return neighbour_risks(self.network, M[None], [self.rows], self.group.count)[0]
        return self.passing(M, self.stages)

    def keep(self, W: Array) -> None:
        """Records the final W of the round."""
        self.W = W

    def rank(self, M: Array) -> Array:
        """The risks of all models M (n, d) on all rows, (m, n); sorts the rows by their losses."""
        losses = self.network.losses_of_all(M[None], self.rows.X, self.rows.y)[0]
        sums = np.stack([losses[:, mine].sum(axis=1) for mine in self.of_receiver])
        bound = loss_bound(sums[np.arange(len(sums)), self.own], self.count[:, 0])
        places, cost = [], 1 / len(M) + CUTS[0]  # of one's own model, and of the first stage
        for j, mine in enumerate(self.of_receiver):
            lost = losses[:, mine]
            order = np.argsort(-(lost / sums[j][:, None]).sum(axis=0), kind="stable")  # all models count alike
            ends = np.ceil(len(order) * np.array(CUTS)).astype(int)
            left = np.cumsum(lost[:, order], axis=1)[:, ends[:-1] - 1] <= bound[j]
            left[:, left.sum(axis=0) < 2] = False  # nobody but oneself
            cost += BY_RECEIVER * (left.mean(axis=0) @ np.diff(ends)) / losses.shape[1]
            places.append(np.split(mine.start + order, ends[:-1]))
        self.stages = [self.some(stage) for stage in zip(*places, strict=True)] if cost < PAYS else None
        return sums / self.count

    def some(self, places: tuple[np.ndarray, ...]) -> Rows:
        """The rows at these places, one array of places for each receiver."""
        at, length = np.concatenate(places), np.array([len(of_one) for of_one in places])
        return Rows(self.rows.X[:, :, at], self.rows.y[:, :, at], np.cumsum(length) - length)

    def passing(self, M: Array, stages: list[Rows]) -> Array:
        """`risks.passing_risks` of M (n, d), which scores what is left after the first stage by receiver.

        A receiver's own model is compared with others by what it lost in the same products as they.
        """
        m, network = len(self.own), self.network
        own = self.own_sums(M[self.own])
        bound = loss_bound(own, self.count[:, 0])
        first, starts = stages[0], [starts_of(rows, m) for rows in stages]
        sums = np.add.reduceat(network.losses_of_all(M[None], first.X, first.y)[0], starts[0][:-1], axis=1).T
        left = ~(sums > bound[:, None])  # NaN is left to the rule
        r = np.full(sums.shape, np.inf, M.dtype)
        r[np.arange(m), self.own] = own / self.count[:, 0]

        def score(j: int) -> None:
            l, total = np.flatnonzero(left[j]), sums[j, left[j]]
            for rows, at in zip(stages[1:], starts[1:], strict=True):
                mine = slice(*at[j : j + 2])
                total += network.losses_of_all(M[None, l], rows.X[:, :, mine], rows.y[:, :, mine])[0].sum(
                    axis=1
                )
                stay = ~(total > bound[j])
                l, total = l[stay], total[stay]
                if len(l) < 2:
                    return
            r[j, l] = total / self.count[j]

        parallel_for(score, np.flatnonzero(left.sum(axis=1) > 1))
        return r

    def own_sums(self, W: Array) -> Array:
        """The sum of the losses of each receiver's own model, W (m, d), on all of its rows: -> (m,)."""
        network, X, y = self.network, self.rows.X[0, 0], self.rows.y[0, 0]
        first = network.dense[0]
        z = np.empty((network.dense[-1].h, len(y)), W.dtype)

        def score(j: int) -> None:
            mine = self.of_receiver[j]
            H = relu(first.matrix(W[j]).T @ X[mine].T)
            z[:, mine] = network.upper_layers(W[j], H)

        parallel_for(score, range(len(W)))
        return np.add.reduceat(cross_entropy(z, y), [mine.start for mine in self.of_receiver])
