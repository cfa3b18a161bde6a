"""Optimisers on flat vectors: step(W, G, state, lr) -> (W, state), the state None before the first step.

Each is elementwise, so W and G are (d,) for one worker or (N, d) for all.
"""

from collections.abc import Callable
from typing import Any

from refimpl.arrays import Array, module_of


def sgd(W: Array, G: Array, state: None, lr: float) -> tuple[Array, None]:
    """w - mu g: Eq. (2)."""
    step = lr * G
    return module_of(W).subtract(W, step, out=step), state


def adam(
    W: Array, G: Array, state: Any, lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8
) -> tuple[Array, tuple[int, Array, Array]]:
    """Adam (Kingma and Ba 2015, Algorithm 1), which the paper uses on MNIST. The state is (t, m, v)."""
    xp = module_of(W)
    t, m, v = (0, xp.zeros_like(W), xp.zeros_like(W)) if state is None else state
    t = t + 1
    m = beta1 * m + (1 - beta1) * G
    v = beta2 * v + (1 - beta2) * G * G
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return W - lr * m_hat / (xp.sqrt(v_hat) + eps), (t, m, v)


OPTIMIZERS: dict[str, Callable[[Array, Array, Any, float], tuple[Array, Any]]] = {"sgd": sgd, "adam": adam}
