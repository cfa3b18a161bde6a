"""Systems that screen what they hear: BRIDGE, ByRDiE, MOZI, ClippedGossip, LEARN, TV penalty, IOS, multi-task.

Each is one round in the form of `algorithm.round_`; options come last and have the defaults of the source,
except `mozi`'s share. Step sizes are the setting's.
"""

import math
from collections.abc import Callable

import numpy as np

from refimpl.aggregate import adaptive_weights, coordinate_median, krum, trimmed_mean
from refimpl.algorithm import Setting, State, messages
from refimpl.arrays import Array, module_of, quiet
from refimpl.related import rules
from refimpl.related.mixing import combine, metropolis_weights, uniform_weights
from refimpl.related.rounds import (
    Combine,
    Heard,
    SystemRound,
    combined_rows,
    gradients,
    heard,
    mix_and_step,
    on_the_batch,
    require_place,
    shared_result,
    step_then_mix,
    steps,
    with_slots,
)

SCREENS: dict[str, Callable[[], Combine]] = {  # made anew in every round
    "T": lambda: lambda h: rules.own_trimmed_mean(h.models, h.own, h.f),
    "M": lambda: shared_result(lambda W, f: coordinate_median(W)),
    "K": lambda: shared_result(krum),
    "B": lambda: shared_result(rules.bridge_b),
}


@quiet
def bridge(
    s: Setting, state: State, batch: Array, signals: Array | None, screen: str, at: str = "own"
) -> SystemRound:
    """A round of BRIDGE (Fang, Yang and Bajwa 2022): x_k' = screen(x_l : l in N_k) - mu g_k(x_k).

    Screens of the models as they were sent: T is `rules.own_trimmed_mean`, M the median of each coordinate and
    K Krum, both with the worker's own model, B `rules.bridge_b`. Krum is that of Blanchard et al. 2017; the
    authors' code sums plain distances, including that to itself, and screens weights and biases separately. The
    gradient is taken at the worker's own model, as in the paper (from memory, unverified) and another group's
    code; the authors' code takes it at="mixed". Their gradient is over all local data, and their steps fall as
    0.1 / (t + 1), or are Adam's; here, as everywhere, the gradient is over the batch, and steps are the
    setting's. Neighbours needed: T and M 2f + 1, B max(4f, 3f + 2), as in the paper (from memory, unverified;
    their code has 2f + 2 and 4f, for its CNN 4f + 2); K 2f + 2, as in their code; the paper has 2f + 3.
    """
    return mix_and_step(s, state, batch, signals, SCREENS[screen](), at=at)


@quiet
def byrdie(
    s: Setting, state: State, batch: Array, signals: Array | None = None, at: str = "own"
) -> SystemRound:
    """A round of ByRDiE (Yang and Bajwa 2019): BRIDGE-T on one coordinate after the other.

    For c = 0, 1, ...: all send [x_k]_c; [x_k]_c <- trimmed mean of what it hears - mu [g_k]_c, before the next
    coordinate is sent; one inner pass. The order and the single pass are those of the authors' code; trimming,
    and the gradient at the worker's own model, are as in `bridge`, by the paper (from memory, unverified). The
    authors' code trims a worker's own value with the rest and takes the gradient at="mixed", where coordinate c
    already has its screened value; its steps fall as 0.1 / (t + 1). 2f + 1 neighbours are needed, as in the
    paper (from memory); in the code 4f. It costs d gradients per worker and round: see
    `requirements.require_feasible` for the largest problem.
    """
    require_place(at)
    W, memory, M = state.W.copy(), state.memory.copy(), uniform_weights(s.graph)
    sent = module_of(W).empty_like(W)
    for c in range(W.shape[-1]):
        here = slice(c, c + 1)
        sent[:, here] = messages(s, W[:, here], None if signals is None else signals[:, here])
        mixed = W.copy()
        mixed[:, here] = combined_rows(s, W[:, here], sent[:, here], batch, SCREENS["T"](), M)
        G = gradients(s, W if at == "own" else mixed, batch)
        before = State(W, memory[:, :, here], state.t)
        W[:, here], memory[:, :, here] = steps(s, mixed[:, here], G[:, here], before)
    return SystemRound((sent,), State(W, memory, state.t + 1))


