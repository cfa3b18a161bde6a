"""Wu, Chen and Ling 2023 (IOS), Tables II and III; see published.py.

An honest worker's next model is, for most rules, a linear combination of what it hears, with coefficients that
depend on distances only. So all workers are done together: from the products of all models that are sent come
the coefficients of all workers, and one product makes the models. `refimpl.related.rules` are the same rules,
worker by worker; test_published.py compares them.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from published_common import (
    Cell,
    Data,
    Rng,
    accuracy,
    away,
    geometric_median,
    mean_of,
    products,
    softmax_regression,
)
from scipy.special import ndtri

from refimpl import graphs
from refimpl.arrays import quiet
from refimpl.related import diminishing, metropolis_weights

# Their Erdos-Renyi graph (12 workers, p = 0.7, seed 300), as networkx draws it, and its two attackers.
IOS_EDGES = [
    *((0, l) for l in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)),
    *((1, l) for l in (2, 4, 5, 6, 8, 10)),
    *((2, l) for l in (3, 4, 5, 6, 7, 8, 11)),
    *((3, l) for l in (4, 5, 7, 9, 11)),
    *((4, l) for l in (6, 8, 10)),
    *((5, l) for l in (6, 8, 9, 11)),
    *((6, l) for l in (7, 10, 11)),
    *((7, l) for l in (8, 9, 10, 11)),
    *((8, l) for l in (9, 10)),
    *((9, l) for l in (10, 11)),
    (10, 11),
]
IOS_ATTACKERS = (6, 7)
IOS_COLUMNS = ("none", "gaussian", "sign", "isolation", "duplicate", "alie")
IOS_TABLE = {
    "iid": {
        "no communication": (90.24,),
        "MH mean": (91.70, 13.78, 30.93, 90.18, 91.63, 91.67),
        "median": (91.58, 91.56, 87.00, 91.52, 91.46, 91.52),
        "geometric median": (91.70, 91.68, 87.10, 91.29, 91.70, 91.69),
        "Krum": (90.83, 90.83, 91.23, 90.89, 90.91, 91.45),
        "trimmed mean": (91.73, 91.61, 86.34, 91.57, 91.61, 91.62),
        "TV penalty": (91.69, 91.62, 90.27, 91.61, 91.64, 91.64),
        "SCC": (91.72, 91.74, 32.56, 91.59, 91.71, 91.70),
        "IOS": (91.68, 91.68, 91.66, 91.66, 91.70, 91.68),
    },
    "label-separated": {
        "no communication": (10.00,),
        "MH mean": (91.70, 13.63, 20.89, 10.00, 91.53, 91.21),
        "median": (75.49, 77.92, 66.38, 41.56, 78.74, 82.46),
        "geometric median": (88.00, 88.63, 23.35, 73.01, 88.68, 89.14),
        "Krum": (19.71, 19.76, 19.16, 19.76, 29.20, 63.79),
        "trimmed mean": (91.61, 90.40, 70.97, 54.47, 87.54, 82.56),
        "TV penalty": (76.43, 89.38, 10.50, 88.60, 85.27, 60.69),
        "SCC": (91.70, 91.57, 20.89, 83.80, 91.52, 91.21),
        "IOS": (91.70, 91.60, 91.61, 91.55, 88.22, 86.61),
    },
}


class Network(NamedTuple):
    """Who hears what: h honest workers, m messages; an attacker has one for each honest worker that hears it.

    What stays the same in all rounds. Messages are in ascending order of their senders.
    """

    honest: np.ndarray  # (h,): the workers
    own: np.ndarray  # (h,): which message is a worker's own
    hears: np.ndarray  # (h, m) bool: its own included
    near: np.ndarray  # (h, h) bool: whose models it hears, without its own
    weights: np.ndarray  # (h, m): by Metropolis
    lies: np.ndarray  # (l,): which messages are attackers'
    victims: np.ndarray  # (l,): who hears these, as a position in `honest`

    @property
    def f(self) -> np.ndarray:
        """How many attackers each honest worker hears: (h,)."""
        return np.bincount(self.victims, minlength=len(self.honest))


def ios_network(attack: str) -> Network:
    """Their graph; without an attack, its part without attackers."""
    graph, lying = graphs.from_edges(12, IOS_EDGES), np.isin(np.arange(12), IOS_ATTACKERS)
    if attack == "none":
        graph[lying] = graph[:, lying] = False
    honest = np.flatnonzero(~lying)
    messages = [
        (sender, k)  # k: the position of the only one that hears it, or None
        for sender in range(12)
        for k in (np.flatnonzero(graph[honest, sender]) if lying[sender] else [None])
    ]
    senders = np.array([sender for sender, _ in messages])
    lies = np.flatnonzero(lying[senders])
    victims = np.array([k for _, k in messages if k is not None], dtype=int)
    hears = graph[np.ix_(honest, senders)]
    hears[:, lies] = np.arange(len(honest))[:, None] == victims
    own = np.flatnonzero(~lying[senders])
    near = graph[np.ix_(honest, honest)] & ~np.eye(len(honest), dtype=bool)
    weights = np.where(hears, metropolis_weights(graph)[np.ix_(honest, senders)], 0)
    return Network(honest, own, hears, near, weights, lies, victims)


# What attackers tell whom: (network) -> (what the honest workers send (h, d), generator) -> (l, d)
Attack = Callable[[Network], Callable[[np.ndarray, Rng], np.ndarray]]


def linear(coefficients: np.ndarray) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """The lies (l, h) @ (h, d)."""
    C = coefficients.astype(np.float32)
    return lambda H, rng: C @ H


def gaussian(net: Network) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """The mean of the honest neighbours, and noise. Drawn for one victim after the other."""
    mean, order = linear(mean_of(net.near)[net.victims]), np.argsort(net.victims, kind="stable")

    def lies(H: np.ndarray, rng: Rng) -> np.ndarray:
        made = mean(H, rng)
        made[order] += 30 * rng.normal(size=made.shape)
        return made

    return lies


def sign(net: Network) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """Minus the mean of the neighbourhood's honest models."""
    return linear(-mean_of(net.near | np.eye(len(net.near), dtype=bool))[net.victims])


