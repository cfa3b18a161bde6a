"""A round of Algorithm 1 for all workers at once. Plain: `algorithm.round_`; test: test_engine.py.

What is fixed during a run is computed once, in a `Plan`: who hears whom, in groups that one batched call can
serve, and the data that each receiver scores models on. A message that several attackers send is scored once,
and its weight multiplied by their number. A round keeps its result and the weights, not what led to them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from refimpl import algorithm
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.attacks import ATTACKS
from refimpl.fast.networks import Batched, batched, rows
from refimpl.fast.parts import FLOATS, grain, keep_memory
from refimpl.fast.rules import TWINS, Twin, combine
from refimpl.optim import OPTIMIZERS, sgd

SLICE = 64  # rows scored at a time on a CPU


class Group(NamedTuple):
    """u neighbourhoods that hear n messages each, and the m receivers that share each neighbourhood.

    On the complete graph all receivers share one neighbourhood (u = 1); on a ring each has its own (m = 1).
    """

    receivers: Array  # (u, m) worker numbers, those with most data first
    numbers: np.ndarray  # (u, n) the numbers of the messages that they hear, ascending
    heard: Array | None  # the same on the device; None for all there are, which need no copy
    own: Array  # (u, m) where each receiver's own message is among these
    senders: Array | None  # (u, 1, n) how many send each message; None if one does
    X: (
        Array | None
    )  # (u, m, rows, ...) the receivers' data; None if they score on the round's batch, or not at all
    y: Array | None  # (u, m, rows)
    active: list[tuple[int, int]]  # see `neighbour_risks`


class Plan(NamedTuple):
    """What a run computes once."""

    setting: Setting
    twin: Twin | None  # None: the rule is computed receiver by receiver
    network: Batched | None  # None: the model is computed worker by worker
    message: np.ndarray  # (N,) the number of the message that each worker sends
    sender: Array | None  # (M,) who sends each message; None: worker l sends number l
    workers: Array  # (N, 1)
    normal: Array  # (h,)
    attackers: Array  # (f,)
    groups: list[Group]


class Result(NamedTuple):
    """What is left of a round."""

    state: State
    plan: Plan
    weights_by_group: list[Array]  # (u, m, n) each; empty if the rule does not weigh

    @property
    def weights(self) -> np.ndarray | None:
        """c(l, k) at [k, l], (N, N), as in `algorithm.Round`, on the host; None if the rule does not weigh."""
        if not self.weights_by_group:
            return None
        graph = self.plan.setting.graph
        C = np.zeros(graph.shape)
        for group, c in zip(self.plan.groups, map(to_host, self.weights_by_group), strict=True):
            share = c if group.senders is None else c / to_host(group.senders)  # of each sender of a message
            for receivers, numbers, of_messages in zip(
                to_host(group.receivers), group.numbers, share, strict=True
            ):
                members = np.flatnonzero(graph[receivers[0]])
                place = np.searchsorted(numbers, self.plan.message[members])
                C[np.ix_(receivers, members)] = of_messages[:, place]
        return C


def engine(setting: Setting) -> Callable[..., Result]:
    """A function that computes rounds: (state, batch, signals) -> Result. Plain: `train.plain`."""
    keep_memory()
    prepared = plan(setting)
    return partial(round_, prepared)


# --- Once a run ---------------------------------------------------------------------------------------------


def plan(s: Setting) -> Plan:
    """Sorts the normal workers into groups and moves to the device what a round needs there."""
    xp, N, twin = module_of(s.X), len(s.graph), TWINS.get(RULES[s.rule].compute)
    message, sender = np.arange(N), None
    if twin and twin.weights and ATTACKS[s.attack].one_message and len(s.attackers):
        sender = np.append(s.normal, s.attackers[0])  # the attackers' one message comes last
        message = np.full(N, len(s.normal))
        message[s.normal] = np.arange(len(s.normal))
    return Plan(
        setting=s,
        twin=twin,
        network=batched(s.model),
        message=message,
        sender=None if sender is None else xp.asarray(sender),
        workers=xp.arange(N)[:, None],
        normal=xp.asarray(s.normal),
        attackers=xp.asarray(s.attackers),
        groups=[] if twin == Twin() else groups(s, message),
    )


def groups(s: Setting, message: np.ndarray) -> list[Group]:
    """The normal workers, sorted by the number of messages that they hear and of receivers that share them."""
    sizes = to_host((s.y >= 0).sum(axis=1)) if s.risk == "local" else np.full(len(s.graph), s.batch_size)
    sharing: dict[bytes, list[int]] = {}
    for k in s.normal[np.argsort(-sizes[s.normal], kind="stable")]:
        sharing.setdefault(s.graph[k].tobytes(), []).append(int(k))
    alike: dict[tuple[int, int], list[tuple]] = {}
    for receivers in sharing.values():
        numbers, count = np.unique(message[s.graph[receivers[0]]], return_counts=True)
        alike.setdefault((len(numbers), len(receivers)), []).append((receivers, numbers, count))
    result = []
    for (n, _), found in alike.items():
        # As many neighbourhoods at a time as fit in memory.
        most = max(1, FLOATS * grain(module_of(s.X)) // (n * s.model.layout.size))
        for start in range(0, len(found), most):
            part = map(np.array, zip(*found[start : start + most], strict=True))
            result.append(_group(s, message, sizes, *part))
    return result


def _group(
    s: Setting,
    message: np.ndarray,
    sizes: np.ndarray,
    receivers: np.ndarray,
    numbers: np.ndarray,
    count: np.ndarray,
) -> Group:
    """Of receivers (u, m) that hear the messages `numbers` (u, n), sent by `count` (u, n) workers each.

    `sizes` (N,) are the rows that the workers score on.
    """
    xp = module_of(s.X)
    own = (numbers[:, None] == message[receivers][..., None]).argmax(axis=-1)
    everything = np.array_equal(numbers, np.arange(1 + message.max())[None])
    n_rows = sizes[receivers]
    starts = range(0, int(n_rows.max()), SLICE * grain(xp))
    active = [(int((n_rows[:, 0] > start).sum()), int((n_rows > start).sum(axis=1).max())) for start in starts]
    k = xp.asarray(receivers)
    X, y = (s.X[k], s.y[k]) if s.risk == "local" and RULES[s.rule].scores else (None, None)
    return Group(
        k,
        numbers,
        None if everything else xp.asarray(numbers),
        xp.asarray(own),
        None if (count == 1).all() else xp.asarray(count[:, None].astype(s.X.dtype)),
        X,
        y,
        active,
    )


# --- Once a round -------------------------------------------------------------------------------------------


@quiet
def round_(p: Plan, state: State, batch: Array, signals: Array | None = None) -> Result:
    """`algorithm.round_`, for all workers at once."""
    s, t = p.setting, state.t + 1
    X, y = s.X[p.workers, batch], s.y[p.workers, batch]
    W_hat, memory = local_steps(p, state, X, y, t)
    sent = messages(p, W_hat, signals)
    W = W_hat.copy() if sent is W_hat else W_hat  # nobody may write to what others have still to read
    weights: list[Array] = []
    for group in p.groups:
        M = sent[None] if group.heard is None else sent[group.heard]  # (u, n, d)
        own_data = (X[group.receivers], y[group.receivers]) if group.X is None else (group.X, group.y)
        r = risks(p, M, *own_data, group.active) if RULES[s.rule].scores else None  # (u, m, n)
        W[group.receivers], c = aggregated(p, group, M, r)
        weights += [] if c is None else [c]
    return Result(State(W, memory, t), p, weights)


def local_steps(p: Plan, state: State, X: Array, y: Array, t: int) -> tuple[Array, Array]:
    """All workers' `algorithm.local_step`: -> W_hat (N, d), memory (slots, N, d)."""
    s, W = p.setting, state.W
    xp, step = module_of(W), OPTIMIZERS[s.optimizer].step
    if p.network:
        G = p.network.gradient(W, X, y)
    else:
        G = xp.stack([s.model.gradient(*own) for own in zip(W, X, y, strict=True)]).astype(W.dtype, copy=False)
    if s.l2:
        G += s.l2 * W
    mu = s.step_size
    if callable(mu):
        mu = xp.asarray(np.array([[mu(k, t)] for k in range(len(W))], W.dtype))
    if step is not sgd:
        return step(W, G, state.memory, mu, t)
    G *= mu
    return xp.subtract(W, G, out=G), state.memory


