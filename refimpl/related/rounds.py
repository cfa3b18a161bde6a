"""Parts that the systems share: gradients, steps, what a worker hears, and the two orders of a round."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl import algorithm
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, module_of, to_host
from refimpl.optim import OPTIMIZERS
from refimpl.related.mixing import uniform_weights


class SystemRound(NamedTuple):
    """One round of a system; `algorithm.Round` is one of the paper's."""

    sent: tuple[Array, ...]  # everything that was exchanged, in this order; row k of each is what worker k sent
    state: State
    weights: Array | None = None  # (N, N), as in `algorithm.Round`, if they depend on what is heard


class Heard(NamedTuple):
    """The messages that one worker hears in a round, its own included, in ascending order of the senders."""

    senders: np.ndarray  # (n,): the workers
    models: Array  # (n, d)
    own: int  # its own position among them
    weights: Array  # (n,): its row of the mixing matrix
    f: int  # the number of attackers
    honest: np.ndarray  # (n,) bool: False for attackers. No worker knows this; only oracles use it
    risk: Callable[[Array], Array]
    """(d,) -> the risk of a model on what this worker scores on"""
    same_to_all: bool = True  # do all workers that hear these senders hear these models?

    @property
    def others(self) -> np.ndarray:
        """The positions of its neighbours."""
        return np.delete(np.arange(len(self.models)), self.own)


Combine = Callable[[Heard], Array]  # -> (d,)


def shared_result(rule: Callable[[Array, int], Array]) -> Combine:
    """Combines by a rule (models, f) -> (d,); workers that hear the same models share one result.

    It is good for one round only: what is sent changes in the next.
    """
    made: dict[bytes, Array] = {}

    def combine(h: Heard) -> Array:
        if not h.same_to_all:
            return rule(h.models, h.f)
        key = h.senders.tobytes()
        if key not in made:
            made[key] = rule(h.models, h.f)
        return made[key]

    return combine


def heard(s: Setting, sent: Array, mixing: np.ndarray, batch: Array, k: int) -> Heard:
    """What worker k hears of the messages `sent`, (N, d) or (N, N, d), with what it knows about them.

    It scores models on what the setting says, `scored_on`.
    """
    xp, (N_k, own), same = module_of(sent), s.neighbourhood(k), sent.ndim == 2
    sent = sent if same else sent[k]
    return Heard(
        senders=N_k,
        models=read_only(sent if len(N_k) == len(sent) else sent[xp.asarray(N_k)]),
        own=own,
        weights=xp.asarray(mixing[k, N_k].astype(sent.dtype)),
        f=len(s.attackers),
        honest=~np.isin(N_k, s.attackers),
        risk=lambda w: algorithm.risk(s, w, *s.scored_on(k, batch[k])),
        same_to_all=same,
    )


def on_the_batch(s: Setting, batch: Array) -> Setting:
    """The setting in which normal workers score models on the round's batch; attackers keep all their rows."""
    X, y = list(s.X), list(s.y)
    for k in s.normal:
        X[k], y[k] = X[k][batch[k]], y[k][batch[k]]
    return s._replace(X=X, y=y, risk="local")


def once(risk: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The same function of a model (d,), computed once for each: what is tried again and again shares risks."""
    known: dict[bytes, Array] = {}

    def recalled(w: Array) -> Array:
        key = to_host(w).tobytes()
        if key not in known:
            known[key] = risk(w)
        return known[key]

    return recalled


def read_only(array: Array) -> Array:
    """The array as others see it too: numpy refuses to write to it; on a device, which can't refuse, a copy."""
    if module_of(array) is not np:
        return array.copy()
    view = array.view()
    view.flags.writeable = False
    return view


def gradients(s: Setting, W: Array, batch: Array) -> Array:
    """Each worker's gradient at its row of W on its batch, with the L2 term: (N, d)."""
    G = module_of(W).empty_like(W)
    for k, w in enumerate(W):
        G[k] = s.model.gradient(w, s.X[k][batch[k]], s.y[k][batch[k]]) + (s.l2 * w if s.l2 else 0)
    return G


def steps(s: Setting, base: Array, G: Array, state: State) -> tuple[Array, Array]:
    """Models (N, d) after each worker's step from its row of `base` along its row of G, and the memory.

    With sgd, base - mu G. The first slots of the memory are the optimiser's; the system's own are kept.
    """
    optimizer, t = OPTIMIZERS[s.optimizer], state.t + 1
    W, memory = module_of(base).empty_like(base), state.memory.copy()
    slots = slice(optimizer.slots)
    for k in range(len(W)):
        W[k], memory[slots, k] = optimizer.step(base[k], G[k], memory[slots, k], s.mu(k, t), t)
    return W, memory


def require_place(at: str) -> None:
    """Raises ValueError unless `at` says where a gradient is taken: at the "own" or at the "mixed" model."""
    if at not in ("own", "mixed"):
        raise ValueError(f'the gradient must be taken at "own" or "mixed", got {at!r}')


def with_slots(state: State, *slots: Array) -> State:
    """The state with the system's own slots of the memory, (N, d) each, added before the first round."""
    if state.t:
        return state
    xp = module_of(state.W)
    return state._replace(memory=xp.concatenate([state.memory, xp.stack(slots).astype(state.W.dtype)]))


def combined_rows(
    s: Setting, W: Array, sent: Array, batch: Array, combine: Combine, mixing: np.ndarray
) -> Array:
    """W (N, d) with each normal worker's row replaced by its combination of what it hears of `sent`."""
    W = W.copy()
    for k in s.normal:
        W[k] = combine(heard(s, sent, mixing, batch, k))
    return W


def step_then_mix(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None,
    combine: Combine,
    mixing: Callable[[np.ndarray], np.ndarray] = uniform_weights,
    G: Array | None = None,
    judge: Setting | None = None,
) -> SystemRound:
    """A round in which all workers step and send, and normal ones combine what they hear into the next model.

    G (N, d) are the directions of the steps, if they are not the gradients. `judge` is the setting, but for the
    data: its `scored_on` says on what models are scored, and so what attackers know that know the receiver's
    data. By default that is the round's batch.
    """
    judge = judge or on_the_batch(s, batch)
    W_hat, memory = steps(s, state.W, gradients(s, state.W, batch) if G is None else G, state)
    sent = algorithm.messages(judge, W_hat, signals, state, batch)
    W = combined_rows(judge, W_hat, sent, batch, combine, mixing(s.graph))
    return SystemRound((sent,), State(W, memory, state.t + 1))


def mix_and_step(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None,
    combine: Combine,
    mixing: Callable[[np.ndarray], np.ndarray] = uniform_weights,
    at: str = "own",
) -> SystemRound:
    """A round in which all workers send their model, and normal ones step from a combination of what they hear.

    The gradient is taken at the worker's "own" model, as it was sent, or at the "mixed" one. Models are scored
    on the round's batch, and that is what attackers know that know the receiver's data.
    """
    require_place(at)
    judge = on_the_batch(s, batch)
    sent = algorithm.messages(judge, state.W, signals, state, batch)
    mixed = combined_rows(judge, state.W, sent, batch, combine, mixing(s.graph))
    W, memory = steps(s, mixed, gradients(s, state.W if at == "own" else mixed, batch), state)
    return SystemRound((sent,), State(W, memory, state.t + 1))