@quiet
def mozi(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    share: float | None = None,
    alpha: float = 0.5,
    empty: str = "nearest",
) -> SystemRound:
    """A round of MOZI (Guo et al. 2021): x_k' = alpha x_k + (1 - alpha) mean of accepted x_l - mu g_k(x_k).

    See `rules.mozi`. As in four independent codes; the authors' was not found. `share` is rho, the share of
    the neighbours that goes to the second stage, rounded down but at least one (the codes have 0.4 to 1);
    None takes |N_k| - f, f being the number of all attackers, wherever they are. Risks are on the round's
    batch, on which the gradient is taken, too.
    """

    def accept(h: Heard) -> Array:
        n = len(h.models) - 1
        count = max(1, n - h.f if share is None else math.floor(share * n))
        risks = module_of(h.models).stack([h.risk(w) for w in h.models])
        return rules.mozi(h.models, h.own, risks, count, alpha, empty)

    return mix_and_step(s, state, batch, signals, accept)


@quiet
def clipped_gossip(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    radius: float | str = 1.0,
    momentum: float = 0.9,
) -> SystemRound:
    """A round of ClippedGossip (He et al. 2022): a step with momentum, then `rules.clipped_gossip`.

    m_k' = momentum m_k + g_k(x_k), y_k = x_k - mu m_k', x_k' = `rules.clipped_gossip` of the y that it hears, w
    by Metropolis. The radius is a number, as in all their experiments (0.1, 1 or 10), or found in each round:
    "oracle" knows the attackers, "adaptive" their number. The momentum is that of the authors' code; the paper
    (from memory, unverified) has (1 - a) m + a g. It is the system's slot of the memory.
    """
    if radius not in ("oracle", "adaptive") and (isinstance(radius, str) or not radius >= 0):
        raise ValueError(f'a radius is a number, 0 or more, "oracle" or "adaptive", got {radius!r}')
    state = with_slots(state, 0 * state.W)
    m = momentum * state.memory[-1] + gradients(s, state.W, batch)

    def clip(h: Heard) -> Array:
        tau = radius
        if tau == "oracle":
            tau = rules.oracle_radius(h.models, h.own, h.weights, h.honest)
        elif tau == "adaptive":
            tau = rules.adaptive_radius(h.models, h.own, h.weights, h.f)
        return rules.clipped_gossip(h.models, h.own, h.weights, float(tau))

    result = step_then_mix(s, state, batch, signals, clip, metropolis_weights, m)
    result.state.memory[-1] = m
    return result


AGREEMENTS = {"icwtm": trimmed_mean, "mda": rules.minimum_diameter_average}


def agreement_rounds(t: int) -> int:
    """The number of further exchanges of gradients in round t: ceil(log2 t)."""
    return (t - 1).bit_length()


def in_time(s: Setting, k: int, turn: int) -> np.ndarray:
    """Senders that worker k hears in time, all but f normal ones, others each turn: (n - f,), ascending.

    The network may delay any worker. Here it delays f consecutive normal ones, so all attackers are heard.
    """
    others = s.normal[s.normal != k]
    late = np.roll(others, -(k + turn))[: len(s.attackers)]
    return np.setdiff1d(np.arange(len(s.graph)), late)


@quiet
def learn(
    s: Setting, state: State, batch: Array, signals: Array | None, agreement: str, iterated: bool = True
) -> SystemRound:
    """A round of collaborative learning in the jungle (El-Mhamdi et al. 2021); R is ICwTM or MDA.

    G_k = R(gradients), then ceil(log2 t) times G_k = R(the others' G); y_k = x_k - mu G_k; x_k' = R(y). The
    graph is complete, but no worker waits for more than n - f messages: see `in_time`. The authors' Garfield
    code does the same, `iterated` only for data that are not iid. But there gradients are taken at the asker's
    model, here at the sender's own, as in the paper (from memory, unverified; so is the name ICwTM). R is
    `aggregate.trimmed_mean`, f off each side, or `rules.minimum_diameter_average`; a worker's own value counts
    like any other. Workers send gradients, all G, and models; each is attacked. The authors' workers start from
    equal models; here they start from what they are given. The authors' bounds (abstracts): n >= 3f + 1 for the
    trimmed mean with reliable broadcast, n >= 6f + 1 for MDA. Refused here: n < 3f + 1, and MDA over too many
    subsets.
    """
    rule, f, exchanges = AGREEMENTS[agreement], len(s.attackers), 1
    if iterated:
        exchanges += agreement_rounds(state.t + 1)
    own = gradients(s, state.W, batch)
    G, sent = own, []
    for turn in range(exchanges):
        sent.append(messages(s, G, signals))
        G = own.copy()  # attackers step along their own gradient
        for k in s.normal:
            G[k] = rule(sent[-1][module_of(G).asarray(in_time(s, k, turn))], f)
    W, memory = steps(s, state.W, G, state)
    sent.append(messages(s, W, signals))
    for k in s.normal:
        W[k] = rule(sent[-1][module_of(W).asarray(in_time(s, k, exchanges))], f)
    return SystemRound(tuple(sent), State(W, memory, state.t + 1))


