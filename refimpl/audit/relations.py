"""How the answers of each kind have to move when the inputs do."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from refimpl.audit.calls import Inputs


class Relation(NamedTuple):
    name: str
    inputs: Callable[..., Inputs]  # the inputs, moved
    answer: Callable[[np.ndarray], Any]  # the answer, moved with them


def moved(W: np.ndarray) -> np.ndarray:
    """An exact translation of numbers with three digits, by a power of two for each coordinate."""
    return W + 2.0 ** (np.arange(W.shape[-1]) % 3)


def reverse(array: np.ndarray) -> np.ndarray:
    return array[::-1]


def same(answer: np.ndarray) -> np.ndarray:
    return answer


ORDER = "independent of the order of the models"
TRANSLATION = "moves with a translation of the models"
ROWS = "rows independent of each other"

ORDER_OF_MODELS = Relation(ORDER, lambda W, *rest: (W[::-1], *rest), same)
OF_MODELS = (ORDER_OF_MODELS, Relation(TRANSLATION, lambda W, *rest: (moved(W), *rest), moved))
OF_WEIGHTED_MODELS = (
    Relation(ORDER, lambda c, W: (c[::-1], W[::-1]), same),
    Relation(TRANSLATION, lambda c, W: (c, moved(W)), moved),
)
OF_RISKS = (
    Relation(
        "moves with the order of the neighbours",
        lambda r, *own: (r[::-1], *(len(r) - 1 - k for k in own)),
        reverse,
    ),
    Relation("independent of the scale of the risks", lambda r, *own: (4 * r, *own), same),
)
OF_ROWS = (Relation(ROWS, lambda W, *rest: (W[::-1], *rest), reverse),)
OF_TWO_ROWS = (Relation(ROWS, lambda a, b: (a[::-1], b[::-1]), reverse),)
OF_LOGITS = (
    Relation("independent of a constant in the logits", lambda z, y: (z + 4, y), same),
    *OF_TWO_ROWS,
)
OF_PARAMETERS = (Relation("moves with the parameters", lambda w, *rest: (w + 2, *rest), lambda w: w + 2),)
OF_WORKERS = (Relation("moves with the workers' numbers", lambda A: (A[::-1, ::-1],), lambda M: M[::-1, ::-1]),)
