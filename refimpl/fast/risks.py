"""The risks of what a receiver hears. Plain: `algorithm.risk`; test: test_engine.py, test_risks.py."""

import numpy as np

from refimpl import algorithm
from refimpl.arrays import Array, module_of, to_host
from refimpl.fast.elementwise import cross_entropy
from refimpl.fast.networks import Batched
from refimpl.fast.parallel import parallel_for
from refimpl.fast.plan import Group, Plan, Rows

SLACK = 1e-3  # sums of losses may differ by rounding, by which no model that passes may be lost


def risks(p: Plan, group: Group, M: Array, X: Array, y: Array, finite: bool, to_filter: bool = False) -> Array:
    """`algorithm.risk` of models M (u, n, d) for the m receivers of each neighbourhood: -> (u, m, n).

    On their data, or on the round's batch X (N, B, ...), y (N, B). If they are `to_filter`, a risk above the
    receiver's own may come out as infinity.
    """
    xp, s, k = module_of(M), p.setting, group.receivers
    if not p.network:
        data = (s.X, s.y) if s.risk == "local" else (X, y)
        each_one = [
            algorithm.risk(s, w, data[0][j], data[1][j])
            for receivers, models in zip(to_host(k).tolist(), M, strict=True)
            for j in receivers
            for w in models
        ]
        return xp.stack(each_one).reshape(*k.shape, -1)
    if not group.local:
        X, y = (A[group.receiver_slice][None] if len(k) == 1 else A[k] for A in (X, y))
    rows = group.local or [batch_rows(X[:, :, stage], y[:, :, stage]) for stage in group.stages]
    if to_filter and len(group.stages) > 1:
        r = passing_risks(p.network, M[0], rows, group.count[0], group.own[0])[None]
    else:
        r = neighbour_risks(p.network, M, rows, group.count)
    if s.l2:
        r += s.l2 / 2 * (M * M).sum(axis=-1)[:, None]
    return r if finite else xp.where(xp.isfinite(M).all(axis=-1)[:, None], r, xp.inf)


def neighbour_risks(network: Batched, M: Array, rows: list[Rows], count: Array) -> Array:
    """The mean loss of each model (u, n, d) on each receiver's rows, of which it has `count`: -> (u, m, n).

    All receivers' rows are scored by one product per model instead of one each.
    """
    xp, (u, n, _) = module_of(M), M.shape
    r = xp.zeros((u, count.shape[1], n), M.dtype)
    for X, y, starts in rows:
        losses = network.losses_of_all(M[: len(X)], X, y)  # (U, n, rows)
        if isinstance(starts, int):
            sums = losses.reshape(len(X), n, starts, -1).sum(axis=-1)
        else:
            sums = np.add.reduceat(losses, starts, axis=-1)
        r[: len(X), : sums.shape[-1]] += sums.swapaxes(-1, -2)
    r /= count
    return r


def batch_rows(X: Array, y: Array) -> Rows:
    """Receivers' rows X (u, m, rows, ...), y (u, m, rows) of a batch, as `Rows`."""
    u, m, _ = y.shape
    return Rows(X.reshape(u, 1, -1, *X.shape[3:]), y.reshape(u, 1, -1), m)


# --- Risks that are needed only if they pass ----------------------------------------------------------------


def passing_risks(network: Batched, M: Array, stages: list[Rows], count: Array, own: Array) -> Array:
    """`neighbour_risks` of models M (n, d) for one neighbourhood: -> (m, n), infinite where Eq. (6) drops one.

    Its filter drops every model with a higher risk than the receiver's own. No loss is negative, so a model
    that has lost more on some of the rows than the receiver's own on all of them is out, and need not see the
    others. When workers have specialised, an eighth of the rows decides about most.
    """
    shape = len(own), len(M)
    bound = loss_bound(own_sums(network, M, stages, own)[:, None], count)
    r, left = np.zeros(shape, M.dtype), np.ones(shape, bool)
    for rows in stages:
        r += sums_of_losses(network, M, rows, left)
        left &= ~(r > bound)  # NaN is left to the rule
    return np.where(left, r / count, np.inf)


def loss_bound(own: np.ndarray, count: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """The largest sum of losses on `count` rows with which Eq. (6) may keep a model, if one's own has `own`.

    `dtype` is that of the losses, if it is not that of `own`.
    """
    return own * (1 + SLACK) + 4 * np.finfo(dtype or own.dtype).eps * count


def own_sums(network: Batched, M: Array, stages: list[Rows], own: Array) -> np.ndarray:
    """The sum of the losses of each receiver's own model on its rows: -> (m,)."""
    sums, starts = np.zeros(len(own), M.dtype), [starts_of(rows, len(own)) for rows in stages]

    def score(j: int) -> None:
        parts = [(rows, slice(*at[j : j + 2])) for rows, at in zip(stages, starts, strict=True)]
        X = np.concatenate([rows.X[0, 0, part] for rows, part in parts])
        y = np.concatenate([rows.y[0, 0, part] for rows, part in parts])
        sums[j] = cross_entropy(network.logits(M[own[j]], X), y).sum()

    parallel_for(score, range(len(own)))
    return sums


def starts_of(rows: Rows, m: int) -> np.ndarray:
    """The places where each of m receivers' rows begin, and where the last one's end: (m + 1,)."""
    total = rows.y.shape[-1]
    starts = np.arange(m) * (total // m) if isinstance(rows.starts, int) else rows.starts
    return np.append(starts, total)


def sums_of_losses(network: Batched, M: Array, rows: Rows, wanted: np.ndarray) -> np.ndarray:
    """The sums of the losses of models M (n, d) on each receiver's rows, where `wanted`, else maybe 0: (m, n).

    Equal models have equal sums as long as the same of theirs are wanted: they are computed in the same way.
    """
    X, y, starts = rows.X[0, 0], rows.y[0, 0], starts_of(rows, len(wanted))
    if wanted.mean() > 0.7:  # then one product of all is faster
        return np.add.reduceat(network.losses_of_all(M[None], rows.X, rows.y)[0], starts[:-1], axis=-1).T
    sums, length = np.zeros(wanted.shape, M.dtype), np.diff(starts)

    def score(l: int) -> None:
        k = np.flatnonzero(wanted[:, l])
        some = np.repeat(wanted[:, l], length)
        losses = cross_entropy(network.logits(M[l], X[some]), y[some])
        sums[k, l] = np.add.reduceat(losses, np.cumsum(length[k]) - length[k])

    parallel_for(score, np.flatnonzero(wanted.any(axis=0)))
    return sums
