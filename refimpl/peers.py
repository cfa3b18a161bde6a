"""Algorithm 1 without a centre: the round of a process that holds some of the workers, and only their data.

It calls the two functions of the specification, `local_step` and `aggregation_step`, and needs nothing else but
a way to hand models to neighbours, which is the caller's: examples/mpi_peers.py does it by MPI. If attackers
hear all, every number is that of `algorithm.round_`, to the last bit; in a network that fails, `faulty`, that
of `faults.round_`. The specification does not know of this file.

What a process knows of the workers that are not its own: who hears whom, who lies, how many rows each has, and
the seed. So it can draw everybody's row numbers, by `train.Draws`, and use its own; they say nothing about what
is in the rows.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from refimpl import algorithm
from refimpl.algorithm import Setting, local_step
from refimpl.arrays import Array, quiet
from refimpl.attacks import ATTACKS, EVERYBODY, View
from refimpl.faults import Faults, aggregation_step, arrivals, sent
from refimpl.related.knowledge import require_known_to_peers

HEAR = ("all", "graph")
OF_OTHERS = {"attackers", "honest", "heard"}  # what an attack may know for which it has to listen to all
Rows = dict[int, Array]  # models (d,) by the number of the worker that they come from
Pair = tuple[int, int]  # sender, receiver
Mail = dict[Pair, Array]  # models (d,)
Exchange = Callable[[Mail], Mail]  # hands over what our workers send, returns what they are sent


class Ours(NamedTuple):
    """What a round hands to the next, of the m workers of a process: an `algorithm.State` that counts."""

    W: Array  # (m, d)
    memory: Array  # (slots, m, d)
    t: int
    too_few: np.ndarray  # (m,) how often each kept its own model, as too few arrived; see `faults`


def start(s: Setting, W: Array) -> Ours:
    """What the first round begins with, from our workers' initial parameters W (m, d)."""
    return Ours(*algorithm.start(s, W), np.zeros(len(W), int))


class Channels(NamedTuple):
    """Who sends to whom in a round, at [from, to], (N, N) bool. Nobody sends to itself.

    Attackers let the others speak first: they listen to the models and then send what they made of them.
    """

    models: np.ndarray  # first, w_hat: from normal workers to all their neighbours, from attackers to attackers
    lies: np.ndarray  # then what the attackers send to their normal neighbours


def channels(s: Setting, hear: str = "all") -> Channels:
    """The channels of a setting, whose attackers hear "all" workers, or those that the "graph" lets them hear.

    An attack that knows only its own model needs no more than the graph. The paper's others, FoE and ALIE, know
    all honest models here (see `attacks`): on a sparse graph that takes channels which the graph does not have.
    Raises ValueError if an attacker would hear no normal worker, or would have to know more than peers can.
    """
    require_known_to_peers(s.attack)
    N, lying = len(s.graph), np.zeros(len(s.graph), dtype=bool)
    lying[s.attackers] = True
    others = s.graph & ~np.eye(N, dtype=bool)
    spies = hear == "all" and not OF_OTHERS.isdisjoint(ATTACKS[s.attack].knows)
    heard = ~np.eye(N, dtype=bool) & lying if spies else others & lying  # by attackers, at [from, to]
    for a in s.attackers:
        if not (heard[:, a] & ~lying).any():
            raise ValueError(f"attacker {a} hears no normal worker: hear all, or choose another graph")
    return Channels(heard | (others & ~lying[:, None]), others & lying[:, None] & ~lying)


def deal(workers: int, processes: int) -> list[np.ndarray]:
    """Near-equal consecutive blocks of workers, one for each process."""
    if processes > workers:
        raise ValueError(f"needs a worker for each process, got {processes} processes for {workers} workers")
    return np.array_split(np.arange(workers), processes)


def parcels(channel: np.ndarray, here: np.ndarray, there: np.ndarray, each: bool = False) -> list[list[Pair]]:
    """The pairs of a sender `here` and a receiver `there`, ascending, together if they share a message.

    All receivers share that of a sender, unless the sender has one for `each`.
    """
    pairs = [[(k, to) for to in there.tolist() if channel[k, to]] for k in here.tolist()]
    return [[pair] for some in pairs for pair in some] if each else [some for some in pairs if some]


