"""A round of Algorithm 1 for all workers at once. Plain: `algorithm.round_`; test: test_engine.py.

What is fixed during a run is computed once, in plan.py. A round keeps its result and the weights, not what led
to them. All of its work is cut into parts (`parallel_for`): the local steps by workers, the attack and Eq. (3)
by coordinates, the risks by models and rows. So what one expression leaves for the next is still in the cache,
and threads share the parts.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from refimpl.aggregate import RULES, combine
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.attacks import ATTACKS, View
from refimpl.engine import Engine
from refimpl.fast.parallel import FLOATS, device_factor, keep_memory, parallel_for, tiles
from refimpl.fast.plan import Chunk, Group, Plan, plan
from refimpl.fast.ranked_rows import RankedRows
from refimpl.fast.reused_products import ReusedProducts, from_scratch
from refimpl.fast.risks import risks
from refimpl.fast.rules import COORDINATEWISE, all_finite, combine_into
from refimpl.optim import OPTIMIZERS, sgd

COORDINATES = FLOATS // 64  # of an attack at a time: fewer would have threads wait for the interpreter lock


class Result(NamedTuple):
    """What is left of a round."""

    state: State
    plan: Plan
    weights_by_group: list[Array]  # (u, m, n) each; empty if the rule does not weigh

    @property
    def resumable(self) -> bool:
        """Whether an engine made anew goes on to the same bytes: the next round carries nothing over."""
        return not (self.plan.carries or self.plan.ranks) or from_scratch(self.state.t)

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
                place = np.searchsorted(numbers, self.plan.message[receivers[0], members])
                C[np.ix_(receivers, members)] = of_messages[:, place]
        return C


def engine(setting: Setting) -> Engine:
    """The engine that computes rounds for all workers at once. Plain: `engine.plain`.

    It may keep more than the state between rounds, and knows a state by its W, which must not be written to.
    """
    keep_memory()
    p = plan(setting)
    reused, ranked = ReusedProducts(p) if p.carries else None, RankedRows(p) if p.ranks else None
    step = partial(round_, p, reused=reused, ranked=ranked)
    return Engine(step, p.network or setting.model)


# --- Once a round -------------------------------------------------------------------------------------------


@quiet
def round_(
    p: Plan,
    state: State,
    batch: Array,
    signals: Array | None = None,
    reused: ReusedProducts | None = None,
    ranked: RankedRows | None = None,
) -> Result:
    """`algorithm.round_`, for all workers at once."""
    s, t = p.setting, state.t + 1
    X, y = data_of(p, batch)
    if state.W.dtype != X.dtype:
        reused = None  # as products would be rounded to the data's
    delta = np.empty((*batch.shape, p.network.dense[0].h), X.dtype) if reused and p.network else None
    sent, W, memory = local_steps(p, state, X, y, t, delta)
    attack(p, sent, W, signals, state, batch)
    weights: list[Array | None] = [None] * len(p.groups)
    to_filter = bool(p.twin and p.twin.filters)

    def aggregate(i: int) -> None:
        group = p.groups[i]
        M = group.models(sent)  # (u, n, d)
        finite, r = all_finite(M), None
        if reused and finite and delta is not None:
            r = reused.risks(M[0], state, batch, delta)[None]
        elif ranked and finite:
            r = ranked.risks(M[0], state)[None]
        elif RULES[s.rule].scores:
            r = risks(p, group, M, X, y, finite, to_filter)  # (u, m, n)
        weights[i] = c = aggregated(p, group, M, r, finite, W)
        if reused and c is not None:
            reused.keep(W, c[0] if finite else None)
        if ranked and finite:
            ranked.keep(W)

    if p.twin and p.network:
        parallel_for(aggregate, range(len(p.groups)))
    else:  # a user's own rule or model may not expect threads
        for i in range(len(p.groups)):
            aggregate(i)
    return Result(State(W, memory, t), p, [c for c in weights if c is not None])


def data_of(p: Plan, batch: Array) -> tuple[Array, Array]:
    """The samples and labels of the row numbers (N, B): -> (N, B, ...), (N, B).

    Raises IndexError if there is no such row; not on a GPU, which would have to wait for the answer.
    """
    if module_of(batch) is np and (wrong := batch.astype(np.uint64) >= p.sizes).any():  # also those below 0
        k = int(wrong.any(axis=1).argmax())
        needs = f"a batch of worker {k} needs row numbers 0 to {int(p.sizes[k, 0]) - 1}"
        raise IndexError(f"{needs}, got {batch[k].min()} to {batch[k].max()}")
    at = batch + p.first
    return p.X.take(at, axis=0), p.y.take(at)


def local_steps(
    p: Plan, state: State, X: Array, y: Array, t: int, delta: Array | None = None
) -> tuple[Array, Array, Array]:
    """All workers' `algorithm.local_step`: -> messages (M, d), W (N, d), memory (slots, N, d).

    The normal workers' w_hat are in the messages, the attackers' in W; the rest of both is still empty. `delta`
    (N, B, h) is filled as in `Batched.step`.
    """
    s, xp = p.setting, module_of(state.W)
    step, mu = OPTIMIZERS[s.optimizer].step, s.step_size
    if callable(mu):
        mu_of_all = xp.asarray(np.array([[s.mu(k, t)] for k in range(len(X))], state.W.dtype))
    W, memory = xp.empty_like(state.W), xp.empty_like(state.memory)
    sent = W if not p.groups else xp.empty((p.messages, W.shape[1]), W.dtype)

    def fill(chunk: Chunk) -> None:
        k = chunk.workers
        mu_k, w, home = mu_of_all[k] if callable(mu) else mu, state.W[k], destination(chunk, sent, W)
        if step is sgd and p.network and not s.l2:
            first = None if delta is None else delta[k]
            dw = p.network.step(w, X[k], y[k], mu_k, first)
            if delta is not None:
                delta[k] = first  # which may be a copy
            w = xp.subtract(w, dw, out=dw if home is None else home)
        else:
            w, memory[:, k] = step(w, gradients(p, w, X[k], y[k]), state.memory[:, k], mu_k, t)
        for array, rows in ((sent, chunk.normal), (W, chunk.attackers)):
            if rows and w is not home:
                array[rows[1]] = w[rows[0]]

    parallel_for(fill, p.chunks)
    return sent, W, memory


def destination(chunk: Chunk, sent: Array, W: Array) -> Array | None:
    """The view where the chunk's models (k, d) belong, to compute them there; None if they are not adjacent."""
    array, rows = (W, chunk.attackers) if chunk.attackers else (sent, chunk.normal)
    both = chunk.attackers and chunk.normal
    return array[rows[1]] if rows and not both and isinstance(rows[1], slice) else None


