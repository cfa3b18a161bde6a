"""Optimisers on flat vectors, as Eq. (2) needs them; the table OPTIMIZERS.

A step is (w, g, memory, mu, t) -> (w, memory): parameters, gradient, what earlier steps left, step size, and
the number of this step, 1 for the first. The memory is (slots, d), 0 at first; the table says how many slots.
"""

from collections.abc import Callable
from typing import NamedTuple

from refimpl.arrays import Array, module_of


def sgd(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """w - mu g: Eq. (2). Remembers nothing."""
    return w - mu * g, memory


def adam(
    w: Array,
    g: Array,
    memory: Array,
    mu: float,
    t: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[Array, Array]:
    """Adam (Kingma and Ba 2015, Algorithm 1), which the paper uses on MNIST. Remembers m and v."""
    xp = module_of(w)
    m, v = memory
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return w - mu * m_hat / (xp.sqrt(v_hat) + eps), xp.stack([m, v])


class Optimizer(NamedTuple):
    """An entry of OPTIMIZERS."""

    step: Callable[[Array, Array, Array, float, int], tuple[Array, Array]]
    """(w, g, memory, mu, t) -> (w, memory), entry by entry"""
    slots: int  # how many vectors it remembers
    about: str
    reference: str


OPTIMIZERS = {
    "sgd": Optimizer(sgd, 0, "gradient descent on a batch", "Eq. (2)"),
    "adam": Optimizer(adam, 2, "adaptive moments", "Kingma and Ba 2015"),
}
