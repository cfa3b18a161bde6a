"""Graphs that change from round to round, and one-way ones; the table SCHEDULES.

A schedule is a function of the round t = 1, 2, ... that returns a boolean matrix on the host, A[k, l] = l sends
to k in that round, True on the diagonal. It is read from a file of edges, round by round, or drawn from the
seed and t alone, so that a run can be resumed anywhere.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from refimpl import draws
from refimpl.graphs import lines, parse_entry, parse_number

Schedule = Callable[[int], np.ndarray]
Rounds = tuple[tuple[tuple[int, int], ...], ...]  # the pairs (sender, receiver) of each round


def thinned(graph: np.ndarray, p: float, rng: np.random.Generator) -> np.ndarray:
    """The graph with each edge kept, both ways together, with probability p (Peng et al. 2021).

    This is what they intend; their code thins the thinned graph again, so that edges vanish for good.
    """
    upper = np.triu(graph & (rng.random(graph.shape) < p), k=1)
    return upper | upper.T | np.eye(len(graph), dtype=bool)


def one_way(graph: np.ndarray, p: float, rng: np.random.Generator) -> np.ndarray:
    """The graph with each direction of an edge kept with probability p: directed, as messages get lost."""
    return (graph & (rng.random(graph.shape) < p)) | np.eye(len(graph), dtype=bool)


def matching(graph: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Disjoint pairs along the graph's edges: pairwise gossip (Koloskova et al. 2020)."""
    A, free = np.eye(len(graph), dtype=bool), np.ones(len(graph), dtype=bool)
    for i, j in rng.permutation(np.argwhere(np.triu(graph, k=1))):
        if free[i] and free[j]:
            A[i, j] = A[j, i] = True
            free[[i, j]] = False
    return A


def every(graph: np.ndarray, tau: float, t: int) -> np.ndarray:
    """The graph in every tau-th round, no edges in between: local updates (Koloskova et al. 2020)."""
    if tau % 1 or tau < 1:
        raise ValueError(f"schedule every:TAU needs a whole number of rounds, 1 or more, got {tau:g}")
    return graph if t % tau == 0 else np.eye(len(graph), dtype=bool)


def exponential(n: int, peers: float, t: int) -> np.ndarray:
    """The graph in which l sends to l + j (peers + 1)^i for j = 1 ... peers (Assran et al. 2019).

    The default of the SGP code: i = 0, 1, ... while (peers + 1)^i <= n - 1, one i a round, then from 0 again.
    """
    if peers % 1 or not 1 <= peers < n:
        raise ValueError(f"schedule exponential:PEERS needs a whole number, 1 to {n - 1}, got {peers:g}")
    base = int(peers) + 1
    powers = [base**i for i in range(n.bit_length()) if base**i <= n - 1] or [0]
    A = np.eye(n, dtype=bool)
    for j in range(1, base):
        l = np.arange(n)
        A[(l + j * powers[(t - 1) % len(powers)]) % n, l] = True
    return A


class Entry(NamedTuple):
    """An entry of SCHEDULES."""

    draw: Callable[[np.ndarray, float, int, np.random.Generator], np.ndarray]
    """(graph, the number after the colon, round, generator of the round) -> the graph of the round"""
    about: str
    reference: str = "-"
    number: str = ""
    default: float = 0.0


SCHEDULES = {
    "thinned": Entry(
        lambda graph, p, t, rng: thinned(graph, p, rng),
        "each edge of the graph with probability P",
        "Peng et al. 2021",
        "P",
        0.5,
    ),
    "one-way": Entry(
        lambda graph, p, t, rng: one_way(graph, p, rng),
        "each direction of each edge with probability P, on its own",
        number="P",
        default=0.5,
    ),
    "matching": Entry(
        lambda graph, _, t, rng: matching(graph, rng), "pairs along edges of the graph", "Koloskova et al. 2020"
    ),
    "every": Entry(
        lambda graph, tau, t, rng: every(graph, tau, t),
        "the graph in every TAU-th round, no edges in between",
        "Koloskova et al. 2020",
        "TAU",
        10,
    ),
    "exponential": Entry(
        lambda graph, peers, t, rng: exponential(len(graph), peers, t),
        "one way, to PEERS others, in turn farther away (1, 2, 4, ...); no graph",
        "Assran et al. 2019",
        "PEERS",
        1,
    ),
}


def read_rounds(path: str | Path) -> Rounds:
    """Edges of each round from a file with one edge per line and a line --- between two rounds.

    "0 1": the two hear each other; "0 > 1": 0 sends to 1.
    """
    rounds: list[list[tuple[int, int]]] = [[]]
    for number, line in lines(path):
        if line == "---":
            rounds.append([])
            continue
        left, one_way, right = line.partition(">")
        try:
            i, j = (parse_number(word, int) for word in ((left, right) if one_way else line.split()))
        except ValueError:
            needed = "I J, I > J, or --- between rounds"
            raise ValueError(f"{path}, line {number}: needs {needed}, got {line!r}") from None
        rounds[-1] += [(i, j)] if one_way else [(i, j), (j, i)]
    if not any(rounds):
        raise ValueError(f"{path}: needs an edge in some round, got none in {len(rounds)}")
    return tuple(map(tuple, rounds))


def periodic(n: int, rounds: Rounds) -> Schedule:
    """The schedule that repeats these rounds, between workers 0 ... n - 1."""
    graphs = np.tile(np.eye(n, dtype=bool), (len(rounds), 1, 1))
    for A, pairs in zip(graphs, rounds, strict=True):
        for sender, receiver in pairs:
            if not (0 <= sender < n and 0 <= receiver < n):
                raise ValueError(f"edge {sender} > {receiver} of the schedule needs workers 0 to {n - 1}")
            A[receiver, sender] = True
    graphs.flags.writeable = False
    return lambda t: graphs[(t - 1) % len(graphs)]


def build(schedule: str | Rounds, graph: np.ndarray, seed: int) -> Schedule:
    """The schedule of that name on a graph, with its number after a colon if it takes one: "thinned:0.3".

    Rounds that were read from a file are used as they are, whatever the graph.
    """
    if not isinstance(schedule, str):
        return periodic(len(graph), schedule)
    entry, number = parse_entry("schedule", schedule, SCHEDULES, " or a file of edges, --- between rounds")
    if entry.number == "P" and not 0 <= number <= 1:
        raise ValueError(
            f"schedule {schedule.partition(':')[0]}:P needs a probability 0 <= P <= 1, got {number:g}"
        )
    entry.draw(graph, number, 1, draws.stream(seed, "graph", 1))  # refuses now what it would refuse later
    return lambda t: entry.draw(graph, number, t, draws.stream(seed, "graph", t))