def gradients(p: Plan, w: Array, X: Array, y: Array) -> Array:
    """Gradients of the regularised risk, (k, d)."""
    s, xp = p.setting, module_of(w)
    if p.network:
        G = p.network.step(w, X, y, 1)
    else:
        G = xp.stack([s.model.gradient(*own) for own in zip(w, X, y, strict=True)]).astype(w.dtype, copy=False)
    if s.l2:
        G += s.l2 * w
    return G


def attack(p: Plan, sent: Array, W: Array, signals: Array | None, before: State, batch: Array) -> None:
    """`algorithm.messages`: writes the attackers' among those `sent`. Their own models are in W."""
    if not len(p.attackers) or not p.groups:
        return
    xp, (f, d), entry = module_of(W), (len(p.attackers), W.shape[1]), ATTACKS[p.setting.attack]
    known, looks = entry.send in COORDINATEWISE, not {"own", "attackers"}.isdisjoint(entry.knows)
    entry = entry._replace(send=COORDINATEWISE.get(entry.send, entry.send))

    def fill(part: tuple[slice, ...]) -> None:
        own = W[p.attackers, part[0]] if looks or not known else W[:f, part[0]]
        honest, drawn = sent[p.honest, part[0]], None if signals is None else signals[:, part[0]]
        for receiver, lies in p.lies:
            theirs = honest if known else honest.copy()  # a user's may write to it
            view = View(p.known_setting, before, batch, own, theirs, p.normal, drawn, receiver)
            sent[lies, part[0]] = entry.made_from(view)

    parallel_for(fill, tiles((d,), COORDINATES * device_factor(xp) if known else d))


def aggregated(p: Plan, group: Group, M: Array, r: Array | None, finite: bool, W: Array) -> Array | None:
    """Writes the receivers' new models to W; returns any weights (u, m, n)."""
    rule, f = RULES[p.setting.rule], len(p.attackers)
    if p.twin and p.twin.models:
        W[group.receivers] = p.twin.models(M, f)[:, None]
        return None
    if p.twin and p.twin.weights:
        c = p.twin.weights(r, group.own, group.senders)
        combine_into(c, M, finite, W, group.receivers, group.receiver_slice)
        return c
    weights = []  # of a user's own rule: as in the specification, on a copy, which it may write to
    own, receivers = to_host(group.own), to_host(group.receivers)
    for i, j in np.ndindex(*own.shape):
        heard = M[i].copy()
        made = rule.compute(heard, None if r is None else r[i, j], int(own[i, j]), f)
        W[int(receivers[i, j])] = combine(made, heard) if rule.weighs else made
        weights += [made] if rule.weighs else []
    return module_of(M).stack(weights).reshape(*group.receivers.shape, -1) if weights else None
