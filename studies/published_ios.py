"""Wu, Chen and Ling 2023 (IOS), Tables II and III; see published.py.

The rules are the package's; graph, attacks, steps and data are those of their code.
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
    geometric_median,
    mean_of,
    softmax_regression,
)
from scipy.special import ndtri

from refimpl import graphs
from refimpl.aggregate import combine, krum
from refimpl.arrays import quiet
from refimpl.related import diminishing, metropolis_weights, rules
from refimpl.released import lower_median

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

    def place(self, i: int) -> int:
        """The position of an honest worker's own message among those that it hears."""
        return int(self.hears[i, : self.own[i]].sum())


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
    """A lie that makes the weighted mean the victim's own model."""
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


# --- Rules: (what a worker hears (n, d), its own position, its weights (n,), f, tau) -> (d,) ----------------

IOS_RULES: dict[str, Callable[[np.ndarray, int, np.ndarray, int, float], np.ndarray]] = {
    "no communication": lambda M, own, c, f, tau: M[own],
    "MH mean": lambda M, own, c, f, tau: combine(c, M),
    "median": lambda M, own, c, f, tau: lower_median(M, c, own, f),  # as torch has it, and so their code
    "geometric median": lambda M, own, c, f, tau: geometric_median(M),
    "Krum": lambda M, own, c, f, tau: krum(M, f),
    "trimmed mean": lambda M, own, c, f, tau: rules.own_trimmed_mean(M, own, f),
    "SCC": lambda M, own, c, f, tau: rules.clipped_gossip(M, own, c, tau),
    "IOS": lambda M, own, c, f, tau: rules.iterative_outlier_scissor(M, own, c, f),
}


def signs(M: np.ndarray, own: int) -> np.ndarray:
    """The sum of the signs of w_own - w_l."""
    above, below = ((M[own] > M).sum(axis=0, dtype=np.int8), (M[own] < M).sum(axis=0, dtype=np.int8))
    return (above - below).astype(M.dtype)


def aggregated(net: Network, sent: np.ndarray, rule: str, tau: float) -> np.ndarray:
    """The models of all honest workers after the rule: (h, d)."""
    c, workers = net.weights.astype(sent.dtype), enumerate(net.hears)
    heard = ((sent[hears], net.place(i), c[i, hears], int(net.f[i])) for i, hears in workers)
    return np.stack([IOS_RULES[rule](*arguments, tau) for arguments in heard])


# --- The rounds ---------------------------------------------------------------------------------------------


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
            against = [signs(sent[hears], net.place(i)) for i, hears in enumerate(net.hears)]
            W = W - mu * (G + penalty * np.stack(against))
        else:
            W = aggregated(net, sent, rule, tau)
        if rounds - t < 5000 and (rounds - t) % 500 == 0:
            records.append(accuracy(model.logits(W, data.rows_test), data.y_test))
    return records


def ios(data: Data, options: argparse.Namespace) -> Iterator[Cell]:
    for rule, theirs in IOS_TABLE[options.partition].items():
        for attack, number in zip(IOS_COLUMNS, theirs, strict=False):
            cell = partial(ios_cell, data, rule, attack, options.partition, options.seed)
            yield Cell(rule, attack, number, cell)
