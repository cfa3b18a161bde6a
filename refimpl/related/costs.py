"""Bytes that a worker of each system sends in a round: (setting, round) -> mean over the workers."""

from refimpl.algorithm import Setting
from refimpl.related.mixing import count_of
from refimpl.related.screening import agreement_rounds


def to_neighbours(s: Setting, count: float, itemsize: int | None = None) -> float:
    """Bytes of `count` numbers (by default of the data's type) to each neighbour, mean over the workers."""
    neighbours = (s.graph.sum() - len(s.graph)) / len(s.graph)
    return float(neighbours * count * (itemsize or s.X[0].dtype.itemsize))


def size(s: Setting) -> int:
    """The number of parameters d."""
    return s.model.layout.size


def a_model(s: Setting, t: int = 1) -> float:
    """Bytes of one whole model to each neighbour, as in Algorithm 1."""
    return to_neighbours(s, size(s))


def model_and_momentum(s: Setting, t: int) -> float:
    """Bytes of two vectors of d numbers to each neighbour."""
    return to_neighbours(s, 2 * size(s))


def model_and_number(s: Setting, t: int) -> float:
    """Bytes of a model and one number to each neighbour."""
    return to_neighbours(s, size(s) + 1)


def largest_entries(s: Setting, t: int) -> float:
    """Bytes of 1 % of a vector's entries to each neighbour: their values, and positions of 4 bytes each."""
    count = count_of(0.01, size(s))
    return to_neighbours(s, count) + to_neighbours(s, count, 4)


def gradients_and_model(s: Setting, t: int) -> float:
    """Bytes of gradients, agreed gradients as often as round t asks for, and a model to each neighbour."""
    return to_neighbours(s, (2 + agreement_rounds(t)) * size(s))


def to_a_server(s: Setting, t: int) -> float:
    """Bytes of one whole model to one server."""
    return float(size(s) * s.X[0].dtype.itemsize)