def isolation(net: Network) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """So that the weighted mean is the victim's own model."""
    others = np.where(net.near, net.weights[:, net.own], 0)
    lying = net.weights[:, net.lies].sum(axis=1, keepdims=True)
    return linear(((np.diag(others.sum(axis=1)) - others) / lying + np.eye(len(others)))[net.victims])


def duplicate(net: Network) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """The model of an honest neighbour, the same from both attackers."""
    neighbours = [np.flatnonzero(near) for near in net.near]
    return lambda H, rng: H[[near[rng.integers(len(near))] for near in neighbours]][net.victims]


def alie(net: Network) -> Callable[[np.ndarray, Rng], np.ndarray]:
    """mean + z std of the honest neighbours, with n neighbours in place of n workers, and ddof 1."""
    h, f = net.near.sum(axis=1, keepdims=True), net.f[:, None]
    s = (h + f + 1) // 2 - f
    mean, z = mean_of(net.near).astype(np.float32), ndtri(1 - s / (h + f))
    factor = (z * np.sqrt(h / (h - 1))).astype(np.float32)

    def lies(H: np.ndarray, rng: Rng) -> np.ndarray:
        centre = H.mean(axis=0)
        C = H - centre
        mu = mean @ C
        variance = np.maximum(mean @ (C * C) - mu * mu, 0)
        return (centre + mu + factor * np.sqrt(variance))[net.victims]

    return lies


IOS_ATTACKS: dict[str, Attack] = {
    "none": lambda net: lambda H, rng: H[:0],
    "gaussian": gaussian,
    "sign": sign,
    "isolation": isolation,
    "duplicate": duplicate,
    "alie": alie,
}


# --- Rules: (network, products of all messages (m, m)) -> coefficients of the messages (h, m) ---------------


def krum(net: Network, P: np.ndarray) -> np.ndarray:
    """`aggregate.krum`."""
    D = P.diagonal()[:, None] + P.diagonal() - 2 * P
    D = np.where(net.hears[:, None], D, np.inf)  # (h, m, m): what each worker hears
    D[:, np.arange(len(P)), np.arange(len(P))] = np.inf
    nearest = (net.hears.sum(axis=1) - net.f - 2)[:, None, None]
    score = np.take_along_axis(np.sort(D).cumsum(axis=2), nearest - 1, axis=2)[..., 0]
    best = np.where(net.hears, score, np.inf).argmin(axis=1)
    return np.eye(len(P))[best]


def scissor(net: Network, P: np.ndarray) -> np.ndarray:
    """`rules.iterative_outlier_scissor`."""
    c, workers = net.weights.copy(), np.arange(len(net.honest))
    for i in range(net.f.max()):
        distance = np.where(c > 0, away(c / c.sum(axis=1, keepdims=True), P), -1)
        distance[workers, net.own] = -1
        farthest = distance >= (1 - 1e-9) * distance.max(axis=1, keepdims=True)  # of equal ones the first
        drop = net.f > i
        c[workers[drop], farthest.argmax(axis=1)[drop]] = 0
    return c / c.sum(axis=1, keepdims=True)


def clipped(net: Network, P: np.ndarray, tau: float) -> np.ndarray:
    """`rules.clipped_gossip`."""
    own = np.eye(len(P))[net.own]
    a = net.weights * (tau / np.maximum(np.sqrt(away(own, P)), tau))
    return a + (1 - a.sum(axis=1, keepdims=True)) * own


# --- Rules that look at each coordinate: what one worker hears -> (d,) --------------------------------------