@quiet
def tv_penalty(
    s: Setting, state: State, batch: Array, signals: Array | None = None, penalty: float = 0.005
) -> SystemRound:
    """A round of Peng et al. 2021 (their code): x_k' = x_k - mu (g_k(x_k) + penalty sum_l sign(x_k - x_l)).

    sign(0) = 0. Nothing is averaged: a neighbour moves a coordinate by mu * penalty at most. They take mu = a /
    sqrt(t), batches of 32 and penalties from 0.0022 to 0.02; 0.005 without attack. sign(NaN) is 0 here.
    """
    xp, sent, M = module_of(state.W), messages(s, state.W, signals), uniform_weights(s.graph)
    G = gradients(s, state.W, batch)
    for k in s.normal:
        signs = xp.sign(state.W[k] - heard(s, sent, M, batch, k).models)
        G[k] += penalty * xp.where(xp.isnan(signs), 0, signs).sum(axis=0)
    W, memory = steps(s, state.W, G, state)
    return SystemRound((sent,), State(W, memory, state.t + 1))


def diminishing(a: float) -> Callable[[int, int], float]:
    """The step sizes mu_k^t = a / sqrt(t) of Peng et al. 2021, for a `Setting`."""
    return lambda k, t: a / math.sqrt(t)


@quiet
def ios(s: Setting, state: State, batch: Array, signals: Array | None = None) -> SystemRound:
    """A round of IOS (Wu et al. 2023, their code): a step, then `rules.iterative_outlier_scissor`.

    w by Metropolis. They drop as many as there are attackers among the neighbours; here f is the number of all
    attackers.
    """
    return step_then_mix(
        s,
        state,
        batch,
        signals,
        lambda h: rules.iterative_outlier_scissor(h.models, h.own, h.weights, h.f),
        metropolis_weights,
    )


def running_average(average: Array, risks: Array, nu: float) -> Array:
    """(1 - nu) average + nu risks; an average that was lost to an infinite risk starts again at the risk."""
    if not 0 < nu <= 1:
        raise ValueError(f"nu must be in (0, 1], 1 for no memory, got {nu}")
    xp = module_of(risks)
    return xp.where(xp.isfinite(average), (1 - nu) * average + nu * risks, risks)


@quiet
def multi_task(
    s: Setting, state: State, batch: Array, signals: Array | None = None, nu: float = 0.05
) -> SystemRound:
    """A round of Li, Abbas and Koutsoukos 2020 (their code): a step, then Eq. (6) with averages of the risks.

    L_kl <- (1 - nu) L_kl + nu r_k(y_l) on the batch, 1 at first (`running_average`); c = `adaptive_weights` of
    row k over N_k. nu is that of their digits; their other codes have 0.1 and 0.001. L (N, N) is in the
    system's slots of the memory, row k at worker k's place, padded with zeros.
    """
    xp, (N, d) = module_of(state.W), state.W.shape
    slots = -(-N // d)
    first = xp.zeros((N, slots * d), state.W.dtype)
    first[:, :N] = 1
    state = with_slots(state, *first.reshape(N, slots, d).swapaxes(0, 1))
    L = state.memory[-slots:].swapaxes(0, 1).reshape(N, slots * d).copy()
    C = xp.zeros((N, N), state.W.dtype)
    W_hat, memory = steps(s, state.W, gradients(s, state.W, batch), state)
    sent, W, judge = messages(s, W_hat, signals), W_hat.copy(), on_the_batch(s, batch)
    for k in s.normal:
        h = heard(judge, sent, uniform_weights(s.graph), batch, k)
        N_k = xp.asarray(h.senders)
        L[k, N_k] = running_average(L[k, N_k], xp.stack([h.risk(w) for w in h.models]), nu)
        C[k, N_k] = adaptive_weights(L[k, N_k], h.own)
        W[k] = combine(C[k, N_k], h.models)
    memory[-slots:] = L.reshape(N, slots, d).swapaxes(0, 1)
    return SystemRound((sent,), State(W, memory, state.t + 1), C)