def faulty(exchange: Exchange, s: Setting, faults: Faults, t: int, held: Mail) -> Exchange:
    """The exchange of round t with what arrives of it; attackers hear everything.

    What is late is put into `held`, where the next round finds it, also if its sender has crashed by then.
    """
    (fresh, old), (_, late) = arrivals(faults, s.graph, t), sent(faults, s.graph, t)

    def exchanged(mail: Mail) -> Mail:
        heard = {}
        for (k, to), w in exchange(mail).items():
            if fresh[to, k] or to in s.attackers:
                heard[k, to] = w
            elif old[to, k]:
                heard[k, to] = held[k, to]
            if late[to, k]:
                held[k, to] = w
        return heard

    return exchanged


@quiet
def round_(
    s: Setting,
    workers: np.ndarray,
    state: Ours,
    batch: np.ndarray,
    signals: Array | None,
    hears: Channels,
    exchange_models: Exchange,
    exchange_lies: Exchange,
    up: np.ndarray | None = None,
) -> Ours:
    """One round of Algorithm 1 for the m `workers` of this process, ascending: their next state.

    X[k] and y[k] of the setting need to be there for our workers only. `batch` (N, B) and `signals` (F, d) are
    everybody's. `up` (N,) says who has not crashed, by default all; what comes from or goes to the others is
    left to the exchange.
    """
    t, W, memory, too_few = state.t + 1, state.W.copy(), state.memory.copy(), state.too_few.copy()
    running = [(i, k) for i, k in enumerate(workers.tolist()) if up is None or up[k]]
    for i, k in running:  # local learning step
        _, W[i], memory[:, i] = local_step(s, k, state.W[i], state.memory[:, i], batch[k], t)

    w_hat = dict(zip(workers.tolist(), W.copy(), strict=True))
    heard = {k: {k: w} for k, w in w_hat.items()}  # by receiver, then by sender
    for (k, to), w in exchange_models(addressed(w_hat, hears.models)).items():
        heard[to][k] = w
    liars = [a for a in s.attackers.tolist() if a in w_hat]
    for (a, to), w in exchange_lies(lies(s, liars, hears, heard, signals, state)).items():
        heard[to][a] = w

    for i, k in running:  # model aggregation step
        if k not in liars:  # attackers do not aggregate: they go on from their own local step
            senders = sorted(heard[k])
            made = aggregation_step(s, k, senders, rows(heard[k], senders), batch[k])
            W[i], too_few[i] = (made[0], too_few[i]) if made else (W[i], too_few[i] + 1)
    return Ours(W, memory, t, too_few)


def addressed(models: Rows, channel: np.ndarray) -> Mail:
    """The models, each for all to whom the channel leads from its worker."""
    return {(k, int(to)): w for k, w in models.items() for to in np.flatnonzero(channel[k])}


def lies(
    s: Setting, liars: list[int], hears: Channels, heard: dict[int, Rows], signals: Array | None, state: Ours
) -> Mail:
    """What these attackers send to their normal neighbours, of what each of them has heard."""
    if ATTACKS[s.attack].per_receiver:
        pairs = [(a, int(to)) for a in liars for to in np.flatnonzero(hears.lies[a])]
        return {(a, to): lie(s, a, hears.models, heard[a], signals, state, to) for a, to in pairs}
    to_all = {a: lie(s, a, hears.models, heard[a], signals, state) for a in liars}
    return addressed(to_all, hears.lies)


def lie(
    s: Setting,
    a: int,
    models: np.ndarray,
    heard: Rows,
    signals: Array | None,
    state: Ours | None = None,
    receiver: int = EVERYBODY,
) -> Array:
    """What attacker a sends, (d,): the attack, with the models that it hears and its own."""
    known = np.union1d(np.flatnonzero(models[:, a]), a)
    liars = np.isin(known, s.attackers)
    own, honest = known[liars].tolist(), known[~liars].tolist()
    mine = signals if signals is None else signals[np.searchsorted(s.attackers, own)]
    view = View(s, state, None, rows(heard, own), rows(heard, honest), known[~liars], mine, receiver)
    made = ATTACKS[s.attack].made_from(view)
    return made if made.ndim == 1 else made[own.index(a)]


def rows(models: Rows, workers: Iterable[int]) -> Array:
    """The models of these workers, (n, d), in the order given."""
    return np.stack([models[k] for k in workers])
