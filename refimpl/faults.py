"""Algorithm 1 in a network that fails: messages are lost or late, and workers stop for a while.

The rounds are made of the specification's functions, which do not know of this file. What goes wrong is drawn
on the host from a stream of its own, anew for each round: nothing else that a run draws shifts, a run can be
resumed anywhere, and with the same seed a larger probability or number keeps what went wrong and adds to it.

- A message from one worker to another is *lost*, or, if not, it may be *late*: it arrives in the next round,
  after everybody's step. If a newer one from the same sender arrives then too, the older one is dropped.
- A normal worker that has *crashed* neither steps, sends nor receives. It comes back with the model and the
  optimiser's memory that it had. It stops once, between two rounds of the run that are drawn; what it sent
  late before still arrives.
- A worker always has its own model. If it has too few models for its rule, it keeps its own in that round.
- Losses can take the honest majority that a rule needs: a medoid or a median that hears one liar alone may take
  NaN from it. Of finite lies every rule makes a finite model, unless a sum overflows.
- Attackers never crash, and what their attack knows reaches them whatever is lost, and whoever has crashed: of
  such a worker it is the model that it holds.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from refimpl import algorithm, draws
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting, State, local_step, messages
from refimpl.arrays import Array, module_of, quiet
from refimpl.engine import Engine

# --- What goes wrong ----------------------------------------------------------------------------------------


class Faults(NamedTuple):
    """What goes wrong in a run."""

    loss: float  # the probability that a message is lost
    late: float  # that one which is not lost is late
    down: np.ndarray  # (N, 2): worker k has crashed from round down[k, 0] on, until it is back in down[k, 1]
    seed: int


class Arrivals(NamedTuple):
    """Which messages arrive in a round, at [to, from], (N, N) bool."""

    fresh: np.ndarray  # sent in this round; True on the diagonal
    old: np.ndarray  # sent in the round before, and none in this round


def draw(s: Setting, loss: float, late: float, crash: int, rounds: int, seed: int) -> Faults:
    """The faults of a run of so many rounds. Raises ValueError if `crash` workers can't stop and come back."""
    if crash > len(s.normal):
        raise ValueError(f"needs as many normal workers as crash, got {crash} for {len(s.normal)}")
    if crash and rounds < 2:
        raise ValueError(f"a worker that crashes and comes back needs 2 rounds or more, got {rounds}")
    rng, down = draws.stream(seed, "faults", 0), np.zeros((len(s.graph), 2), int)
    for k in rng.permutation(s.normal)[:crash]:
        down[k] = 1 + np.sort(rng.choice(rounds, 2, replace=False))
    return Faults(loss, late, down, seed)


def up(faults: Faults, t: int) -> np.ndarray:
    """Which workers have not crashed in round t, (N,) bool."""
    first, back = faults.down.T
    return (t < first) | (t >= back)


def arrivals(faults: Faults, graph: np.ndarray, t: int) -> Arrivals:
    """What arrives in round t of the messages along a graph."""
    fresh, _ = sent(faults, graph, t)
    old = sent(faults, graph, t - 1)[1] if t > 1 else np.zeros_like(graph)
    listens = up(faults, t)[:, None]
    own = np.eye(len(graph), dtype=bool)
    return Arrivals(fresh & listens | own, old & listens & ~fresh & ~own)


def sent(faults: Faults, graph: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The messages of round t that are not lost, at [to, from], (N, N) bool: those in time, and the late."""
    rng = draws.stream(faults.seed, "faults", t)
    lost, late = rng.random(graph.shape) < faults.loss, rng.random(graph.shape) < faults.late
    kept = graph & up(faults, t) & ~lost
    return kept & ~late, kept & late


# --- A round ------------------------------------------------------------------------------------------------


class Underway(NamedTuple):
    """A `State`, and what is still underway."""

    W: Array
    memory: Array
    t: int
    sent: Array  # as `messages` returned it in the last round, some of which may be late; empty if none can be
    too_few: int  # how often, in all rounds so far, a normal worker kept its own model, as too few arrived


class FaultyRound(NamedTuple):
    """One round; see `algorithm.Round`."""

    local: Array  # (N, d)
    sent: Array  # (N, d) or (N, N, d)
    arrived: Arrivals
    risks: Array  # (N, N)
    weights: Array | None  # (N, N)
    state: Underway

    @property
    def counts(self) -> dict[str, float]:
        """What `train.run` adds to the history."""
        return {"too_few": self.state.too_few}


def engine(s: Setting, faults: Faults) -> Engine:
    """An engine that computes rounds with these faults."""
    return Engine(partial(round_, s, faults), s.model)


@quiet
def round_(s: Setting, faults: Faults, state: Any, batch: Array, signals: Array | None = None) -> FaultyRound:
    """`algorithm.round_` with faults, from its state, or from that of the round before."""
    xp, N, t = module_of(state.W), len(s.graph), state.t + 1
    before, too_few = (state.sent, state.too_few) if isinstance(state, Underway) else (None, 0)
    R, C = xp.full((N, N), xp.nan, state.W.dtype), xp.eye(N, dtype=state.W.dtype)
    running, arrived = np.flatnonzero(up(faults, t)), arrivals(faults, s.graph, t)
    W_hat, memory = state.W.copy(), state.memory.copy()
    for k in running.tolist():  # local learning step
        _, W_hat[k], memory[:, k] = local_step(s, k, state.W[k], state.memory[:, k], batch[k], t)

    now = messages(s, W_hat, signals, State(state.W, state.memory, state.t), batch)
    W = W_hat.copy()
    for k in np.intersect1d(s.normal, running):  # model aggregation step
        senders = np.flatnonzero(arrived.fresh[k] | arrived.old[k])
        heard = [to(k, now if arrived.fresh[k, l] else before)[l] for l in senders]
        made = aggregation_step(s, k, senders, xp.stack(heard), batch[k])
        if made is None:
            too_few += 1
            continue
        W[k], r, c = made
        if r is not None:
            R[k, xp.asarray(senders)] = r
        if c is not None:
            C[k] = 0
            C[k, xp.asarray(senders)] = c

    state = Underway(W, memory, t, now if faults.late else now[:0], too_few)
    return FaultyRound(W_hat, now, arrived, R, C if RULES[s.rule].weighs else None, state)


def to(k: int, sent: Array) -> Array:
    """Of the messages (N, d) to all, or (N, N, d) to each, those to worker k: (N, d)."""
    return sent if sent.ndim == 2 else sent[k]


def aggregation_step(s: Setting, k: int, senders: np.ndarray | list[int], W: Array, rows: Array) -> Any:
    """`algorithm.aggregation_step` of worker k that has the models W (n, d) of these senders, ascending.

    It is among them itself. None if its rule needs more of them.
    """
    try:
        RULES[s.rule].require(len(senders), len(s.attackers))
    except ValueError:
        return None
    heard = np.zeros_like(s.graph)
    heard[k, senders] = True
    return algorithm.aggregation_step(s._replace(graph=heard), k, W, rows)