def ascending(M: np.ndarray) -> list[np.ndarray]:
    """The rows of M (n, d), each coordinate in ascending order, by Batcher's network (Knuth 5.2.2 M).

    The minimum and maximum of two rows again and again: for few rows, a quarter of the time of np.sort.
    """
    rows, spare = list(M.copy()), np.empty_like(M[0])
    top = 1 << max(len(rows) - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, d = top, 0, p
        while d:
            for i in range(len(rows) - d):
                if i & p == r:
                    low, high = rows[i], rows[i + d]
                    rows[i] = np.minimum(low, high, out=spare)
                    np.maximum(low, high, out=high)
                    spare = low
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return rows


def lower_median(M: np.ndarray) -> np.ndarray:
    """Of each coordinate; of two in the middle the lower one, as torch has it, and so IOS's code."""
    return ascending(M)[(len(M) - 1) // 2]


def own_trimmed_mean(M: np.ndarray, own: int, f: int) -> np.ndarray:
    """`rules.own_trimmed_mean`."""
    others = np.delete(M, own, axis=0)
    kept = ascending(others)[f : len(others) - f] if f else others
    return (M[own] + sum(kept)) / np.float32(len(kept) + 1)


def signs(M: np.ndarray, own: int) -> np.ndarray:
    """The sum of the signs of w_own - w_l."""
    above, below = ((M[own] > M).sum(axis=0, dtype=np.int8), (M[own] < M).sum(axis=0, dtype=np.int8))
    return (above - below).astype(M.dtype)


def each(net: Network, sent: np.ndarray, rule: Callable[[np.ndarray, int, int], np.ndarray]) -> np.ndarray:
    """rule(what a worker hears (n, d), its own position, f) -> (d,) of all workers: (h, d)."""
    own = net.hears.cumsum(axis=1)[np.arange(len(net.own)), net.own] - 1
    return np.stack([rule(sent[hears], k, f) for hears, k, f in zip(net.hears, own, net.f, strict=True)])


# --- The rounds ---------------------------------------------------------------------------------------------


def combined(coefficients: np.ndarray, sent: np.ndarray) -> np.ndarray:
    return coefficients.astype(sent.dtype) @ sent


IOS_RULES: dict[str, Callable[[Network, np.ndarray, float], np.ndarray]] = {
    "no communication": lambda net, sent, tau: sent[net.own],
    "MH mean": lambda net, sent, tau: combined(net.weights, sent),
    "median": lambda net, sent, tau: each(net, sent, lambda M, own, f: lower_median(M)),
    "geometric median": lambda net, sent, tau: combined(geometric_median(net.hears, products(sent)), sent),
    "Krum": lambda net, sent, tau: combined(krum(net, products(sent)), sent),
    "trimmed mean": lambda net, sent, tau: each(net, sent, own_trimmed_mean),
    "SCC": lambda net, sent, tau: combined(clipped(net, products(sent), tau), sent),
    "IOS": lambda net, sent, tau: combined(scissor(net, products(sent)), sent),
}


def parts_of(data: Data, count: int, partition: str) -> list[np.ndarray]:
    """The rows of each honest worker: as they come, or label l at worker l modulo the number of workers."""
    if partition == "iid":
        return np.array_split(np.arange(len(data.y)), count)
    return [np.flatnonzero(data.y % count == i) for i in range(count)]


@quiet
def ios_cell(data: Data, rule: str, attack: str, partition: str, seed: int, rounds: int) -> list[float]:
    """Softmax regression; step, then rule; mu_t = 0.9 / sqrt(t), decay 0.01, start 6 N(0, 1), batches of 32.

    f is the number of attackers that a worker hears, as in their code. The accuracy is the mean of the last ten
    records, one every 500 rounds, as in their tables.
    """
    rng, model, net = np.random.default_rng(seed), softmax_regression(data), ios_network(attack)
    lies, step_size, parts = IOS_ATTACKS[attack](net), diminishing(0.9), parts_of(data, len(net.own), partition)
    penalty, tau = (0.001, 0.1) if partition == "iid" else (0.5, 0.3)
    W = (6 * rng.normal(size=(12, model.layout.size)))[net.honest].astype(np.float32)
    sent = np.empty((net.hears.shape[1], W.shape[1]), np.float32)
    records = []
    for t in range(1, rounds + 1):
        mu = step_size(0, t)
        batch = np.stack([part[(rng.integers(len(part)) + np.arange(32)) % len(part)] for part in parts])
        G = model.step(W, data.rows[batch], data.y[batch], 1) + 0.01 * W
        sent[net.own] = W if rule == "TV penalty" else W - mu * G
        sent[net.lies] = lies(sent[net.own], rng)
        if rule == "TV penalty":
            W = W - mu * (G + penalty * each(net, sent, lambda M, own, f: signs(M, own)))
        else:
            W = IOS_RULES[rule](net, sent, tau)
        if rounds - t < 5000 and (rounds - t) % 500 == 0:
            records.append(accuracy(model.logits(W, data.rows_test), data.y_test))
    return records


def ios(data: Data, options: argparse.Namespace) -> Iterator[Cell]:
    for rule, theirs in IOS_TABLE[options.partition].items():
        for attack, number in zip(IOS_COLUMNS, theirs, strict=False):
            cell = partial(ios_cell, data, rule, attack, options.partition, options.seed)
            yield Cell(rule, attack, number, cell)
