"""Risks on all local data, of those models that Eq. (6) keeps. Plain: `algorithm.risk`.

Test: test_ranked_rows.py. Eq. (6) drops every model with a higher risk than the receiver's own, and no loss is
negative: a model that has lost more on some rows than the receiver's own on all of them is out
(`risks.passing_risks`). Two things are free, as a model that is out needs no risk.

*Which rows.* A few that are misclassified make up most of a loss, so every 32nd round, which scores all models
on all rows, ranks the rows of each receiver by what the models lost; in the rounds up to the next, a quarter of
the rows decides about most models.

*How many digits.* A run in float64 decides in float32, where products take half of the time, and leaves in
doubt what rounding could have decided (`rounding`). Who is left is scored in float64, beside one's own model.

Where neither saves time, as in the first rounds of a run, all models are scored on all rows.
"""

import numpy as np

from refimpl.algorithm import State
from refimpl.arrays import Array
from refimpl.fast.elementwise import cross_entropy, relu
from refimpl.fast.parallel import parallel_for
from refimpl.fast.plan import Plan, Rows
from refimpl.fast.reused_products import from_scratch
from refimpl.fast.risks import loss_bound, neighbour_risks, starts_of

CUTS = ((1,), (1 / 4, 1 / 2, 1))  # the shares of the rows after which a model may be out: one of these
PAYS = 0.75  # if scoring in stages costs less than this share of scoring all models on all rows
BY_RECEIVER = 2  # times the cost for a row: products are smaller, and more of them
SCREEN = np.dtype("float32")  # decides


