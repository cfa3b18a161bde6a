"""Communication graphs: who is in N_k (Sec. 2.1).

A graph is a boolean matrix A on the host, A[k, l] = (l in N_k): symmetric, and True on the diagonal,
because a worker is its own neighbour.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


def complete(n: int) -> np.ndarray:
    """The complete graph: everyone hears everyone."""
    return np.ones((n, n), dtype=bool)


def ring(n: int) -> np.ndarray:
    """The ring: worker k hears k - 1 and k + 1, modulo n."""
    return from_edges(n, [(k, (k + 1) % n) for k in range(n)])


def erdos_renyi(n: int, p: float, rng: np.random.Generator) -> np.ndarray:
    """A random graph: each of the n (n - 1) / 2 edges is there with probability p, independently."""
    if not 0 <= p <= 1:
        raise ValueError(f"erdos_renyi needs a probability 0 <= p <= 1, got p={p}")
    upper = np.triu(rng.random((n, n)) < p, k=1)
    return upper | upper.T | np.eye(n, dtype=bool)


def random_regular(n: int, degree: float, rng: np.random.Generator) -> np.ndarray:
    """A random graph in which everyone has `degree` neighbours besides itself.

    Pairs `degree` stubs per worker at random. Pairs that would join a worker to itself, or repeat an edge,
    are drawn again; when that gets stuck, everything starts over (Steger and Wormald 1999). Close to uniform
    for small degrees.
    """
    if degree % 1 or not 0 <= degree < n or n * degree % 2:
        raise ValueError(
            f"random_regular needs a whole 0 <= degree < n and n * degree even, got n={n}, degree={degree:g}"
        )
    if degree > (n - 1) // 2:  # dense: easier to say who is not a neighbour
        return ~random_regular(n, n - 1 - degree, rng) | np.eye(n, dtype=bool)
    while True:
        A = np.eye(n, dtype=bool)
        stubs = np.repeat(np.arange(n), int(degree))
        stuck = 0
        while len(stubs) and stuck < 10:
            left = []
            for i, j in rng.permutation(stubs).reshape(-1, 2):
                if A[i, j]:
                    left += [i, j]
                else:
                    A[i, j] = A[j, i] = True
            stuck = stuck + 1 if len(left) == len(stubs) else 0
            stubs = np.array(left)
        if not len(stubs):
            return A


def from_edges(n: int, edges: Iterable[tuple[int, int]]) -> np.ndarray:
    """The graph with these undirected edges between workers 0 ... n - 1."""
    A = np.eye(n, dtype=bool)
    for i, j in edges:
        for worker in (i, j):
            if not 0 <= worker < n:
                raise ValueError(f"edge {i} {j} names worker {worker}, but the {n} workers are 0 to {n - 1}")
        A[i, j] = A[j, i] = True
    return A


def read_edges(path: str | Path) -> list[tuple[int, int]]:
    """Reads a file with one edge per line, two worker numbers; blank lines and # comments are skipped."""
    edges = []
    for number, line in lines(path):
        try:
            i, j = (parse_number(word, int) for word in line.split())
        except ValueError:
            raise ValueError(f"{path}, line {number}: needs two worker numbers, got {line!r}") from None
        edges.append((i, j))
    return edges


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a file of edges, with their numbers, without comments; those left empty are skipped."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: needs text, one edge per line: {error}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if words := line.partition("#")[0].strip():
            yield number, words


def require_connected(A: np.ndarray) -> None:
    """Raises ValueError, naming a worker that cannot be reached, unless the graph is connected."""
    reached = new = np.arange(len(A)) == 0
    while new.any():  # whom the last ones hear, and nobody before them
        new = A[new].any(axis=0) & ~reached
        reached = reached | new
    if not reached.all():
        lost = reached.argmin()
        raise ValueError(f"the graph must be connected, but no path leads from worker 0 to worker {lost}")


# --- The table ----------------------------------------------------------------------------------------------


class Graph(NamedTuple):
    """An entry of GRAPHS."""

    build: Callable[[int, float, np.random.Generator], np.ndarray]
    """(workers, the number after the colon, generator) -> graph"""
    about: str
    reference: str = "-"
    number: str = ""  # what the number after the colon is; empty if there is no number
    default: float = 0.0  # of that number


GRAPHS = {
    "complete": Graph(lambda n, _, rng: complete(n), "everyone hears everyone", "the paper's experiments"),
    "ring": Graph(lambda n, _, rng: ring(n), "everyone hears the next and the previous one"),
    "regular": Graph(
        lambda n, degree, rng: random_regular(n, degree, rng),
        "everyone hears DEGREE others, at random",
        "Steger and Wormald 1999",
        "DEGREE",
        4,
    ),
    "erdos-renyi": Graph(
        lambda n, p, rng: erdos_renyi(n, p, rng),
        "each edge is there with probability P",
        number="P",
        default=0.5,
    ),
}


def build(name: str, workers: int, rng: np.random.Generator) -> np.ndarray:
    """The graph of that name in GRAPHS, with its number after a colon if it takes one: "regular:6"."""
    entry, number = parse_entry("graph", name, GRAPHS, " or a file of edges")
    return entry.build(workers, number, rng)


def parse_entry(what: str, text: str, table: dict[str, Any], more: str = "") -> tuple[Any, float]:
    """The entry that "name" or "name:number" means, and the number, or the entry's default."""
    name, colon, digits = text.partition(":")
    entry = table.get(name)
    if entry is None or (colon and not entry.number):
        names = ", ".join(f"{key}:{e.number}" if e.number else key for key, e in table.items())
        raise ValueError(f"unknown {what} {text!r}: needs {names}{more}")
    try:
        return entry, parse_number(digits, float) if colon else entry.default
    except ValueError:
        raise ValueError(f"{what} {name}:{entry.number} needs a number, got {digits!r}") from None


def parse_number(text: str, kind: Callable[[str], Any]) -> Any:
    """The int or float that the text writes. Raises ValueError, also for 1_0, which Python takes for 10."""
    if "_" in text:
        raise ValueError(f"needs digits alone, got {text!r}")
    return kind(text)
