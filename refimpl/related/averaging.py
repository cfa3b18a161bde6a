"""Systems that average what they hear, whoever sent it: D-PSGD, DMSGD, SGP, CHOCO-SGD, FedAvg.

Each is one round in the form of `algorithm.round_`; options come last and have the defaults of the source.
"""

from collections.abc import Callable

from refimpl.algorithm import Setting, State, messages
from refimpl.arrays import Array, module_of, quiet
from refimpl.related.mixing import combine, count_of, metropolis_weights, push_weights, top_k
from refimpl.related.rounds import (
    Heard,
    SystemRound,
    combined_rows,
    gradients,
    heard,
    mix_and_step,
    step_then_mix,
    steps,
    with_slots,
)

SENT_SHARE = 0.01  # of the entries, by CHOCO-SGD: the authors' code for convex problems


def weighted(h: Heard) -> Array:
    """The sum of c_l w_l over what is heard, c being the weights: (d,)."""
    return combine(h.weights, h.models)


@quiet
def d_psgd(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    order: str = "mix-and-step",
) -> SystemRound:
    """A round of D-PSGD (Lian et al. 2017): x_k' = sum_l w_kl x_l - mu g_k(x_k), w by Metropolis.

    Mixing and gradient are independent: the gradient is taken at the worker's own, unmixed model. The order
    "step-then-mix" is x_k' = sum_l w_kl (x_l - mu g_l(x_l)), as in most codes, and in Koloskova et al. 2020
    with graphs that change and local updates (their equations from memory, unverified). The default is the
    paper's order, as third parties read it.
    """
    orders: dict[str, Callable[..., SystemRound]] = {
        "mix-and-step": mix_and_step,
        "step-then-mix": step_then_mix,
    }
    if order not in orders:
        raise ValueError(f"unknown order {order!r}, choose from {', '.join(orders)}")
    return orders[order](s, state, batch, signals, weighted, metropolis_weights)


@quiet
def dmsgd(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    beta: float = 0.9,
    omega: float = 0.5,
) -> SystemRound:
    """A round of DMSGD (Balu et al. 2021): X' = P X - mu G(X) + beta P~ (X - X_before).

    P~ = (1 - omega) I + omega P; P by Metropolis; X_before = X at first. Workers send the model and the
    momentum X - X_before, which is the system's slot of the memory. Verified (abstract): heavy ball, fixed
    graph, both are shared. The equation is from memory, unverified, and so are beta and omega; omega = 0 does
    not average the momentum, omega = 1 averages it fully. CDMSGD, by some of the same authors, whose code is
    public, does not share the momentum.
    """
    state = with_slots(state, 0 * state.W)
    X, V = state.W, state.memory[-1]
    sent_X, sent_V, P = messages(s, X, signals), messages(s, V, signals), metropolis_weights(s.graph)
    base = X + beta * V  # attackers do not mix
    for k in s.normal:
        x, v = (weighted(heard(s, sent, P, batch, k)) for sent in (sent_X, sent_V))
        base[k] = x + beta * ((1 - omega) * V[k] + omega * v)
    W, memory = steps(s, base, gradients(s, X, batch), state)
    memory[-1] = W - X
    return SystemRound((sent_X, sent_V), State(W, memory, state.t + 1))


@quiet
def sgp(s: Setting, state: State, batch: Array, signals: Array | None = None) -> SystemRound:
    """A round of SGP, stochastic gradient push (Assran et al. 2019, their code), for directed graphs.

    x_k <- x_k - mu g_k(z_k); x_k <- sum_l p_kl x_l, u_k <- sum_l p_kl u_l; z_k = x_k / u_k. The columns of p
    sum to 1. `State.W` holds the de-biased z, which is what is reported; the system's two slots of the memory
    hold x, and u repeated d times. Workers send x and u; the attack is on x, the attackers' u stays 1. The
    momentum of their code is left out.
    """
    xp = module_of(state.W)
    state = with_slots(state, state.W, xp.ones_like(state.W))
    X, memory = steps(s, state.memory[-2], gradients(s, state.W, batch), state)
    u = memory[-1].copy()
    sent, P = messages(s, X, signals), push_weights(s.graph)
    memory[-2] = combined_rows(s, X, sent, batch, weighted, P)
    memory[-1] = combined_rows(s, u, u, batch, weighted, P)
    return SystemRound((sent, u[:, :1]), State(memory[-2] / memory[-1], memory, state.t + 1))


