"""What the systems send, in bytes, and what they refuse."""

import numpy as np

from refimpl.algorithm import Setting
from refimpl.related.mixing import count_of, metropolis_weights
from refimpl.related.resilient import agreement_rounds

# --- What they send -----------------------------------------------------------------------------------------


def to_neighbours(s: Setting, count: float, itemsize: int | None = None) -> float:
    """The bytes of `count` numbers (by default of the data's type) to each neighbour; mean of the workers."""
    neighbours = (s.graph.sum() - len(s.graph)) / len(s.graph)
    return float(neighbours * count * (itemsize or s.X.dtype.itemsize))


def size(s: Setting) -> int:
    return s.model.layout.size


def a_model(s: Setting, t: int = 1) -> float:
    """As in Algorithm 1."""
    return to_neighbours(s, size(s))


def model_and_momentum(s: Setting, t: int) -> float:
    return to_neighbours(s, 2 * size(s))


def model_and_number(s: Setting, t: int) -> float:
    return to_neighbours(s, size(s) + 1)


def largest_entries(s: Setting, t: int) -> float:
    """1 % of the entries: their values, and their positions, of 4 bytes each."""
    count = count_of(0.01, size(s))
    return to_neighbours(s, count) + to_neighbours(s, count, 4)


def gradients_and_model(s: Setting, t: int) -> float:
    return to_neighbours(s, (2 + agreement_rounds(t)) * size(s))


def to_a_server(s: Setting, t: int) -> float:
    return float(size(s) * s.X.dtype.itemsize)


# --- What they refuse ---------------------------------------------------------------------------------------


def undirected(s: Setting, rounds: int) -> None:
    metropolis_weights(s.graph)  # refuses


def complete(s: Setting, rounds: int) -> None:
    deaf = np.argwhere(~s.graph)
    if len(deaf):
        k, l = deaf[0]
        raise ValueError(f"everyone must hear everyone, but worker {k} does not hear worker {l}")


GRADIENTS = 20_000_000  # about an hour


def small(s: Setting, rounds: int) -> None:
    N, d = len(s.graph), size(s)
    if rounds * N * d > GRADIENTS:
        raise ValueError(
            f"{rounds} rounds of {N} workers times {d} parameters are {rounds * N * d:.2g} gradients, more "
            f"than {GRADIENTS:.2g}, which take hours: bridge-t does much the same with one gradient a worker"
        )
