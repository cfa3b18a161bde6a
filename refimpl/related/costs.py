"""Bytes that a worker of each system sends in a round: (setting, round) -> mean over the workers."""

from refimpl.algorithm import Setting
from refimpl.related.averaging import SENT_SHARE
from refimpl.related.mixing import count_of
from refimpl.related.screening import agreement_rounds
from refimpl.train import bytes_to_neighbours


def a_model(s: Setting, t: int = 1) -> float:
    """Bytes of one whole model to each neighbour, as in Algorithm 1."""
    return bytes_to_neighbours(s, s.model.layout.size)


def model_and_momentum(s: Setting, t: int) -> float:
    """Bytes of two vectors of d numbers to each neighbour."""
    return bytes_to_neighbours(s, 2 * s.model.layout.size)


def model_and_number(s: Setting, t: int) -> float:
    """Bytes of a model and one number to each neighbour."""
    return bytes_to_neighbours(s, s.model.layout.size + 1)


def largest_entries(s: Setting, t: int) -> float:
    """Bytes of CHOCO-SGD's share of the entries to each neighbour: values, and positions of 4 bytes each."""
    count = count_of(SENT_SHARE, s.model.layout.size)
    return bytes_to_neighbours(s, count) + bytes_to_neighbours(s, count, 4)


def gradients_and_model(s: Setting, t: int) -> float:
    """Bytes of gradients, agreed gradients as often as round t asks for, and a model to each neighbour."""
    return bytes_to_neighbours(s, (2 + agreement_rounds(t)) * s.model.layout.size)


def to_a_server(s: Setting, t: int) -> float:
    """Bytes of one whole model to one server."""
    return float(s.model.layout.size * s.X[0].dtype.itemsize)
