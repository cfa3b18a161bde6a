"""Algorithm 1: peer-to-peer distributed learning with adaptive model aggregation.

`round_` is one pass of the algorithm's outer loop: every worker takes a local step and sends the result to its
neighbours (Eq. 2), then every normal worker scores what it received by the risk on its own data, weighs it
(Eq. 6) and combines it (Eq. 3). `local_step` and `aggregation_step` see what one worker sees and nothing else.

Symbols: N workers, d parameters; W (N, d) holds worker k's model w_k in row k; w_hat is a model after the local
step; N_k is the neighbourhood of worker k, itself included; r_k is its risk; mu_k^t its step size in round t.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl.aggregate import RULES, Rule, combine
from refimpl.arrays import Array, module_of, quiet
from refimpl.attacks import ATTACKS
from refimpl.models import Model
from refimpl.optim import OPTIMIZERS, Optimizer


class Setting(NamedTuple):
    """Everything that stays fixed during a run: the input of Algorithm 1, and who lies, and how."""

    model: Model
    X: Array  # (N, n, ...): X[k] are worker k's samples, padded to one length
    y: Array  # (N, n): their labels; a padded row comes last, has label -1 and counts nowhere
    graph: np.ndarray  # (N, N) bool: graph[k, l] says that l is in N_k; see `graphs`
    attackers: np.ndarray  # (F,) the adversarial workers, V_f
    rule: str = "adaptive"  # a name in RULES
    attack: str = "none"  # a name in ATTACKS
    risk: str = "local"  # r_k over all "local" data (Sec. 2.1), or over the round's "batch" (end of Sec. 3)
    optimizer: str = "sgd"  # a name in OPTIMIZERS
    step_size: float | Callable[[int, int], float] = 0.01  # a number, or (k, t) -> mu_k^t; k from 0, t from 1
    l2: float = 0.0  # adds l2 |w|^2 / 2 to the risk: "possibly regularized", Sec. 2.1
    batch_size: int = 20

    @property
    def normal(self) -> np.ndarray:
        """The normal workers, V_c, ascending."""
        return np.setdiff1d(np.arange(len(self.graph)), self.attackers)


class State(NamedTuple):
    """What one round hands to the next."""

    W: Array  # (N, d)
    memory: Array  # (slots, N, d): what the workers' optimisers remember
    t: int = 0  # rounds so far


class Round(NamedTuple):
    """One round with everything that it computed on the way."""

    gradient: Array  # (N, d)
    local: Array  # (N, d): w_hat, Eq. (2)
    sent: Array  # (N, d): the normal workers send w_hat, attackers what they like
    risks: Array  # (N, N): at [k, l], r_k of what worker l sent; NaN also where k has not scored it
    weights: Array | None  # (N, N): c(l, k) at [k, l]; None if the rule does not weigh
    state: State


def local_step(
    model: Model,
    optimizer: Optimizer,
    w: Array,
    memory: Array,
    X: Array,
    y: Array,
    mu: float,
    t: int,
    l2: float = 0.0,
) -> tuple[Array, Array, Array]:
    """One worker's local learning step from its model w (d,), on its batch X, y: Eq. (2).

    Returns the gradient (d,), w_hat (d,) and what the optimiser remembers, (slots, d).
    """
    g = model.gradient(w, X, y) + (l2 * w if l2 else 0)
    w_hat, memory = optimizer.step(w, g, memory, mu, t)  # Eq. (2)
    return g, w_hat, memory


def risk(model: Model, w: Array, X: Array, y: Array, l2: float = 0.0) -> Array:
    """r_k(w) on worker k's data X, y (Sec. 2.1), a number. Infinite for a model that is not finite."""
    xp = module_of(w)
    r = model.risk(w, X, y) + (l2 / 2 * (w * w).sum() if l2 else 0)
    return xp.where(xp.isfinite(w).all(), r, xp.inf)


def aggregation_step(
    model: Model, rule: Rule, W: Array, own: int, X: Array, y: Array, f: int, l2: float = 0.0
) -> tuple[Array, Array | None, Array | None]:
    """One worker's model aggregation step: what it makes of the models W (n, d) that its neighbourhood sent.

    They are in ascending order of the senders' numbers, its own at position `own`. X, y are the data that it
    scores them on. f is the number of attackers, which some rules have to know.
    Returns its new model (d,), the risks (n,) if the rule looks at risks, the weights (n,) if it weighs.
    """
    r = module_of(W).stack([risk(model, w, X, y, l2) for w in W]) if rule.scores else None
    if not rule.weighs:
        return rule.compute(W, r, own, f), r, None
    c = rule.compute(W, r, own, f)  # N_k^+ and Eq. (6), in `aggregate.adaptive_weights`
    return combine(c, W), r, c  # Eq. (3)


@quiet
def round_(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """One round of Algorithm 1, given what is drawn at random.

    `batch` (N, B) are the row numbers of each worker's sample; `signals` (F, d) is what the attack draws.
    """
    xp, N, t = module_of(state.W), len(s.graph), state.t + 1
    rule, optimizer = RULES[s.rule], OPTIMIZERS[s.optimizer]
    G, W_hat, memory = (xp.empty_like(array) for array in (state.W, state.W, state.memory))
    R, C = xp.full((N, N), xp.nan, state.W.dtype), xp.zeros((N, N), state.W.dtype)

    for k in range(N):  # for all agents: local learning step
        X, y = s.X[k, batch[k]], s.y[k, batch[k]]
        mu = float(s.step_size(k, t)) if callable(s.step_size) else s.step_size
        step = local_step(s.model, optimizer, state.W[k], state.memory[:, k], X, y, mu, t, s.l2)
        G[k], W_hat[k], memory[:, k] = step

    sent = messages(s, W_hat, signals)
    W = W_hat.copy()  # attackers do not aggregate: they go on from their own local step

    for k in s.normal:  # for all normal agents: model aggregation step
        neighbourhood = np.flatnonzero(s.graph[k])
        own, N_k = int(np.searchsorted(neighbourhood, k)), xp.asarray(neighbourhood)
        X, y = (s.X[k], s.y[k]) if s.risk == "local" else (s.X[k, batch[k]], s.y[k, batch[k]])
        W[k], r, c = aggregation_step(s.model, rule, sent[N_k], own, X, y, len(s.attackers), s.l2)
        if r is not None:
            R[k, N_k] = r
        if c is not None:
            C[k, N_k] = c

    return Round(G, W_hat, sent, R, C if rule.weighs else None, State(W, memory, t))


def messages(s: Setting, W_hat: Array, signals: Array | None) -> Array:
    """What each worker sends to its neighbours, (N, d): w_hat, or what the attack makes of it (Sec. 2.2)."""
    xp = module_of(W_hat)
    sent = W_hat.copy()
    if len(s.attackers):
        attackers, normal = xp.asarray(s.attackers), xp.asarray(s.normal)
        sent[attackers] = ATTACKS[s.attack].send(W_hat[attackers], W_hat[normal], signals)
    return sent


def start(s: Setting, W: Array) -> State:
    """The state before the first round, from the initial parameters W (N, d)."""
    return State(W, module_of(W).zeros((OPTIMIZERS[s.optimizer].slots, *W.shape), W.dtype))