@quiet
def choco(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    share: float = SENT_SHARE,
    gamma: float = 0.04,
    order: str = "mix-and-step",
    copies: str = "zero",
) -> SystemRound:
    """A round of CHOCO-SGD (Koloskova et al. 2019): compressed differences to public copies h; w by Metropolis.

    y_k = x_k - mu g_k(x_k). Order "mix-and-step", the authors' code: x_k' = y_k + gamma sum_l w_kl (h_l - h_k);
    q_k = Q(x_k' - h_k); h_k' = h_k + q_k. Order "step-then-mix", decentralizepy and, from memory, Algorithm 2
    of the paper: q_k = Q(y_k - h_k); h_k' = h_k + q_k; x_k' = y_k + gamma sum_l w_kl (h_l' - h_k'). If Q is
    the identity, gamma = 1 and the copies start as the models, these are the two orders of D-PSGD. Defaults:
    order, 1 % and 0.04 of the authors' code for convex problems; the copies of their deep-learning code, as
    those of the convex code need equal initial models.

    Q keeps the `share` of largest entries; 1 is the identity. h is the system's slot of the memory, one copy
    for all, as all workers hear the same; it starts at "zero" (deep code) or as the "models" (convex code).
    Workers send q. A lie is compressed, too, as a message has no room for more.
    """
    if order not in ("mix-and-step", "step-then-mix"):
        raise ValueError(f"unknown order {order!r}, choose from mix-and-step, step-then-mix")
    if copies not in ("zero", "models"):
        raise ValueError(f'copies start at "zero" or as the "models", got {copies!r}')
    state = with_slots(state, state.W * (copies == "models"))
    Y, memory = steps(s, state.W, gradients(s, state.W, batch), state)
    count, H, M = count_of(share, Y.shape[-1]), state.memory[-1], metropolis_weights(s.graph)

    def compressed(X: Array) -> Array:
        q = module_of(X).stack([top_k(x - h, count) for x, h in zip(X, H, strict=True)])
        q = messages(s, q, signals)
        for k in s.attackers:
            q[k] = top_k(q[k], count)
        return q

    def mixed(H: Array) -> Array:
        X = Y.copy()
        for k in s.normal:
            h = heard(s, H, M, batch, k)
            X[k] = Y[k] + gamma * combine(h.weights, h.models - H[k])
        return X

    if order == "mix-and-step":
        X = mixed(H)
        sent = compressed(X)
        memory[-1] = H + sent
    else:
        sent = compressed(Y)
        memory[-1] = H + sent
        X = mixed(memory[-1])
    return SystemRound((sent,), State(X, memory, state.t + 1))


@quiet
def fedavg(s: Setting, state: State, batch: Array, signals: Array | None = None) -> SystemRound:
    """A round of FedAvg (McMahan et al. 2017): w <- sum_k n_k w_k / sum_k n_k, n_k being the rows of client k.

    Every client takes one local step in every round. A server computes the mean: this is not a
    peer-to-peer system. The graph is not used. In the paper all clients start from one model; here each
    starts from its own, until the first mean.
    """
    W_hat, memory = steps(s, state.W, gradients(s, state.W, batch), state)
    sent, xp = messages(s, W_hat, signals), module_of(W_hat)
    rows = xp.asarray([int((y >= 0).sum()) for y in s.y], W_hat.dtype)  # without padding, which vectors have
    W = W_hat.copy()
    W[xp.asarray(s.normal)] = combine(rows / rows.sum(), sent)
    return SystemRound((sent,), State(W, memory, state.t + 1))