def messages(p: Plan, W_hat: Array, signals: Array | None) -> Array:
    """`algorithm.messages`, (M, d): a message that all attackers send only once, after the normal workers'."""
    if not len(p.attackers):
        return W_hat
    send = ATTACKS[p.setting.attack].send
    if p.sender is not None:
        sent = W_hat[p.sender]
        sent[-1] = send(W_hat[p.attackers], sent[:-1], signals)
        return sent
    sent = W_hat.copy()
    sent[p.attackers] = send(W_hat[p.attackers], W_hat[p.normal], signals)
    return sent


def risks(p: Plan, M: Array, X: Array, y: Array, active: list[tuple[int, int]]) -> Array:
    """`algorithm.risk` of models M (u, n, d) on the data of m receivers each: -> (u, m, n)."""
    xp, s = module_of(M), p.setting
    if not p.network:
        u, m = y.shape[:2]
        every = [
            algorithm.risk(s.model, w, X[i, j], y[i, j], s.l2) for i in range(u) for j in range(m) for w in M[i]
        ]
        return xp.stack(every).reshape(u, m, -1)
    r = neighbour_risks(p.network, M, X, y, active)
    if s.l2:
        r += s.l2 / 2 * (M * M).sum(axis=-1)[:, None]
    return xp.where(xp.isfinite(M).all(axis=-1)[:, None], r, xp.inf)


