"""Communication graphs: who is in N_k (Sec. 2.1).

A graph is a boolean matrix A on the host, A[k, l] = (l in N_k): symmetric, and True on the diagonal,
because a worker is its own neighbour.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components


def complete(n: int) -> np.ndarray:
    """Everyone hears everyone."""
    return np.ones((n, n), dtype=bool)


def ring(n: int) -> np.ndarray:
    """Worker k hears k - 1 and k + 1, modulo n."""
    return from_edges(n, [(k, (k + 1) % n) for k in range(n)])


def erdos_renyi(n: int, p: float, rng: np.random.Generator) -> np.ndarray:
    """Each of the n (n - 1) / 2 edges is there with probability p, independently."""
    if not 0 <= p <= 1:
        raise ValueError(f"erdos_renyi needs a probability 0 <= p <= 1, got p={p}")
    upper = np.triu(rng.random((n, n)) < p, k=1)
    return upper | upper.T | np.eye(n, dtype=bool)


def random_regular(n: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """Everyone has `degree` neighbours besides itself.

    Pairs `degree` stubs per worker at random and pairs again those that met themselves or met twice,
    from the start when that gets stuck (Steger and Wormald 1999): close to uniform for small degrees.
    """
    if not 0 <= degree < n or n * degree % 2:
        raise ValueError(
            f"random_regular needs 0 <= degree < n and n * degree even, got n={n}, degree={degree}"
        )
    if degree > (n - 1) // 2:  # dense: easier to say who is not a neighbour
        return ~random_regular(n, n - 1 - degree, rng) | np.eye(n, dtype=bool)
    while True:
        A = np.eye(n, dtype=bool)
        stubs = np.repeat(np.arange(n), degree)
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
    for number, line in enumerate(Path(path).read_text().splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            i, j = (int(word) for word in words)
        except ValueError:
            raise ValueError(f"{path}, line {number}: needs two worker numbers, got {line!r}") from None
        edges.append((i, j))
    return edges


def require_connected(A: np.ndarray) -> None:
    """Raises ValueError, naming a worker that cannot be reached, unless the graph is connected."""
    count, part = connected_components(A, directed=False)
    if count > 1:
        lost = int(np.flatnonzero(part != part[0])[0])
        raise ValueError(f"the graph must be connected, but no path leads from worker 0 to worker {lost}")


class Block(NamedTuple):
    """Receivers that one batched call can serve: u neighbourhoods of n members, each shared by m receivers.

    On the complete graph all receivers share one neighbourhood (u = 1); on a ring each has its own (m = 1).
    """

    receivers: np.ndarray  # (u, m) worker numbers
    members: np.ndarray  # (u, n) worker numbers, ascending, the receivers among them
    own: np.ndarray  # (u, m) where each receiver stands in its row of members


def blocks(A: np.ndarray, receivers: np.ndarray) -> list[Block]:
    """Sorts the receivers into blocks: together are those whose neighbourhoods have one size and are
    shared by one number of receivers."""
    sharing: dict[bytes, list[int]] = {}
    for k in receivers:
        sharing.setdefault(A[k].tobytes(), []).append(int(k))
    groups: dict[tuple[int, int], list[list[int]]] = {}
    for ks in sharing.values():
        groups.setdefault((int(A[ks[0]].sum()), len(ks)), []).append(ks)
    result = []
    for group in groups.values():
        k = np.array(group)  # (u, m)
        members = np.stack([np.flatnonzero(A[row[0]]) for row in k])
        own = (members[:, None, :] == k[:, :, None]).argmax(axis=-1)
        result.append(Block(k, members, own))
    return result


def distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row by row the different numbers, ascending, and where among them each is: (u, n) -> (u, s), (u, n).

    Rows with fewer different ones than others repeat their last.
    """
    different = [np.unique(row) for row in numbers]
    s = max(map(len, different))
    places = [np.searchsorted(kept, row) for kept, row in zip(different, numbers, strict=True)]
    return np.stack([np.pad(kept, (0, s - len(kept)), mode="edge") for kept in different]), np.stack(places)
