"""What the systems send, in bytes, and what they refuse."""

import time

import numpy as np

from refimpl.algorithm import Setting
from refimpl.arrays import module_of
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


HOUR = 3600.0


def small(s: Setting, rounds: int) -> None:
    """Refuses what would take more than an hour, by the time of one gradient."""
    gradients = rounds * len(s.graph) * size(s)
    seconds = gradients * min(seconds_of_a_gradient(s) for _ in range(2))
    if seconds > HOUR:
        raise ValueError(
            f"{rounds} rounds take {gradients:.2g} gradients, one for each worker and parameter, about "
            f"{seconds / HOUR:.1f} hours: bridge-t does much the same with one for each worker"
        )


def seconds_of_a_gradient(s: Setting) -> float:
    w = module_of(s.X).zeros(size(s), s.X.dtype)
    start = time.perf_counter()
    s.model.gradient(w, s.X[0, : s.batch_size], s.y[0, : s.batch_size])
    return time.perf_counter() - start
