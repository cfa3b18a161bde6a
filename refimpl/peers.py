"""Algorithm 1 without a centre: the round of a process that holds some of the workers, and only their data.

It calls the two functions of the specification, `local_step` and `aggregation_step`, and needs nothing else but
a way to hand models to neighbours, which is the caller's: examples/mpi_peers.py does it by MPI. If attackers
hear all, every number is that of `algorithm.round_`, to the last bit. The specification does not know of this
file.

What a process knows of the workers that are not its own: who hears whom, who lies, how many rows each has, and
the seed. So it can draw everybody's row numbers, by `train.Draws`, and use its own; they say nothing about what
is in the rows.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from refimpl.algorithm import Setting, State, aggregation_step, local_step
from refimpl.arrays import Array, quiet
from refimpl.attacks import ATTACKS, View
from refimpl.related.knowledge import require_models

HEAR = ("all", "graph")
Rows = dict[int, Array]  # models (d,) by the number of the worker that they come from
Exchange = Callable[[Rows], Rows]  # hands over our workers' rows, returns what they hear from elsewhere


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
    Raises ValueError if an attacker would hear no normal worker, or would have to know more than models.
    """
    require_models(s.attack)
    N, lying = len(s.graph), np.zeros(len(s.graph), dtype=bool)
    lying[s.attackers] = True
    others = s.graph & ~np.eye(N, dtype=bool)
    spies = hear == "all" and not {"attackers", "honest"}.isdisjoint(ATTACKS[s.attack].knows)
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


def to_send(channel: np.ndarray, here: np.ndarray, there: np.ndarray) -> list[int]:
    """The workers `here` that somebody `there` hears, ascending."""
    return [int(k) for k in here if channel[k, there].any()]


@quiet
def round_(
    s: Setting,
    workers: np.ndarray,
    state: State,
    batch: np.ndarray,
    signals: Array | None,
    hears: Channels,
    exchange_models: Exchange,
    exchange_lies: Exchange,
) -> State:
    """One round of Algorithm 1 for the m `workers` of this process, ascending: their next state.

    X[k] and y[k] of the setting need to be there for our workers only. W (m, d) and the memory (slots, m, d) of
    the state are those of our workers. `batch` (N, B) and `signals` (F, d) are everybody's.
    """
    t, memory, w_hat = state.t + 1, np.empty_like(state.memory), {}
    for i, k in enumerate(workers.tolist()):  # local learning step
        _, w_hat[k], memory[:, i] = local_step(s, k, state.W[i], state.memory[:, i], batch[k], t)

    heard = w_hat | exchange_models(w_hat)
    lies = {a: lie(s, a, hears.models, heard, signals) for a in s.attackers.tolist() if a in w_hat}
    sent = heard | lies | exchange_lies(lies)

    W = np.stack(list(w_hat.values()))  # attackers do not aggregate: they go on from their own local step
    for i, k in enumerate(workers.tolist()):  # model aggregation step
        if k not in lies:
            W[i], _, _ = aggregation_step(s, k, rows(sent, s.neighbourhood(k)[0].tolist()), batch[k])
    return State(W, memory, t)


def lie(s: Setting, a: int, models: np.ndarray, heard: Rows, signals: Array | None) -> Array:
    """What attacker a sends, (d,): the attack, with the models that it hears and its own."""
    known = np.union1d(np.flatnonzero(models[:, a]), a)
    liars = np.isin(known, s.attackers)
    own, honest = known[liars].tolist(), known[~liars].tolist()
    mine = signals if signals is None else signals[np.searchsorted(s.attackers, own)]
    view = View(None, None, None, rows(heard, own), rows(heard, honest), known[~liars], mine)
    made = ATTACKS[s.attack].made_from(view)
    return made if made.ndim == 1 else made[own.index(a)]


def rows(models: Rows, workers: Iterable[int]) -> Array:
    """The models of these workers, (n, d), in the order given."""
    return np.stack([models[k] for k in workers])