class RankedRows:
    """The rows of m receivers who hear the same n messages, ranked; and whose round they are ranked for."""

    def __init__(self, p: Plan) -> None:
        assert p.network
        (group,) = p.groups
        (self.rows,) = group.local
        self.network, self.group, self.own, self.count = p.network, group, group.own[0], group.count[0]
        ends = starts_of(self.rows, len(self.own))
        self.of_receiver = [slice(*ends[j : j + 2]) for j in range(len(self.own))]
        self.screened = self.rows._replace(X=self.rows.X.astype(SCREEN))
        self.longest = float(np.linalg.norm(self.rows.X[0, 0], axis=-1).max())
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
        ranked = []  # by receiver: the order of its rows, and what the models lost up to each of them
        for j, mine in enumerate(self.of_receiver):
            lost = losses[:, mine]
            order = np.argsort(-(lost / sums[j][:, None]).sum(axis=0), kind="stable")  # all models count alike
            ranked.append((order, np.cumsum(lost[:, order], axis=1)))
        plans = [self.stages_of(cuts, ranked, bound) for cuts in CUTS]
        cost, places = min(plans, key=lambda plan: plan[0])
        self.stages = [self.some(stage) for stage in zip(*places, strict=True)] if cost < PAYS else None
        return sums / self.count

    def stages_of(
        self, cuts: tuple[float, ...], ranked: list[tuple[Array, Array]], bound: Array
    ) -> tuple[float, list[list[Array]]]:
        """What stages up to these shares would have cost, with 1 for all models on all rows; and their rows."""
        share = SCREEN.itemsize / self.rows.X.dtype.itemsize  # of the time of a product
        places, cost = [], share * (1 / len(ranked[0][1]) + cuts[0])  # of one's own model, and the first stage
        for j, (order, lost) in enumerate(ranked):
            ends = np.ceil(len(order) * np.array(cuts)).astype(int)
            left = lost[:, ends - 1] <= bound[j]
            left[:, left.sum(axis=0) < 2] = False  # nobody but oneself
            left_of = left.mean(axis=0)
            by_receiver = share * (left_of[:-1] @ np.diff(ends)) + left_of[-1] * len(order)
            cost += BY_RECEIVER * by_receiver / self.rows.y.shape[-1]
            places.append(np.split(self.of_receiver[j].start + order, ends[:-1]))
        return cost, places

    def some(self, places: tuple[np.ndarray, ...]) -> Rows:
        """The rows at these places, one array of places for each receiver, to decide by."""
        at, length = np.concatenate(places), np.array([len(of_one) for of_one in places])
        return Rows(self.screened.X[:, :, at], self.rows.y[:, :, at], np.cumsum(length) - length)

    def passing(self, M: Array, stages: list[Rows]) -> Array:
        """`risks.passing_risks` of M (n, d), which scores what is left after the first stage by receiver.

        A receiver's own model is compared with others by what it lost in the same products as they. Where no
        other is left, its risk has the digits that it was decided by: then it has all the weight.
        """
        m, network, few = len(self.own), self.network, M.astype(SCREEN)
        factor = self.rounding(M)
        own = self.own_sums(few[self.own]).astype(M.dtype)
        bound = loss_bound(own * factor[self.own], self.count[:, 0], SCREEN)
        first, starts = stages[0], [starts_of(rows, m) for rows in stages]
        sums = np.add.reduceat(network.losses_of_all(few[None], first.X, first.y)[0], starts[0][:-1], axis=1).T
        left = ~(sums > bound[:, None] * factor)  # NaN is left to the rule
        r = np.full(sums.shape, np.inf, M.dtype)
        r[np.arange(m), self.own] = own / self.count[:, 0]

        def score(j: int) -> None:
            l, total = np.flatnonzero(left[j]), sums[j, left[j]]
            for rows, at in zip(stages[1:], starts[1:], strict=True):
                part = slice(*at[j : j + 2])
                total += self.lost(few[l], rows, part)
                stay = ~(total > bound[j] * factor[l])
                l, total = l[stay], total[stay]
                if len(l) < 2:
                    return
            r[j, l] = self.lost(M[l], self.rows, self.of_receiver[j]) / self.count[j]

        parallel_for(score, np.flatnonzero(left.sum(axis=1) > 1))
        return r

    def lost(self, M: Array, rows: Rows, part: slice) -> Array:
        """The sums of the losses of models M (n, d) on some of the rows: -> (n,)."""
        return self.network.losses_of_all(M[None], rows.X[:, :, part], rows.y[:, :, part])[0].sum(axis=1)

    def rounding(self, M: Array) -> Array:
        """By how many times a loss that was computed to decide may be too large or too small: (n, d) -> (n,).

        A sum of p products is wrong by at most (p + 4) eps |x| |w|, their own rounding included, and a layer
        passes on what its input was wrong by. If logits are wrong by e, losses log(1 + S) have e^2e times the
        S at most, so e^2e times the loss at most.
        """
        if M.dtype == SCREEN:
            return np.ones(len(M), SCREEN)  # decided by the same digits, for which `loss_bound` has room
        eps, wrong, size = float(np.finfo(SCREEN).eps), 0.0, self.longest
        for layer in self.network.dense:
            norm = np.linalg.norm(layer.matrix(M).reshape(len(M), -1), axis=1)
            wrong = norm * (wrong + (layer.p + 4) * eps * size)
            size = np.sqrt((norm * size) ** 2 + 1)  # a 1 behind
        return np.exp(2 * wrong)

    def own_sums(self, W: Array) -> Array:
        """The sum of the losses of each receiver's own model, W (m, d), on all of its rows: -> (m,)."""
        network, X, y = self.network, self.screened.X[0, 0], self.rows.y[0, 0]
        first = network.dense[0]
        z = np.empty((network.dense[-1].h, len(y)), W.dtype)

        def score(j: int) -> None:
            mine = self.of_receiver[j]
            H = relu(first.matrix(W[j]).T @ X[mine].T)
            z[:, mine] = network.upper_layers(W[j], H)

        parallel_for(score, range(len(W)))
        return np.add.reduceat(cross_entropy(z, y), [mine.start for mine in self.of_receiver])