def neighbour_risks(network: Batched, M: Array, X: Array, y: Array, active: list[tuple[int, int]]) -> Array:
    """The mean loss of each model on each receiver's rows.

    (u, n, d) models, (u, m, rows, ...) samples, (u, m, rows) labels -> (u, m, n).
    The rows are taken in slices. Receivers are sorted by their number of rows, so in slice i only the first
    active[i] = (U, m) along the two axes have any left, and hardly any padding is scored.
    """
    xp = module_of(M)
    n, step = M.shape[1], SLICE * grain(xp)
    r = xp.zeros((*y.shape[:2], n), M.dtype)
    for i, (U, m) in enumerate(active):
        part = slice(i * step, (i + 1) * step)
        X_part, y_part = X[:U, :m, part], y[:U, :m, part]
        # The receivers' rows one after the other: n large matrix products instead of m n small ones.
        X_all = X_part.reshape(U, 1, -1, *network.sample)
        losses = network.losses(M[:U], X_all, y_part.reshape(U, 1, -1))  # (U, n, m * rows)
        r[:U, :m] += losses.reshape(U, n, m, -1).sum(axis=-1).swapaxes(-1, -2)
    r /= rows(y, r.dtype)[..., None]
    return r


def aggregated(p: Plan, group: Group, M: Array, r: Array | None) -> tuple[Array, Array | None]:
    """The receivers' new models, (u, m, d) or (u, 1, d) if they are all the same, and any weights (u, m, n)."""
    rule, f = RULES[p.setting.rule], len(p.attackers)
    if p.twin and p.twin.models:
        return p.twin.models(M, f)[:, None], None
    if p.twin and p.twin.weights:
        c = p.twin.weights(r, group.own)
        if group.senders is not None:
            c *= group.senders
            c /= c.sum(axis=-1, keepdims=True)
        return combine(c, M), c
    xp, (u, m) = module_of(M), group.receivers.shape
    own = to_host(group.own)
    each = [
        rule.compute(M[i], None if r is None else r[i, j], int(own[i, j]), f)
        for i in range(u)
        for j in range(m)
    ]
    result = xp.stack(each).reshape(u, m, -1)
    return (combine(result, M), result) if rule.weighs else (result, None)
