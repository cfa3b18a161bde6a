"""Algorithm 1: peer-to-peer distributed learning with adaptive model aggregation.

`round_` is one pass of the algorithm's outer loop: every worker takes a local step (Eq. 2) and sends the
result, or a lie, to its neighbours; then every normal worker combines what it received. Under the paper's rule,
`adaptive`, the worker scores each model by the risk on its own data, weighs it (Eq. 6) and takes the weighted
sum (Eq. 3). `local_step` and `aggregation_step` read worker k's data and what N_k sent, and nobody else's.

Symbols: N workers, d parameters; W (N, d) holds worker k's model w_k in row k; w_hat is a model after the local
step; N_k is the neighbourhood of worker k, itself included; r_k is its risk; mu_k^t its step size. The paper's
epoch t is round t here. xp is numpy, or cupy for arrays on a GPU; @quiet hides numpy's warnings about the NaN
and infinities that attackers may send.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from refimpl.aggregate import RULES, combine
from refimpl.arrays import Array, module_of, quiet
from refimpl.attacks import ATTACKS, EVERYBODY, View
from refimpl.models import Model
from refimpl.optim import OPTIMIZERS


class Setting(NamedTuple):
    """Everything that stays fixed during a run: the input of Algorithm 1, and who lies, and how."""

    model: Model
    X: Sequence[Array]  # X[k] (n_k, ...) are worker k's samples, S_k
    y: Sequence[Array]  # y[k] (n_k,) are their labels
    graph: np.ndarray  # (N, N) bool: graph[k, l] says that l is in N_k; see `graphs`
    attackers: np.ndarray  # (F,) the adversarial workers, V_f
    rule: str = "adaptive"  # a name in RULES
    attack: str = "none"  # a name in ATTACKS
    risk: str = "local"  # r_k over all "local" data (Sec. 2.1), or over the round's "batch" (end of Sec. 3)
    optimizer: str = "sgd"  # a name in OPTIMIZERS
    step_size: float | Callable[[int, int], float] = 0.01  # a number, or (k, t) -> mu_k^t; k from 0, t from 1
    l2: float = 0.0  # adds l2 |w|^2 / 2 to the risk: "possibly regularized", Sec. 2.1
    batch_size: int = 20  # not read here: for whoever draws the rows that `round_` is given

    @property
    def normal(self) -> np.ndarray:
        """The normal workers, V_c, ascending."""
        return np.setdiff1d(np.arange(len(self.graph)), self.attackers)

    def mu(self, k: int, t: int) -> float:
        """mu_k^t, the step size of worker k in round t."""
        return float(self.step_size(k, t)) if callable(self.step_size) else self.step_size

    def neighbourhood(self, k: int) -> tuple[np.ndarray, int]:
        """N_k, ascending, and the position of worker k in it."""
        N_k = np.flatnonzero(self.graph[k])
        return N_k, int(np.searchsorted(N_k, k))

    def scored_on(self, k: int, rows: Array) -> tuple[Array, Array]:
        """The samples and labels on which worker k scores models: all that it has, or the batch `rows`."""
        return (self.X[k], self.y[k]) if self.risk == "local" else (self.X[k][rows], self.y[k][rows])


class State(NamedTuple):
    """What one round hands to the next."""

    W: Array  # (N, d)
    memory: Array  # (slots, N, d): what the workers' optimisers remember; SGD nothing, it has 0 slots
    t: int = 0  # rounds so far


class Round(NamedTuple):
    """One round with everything that it computed on the way."""

    gradient: Array  # (N, d)
    local: Array  # (N, d): w_hat, Eq. (2)
    sent: Array  # (N, d), or (N, N, d), as from `messages`: attackers send what they like
    risks: Array  # (N, N): at [k, l], r_k of what worker l sent; NaN if k did not score it or its loss is NaN
    weights: Array | None  # (N, N): c(l, k) at [k, l]; None if the rule does not weigh
    state: State


def local_step(s: Setting, k: int, w: Array, memory: Array, rows: Array, t: int) -> tuple[Array, ...]:
    """Worker k's local learning step of round t, from its model w (d,), on these rows of its data: Eq. (2).

    Returns the gradient (d,), w_hat (d,) and what the optimiser remembers, (slots, d).
    """
    # At w = w_k^(t-1): the w_k^t that Eq. (2) prints comes only after the step.
    g = s.model.gradient(w, s.X[k][rows], s.y[k][rows]) + (s.l2 * w if s.l2 else 0)
    w_hat, memory = OPTIMIZERS[s.optimizer].step(w, g, memory, s.mu(k, t), t)  # Eq. (2)
    return g, w_hat, memory


def risk(s: Setting, w: Array, X: Array, y: Array) -> Array:
    """r_k(w) on worker k's data X, y (Sec. 2.1), a number.

    Infinite for a model that is not finite, even if its outputs are: ReLU hides a bias of -infinity.
    """
    xp = module_of(w)
    r = s.model.risk(w, X, y) + (s.l2 / 2 * (w * w).sum() if s.l2 else 0)
    return xp.where(xp.isfinite(w).all(), r, xp.inf)


def aggregation_step(s: Setting, k: int, W: Array, rows: Array) -> tuple[Array, Array | None, Array | None]:
    """Worker k's model aggregation step: its new model, from the models W (n, d) that N_k sent.

    W is in ascending order of the senders; `rows` are the round's batch. Every rule is told the number of
    attackers, which only some of the baselines use.
    Returns the model (d,), the risks (n,) if the rule looks at risks, the weights (n,) if it weighs.
    """
    rule, (_, own) = RULES[s.rule], s.neighbourhood(k)
    X, y = s.scored_on(k, rows)
    r = module_of(W).stack([risk(s, w, X, y) for w in W]) if rule.scores else None
    if rule.weighs:
        c = rule.compute(W, r, own, len(s.attackers))  # "adaptive": `aggregate.adaptive_weights`, Eq. (6)
        return combine(c, W), r, c  # Eq. (3)
    return rule.compute(W, r, own, len(s.attackers)), r, None


@quiet
def round_(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """One round of Algorithm 1, given what is drawn at random.

    `batch` (N, B) are the row numbers of each worker's sample; `signals` (F, d) is what the attack draws.
    """
    xp, N, t = module_of(state.W), len(s.graph), state.t + 1
    G, W_hat, memory = (xp.empty_like(array) for array in (state.W, state.W, state.memory))
    R, C = xp.full((N, N), xp.nan, state.W.dtype), xp.zeros((N, N), state.W.dtype)

    for k in range(N):  # for all agents: local learning step
        G[k], W_hat[k], memory[:, k] = local_step(s, k, state.W[k], state.memory[:, k], batch[k], t)

    sent = messages(s, W_hat, signals, state, batch)
    W = W_hat.copy()  # Algorithm 1 lets all agents aggregate; here attackers go on from their own local step

    for k in s.normal:  # model aggregation step
        N_k = xp.asarray(s.neighbourhood(k)[0])
        W[k], r, c = aggregation_step(s, k, (sent if sent.ndim == 2 else sent[k])[N_k], batch[k])
        if r is not None:
            R[k, N_k] = r
        if c is not None:
            C[k, N_k] = c

    return Round(G, W_hat, sent, R, C if RULES[s.rule].weighs else None, State(W, memory, t))


def messages(
    s: Setting, W_hat: Array, signals: Array | None, before: State | None = None, batch: Array | None = None
) -> Array:
    """What each worker sends to its neighbours, (N, d): w_hat, or what the attack makes of it (Sec. 2.2).

    (N, N, d) if the attack sends every receiver something else: at [k, l], what worker l sends to worker k.
    Of the state before the round, and of the batch, only attacks that are not the paper's know anything.
    """
    if not len(s.attackers):
        return W_hat.copy()
    xp, attack = module_of(W_hat), ATTACKS[s.attack]
    attackers, normal = xp.asarray(s.attackers), xp.asarray(s.normal)
    receivers = range(len(W_hat)) if attack.per_receiver else [EVERYBODY]
    sent = xp.stack([W_hat] * len(receivers))
    for i, k in enumerate(receivers):
        if k not in s.attackers:
            view = View(s, before, batch, W_hat[attackers], W_hat[normal], s.normal, signals, k)
            sent[i, attackers] = attack.made_from(view)
    return sent if attack.per_receiver else sent[0]


def start(s: Setting, W: Array) -> State:
    """The state before the first round, from the initial parameters W (N, d)."""
    return State(W, module_of(W).zeros((OPTIMIZERS[s.optimizer].slots, *W.shape), W.dtype))
