"""Small inputs of each kind, drawn by hypothesis: few models, few coordinates, small whole numbers.

Each function takes a `Small`, which draws, and returns inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refimpl import graphs
from refimpl.audit.cases import Inputs


class Small:
    """Draws numbers, the simplest first; with `poison`, NaN and infinities among them."""

    def __init__(self, draw: Callable[[Any], Any], poison: bool) -> None:
        from hypothesis import strategies as st

        self.draw, self.st, self.poison = draw, st, poison
        self.numbers = [*map(float, range(10)), -1.0, -2.0, -3.0] + poison * [np.nan, np.inf, -np.inf]
        self.risks = [0.0, 0.5, 1.0, 1.5, 2.0] + poison * [np.nan, np.inf]

    def whole(self, low: int, high: int) -> int:
        return self.draw(self.st.integers(low, high))

    def one_of(self, values: Sequence[float]) -> float:
        return self.draw(self.st.sampled_from(values))

    def rows(self, most: int, *columns: Sequence[float]) -> np.ndarray:
        """(n, columns) with 1 to `most` rows, drawn as such, so that hypothesis can leave out any of them."""
        row = self.st.tuples(*(self.st.sampled_from(values) for values in columns))
        return np.array(self.draw(self.st.lists(row, min_size=1, max_size=most)))

    def some(self, W: np.ndarray) -> np.ndarray:
        """W with some of its columns, the last if none."""
        kept = [i for i in range(W.shape[1]) if self.whole(0, 1)]
        return W[:, kept or [-1]]

    def matrix(self, most: int) -> np.ndarray:
        """(n, d) with 1 to `most` rows and 1 to 3 columns."""
        return self.some(self.rows(most, *[self.numbers] * 3))


def models(s: Small) -> Inputs:
    return (s.matrix(6),)


def neighbourhood(s: Small) -> Inputs:
    f = s.whole(0, 3)
    return s.matrix(9), f


def models_and_factor(s: Small) -> Inputs:
    factor = s.one_of([1.0, 2.0, 0.5])
    return s.matrix(4), factor


def models_and_signals(s: Small) -> Inputs:
    both = s.rows(3, *[s.numbers] * 4)
    return both[:, ::2], both[:, 1::2]


def risks(s: Small) -> Inputs:
    return (s.rows(5, s.risks)[:, 0],)


def risks_and_own(s: Small) -> Inputs:
    (r,) = risks(s)
    return r, s.whole(0, len(r) - 1)


def weighted(s: Small) -> Inputs:
    both = s.rows(4, [1.0, 0.0, 3.0], *[s.numbers] * 3)
    c, W = both[:, 0], s.some(both[:, 1:])
    return c / c.sum() if c.any() else np.eye(len(c))[0], W


def logits(s: Small) -> Inputs:
    factor, c = s.one_of([1.0, 1000.0]), s.whole(2, 3)
    labels = [*range(c)] + s.poison * [-1]
    both = s.rows(3, labels, *[s.numbers] * c)
    return both[:, 1:] * factor, both[:, 0].astype(int)


def step(s: Small) -> Inputs:
    mu = s.one_of([1.0, 0.5])
    w, g = s.rows(3, s.numbers, s.numbers).T
    return w, g, mu


def path(s: Small) -> Inputs:
    mu, factor = s.one_of([1.0, 0.5]), s.one_of([1.0, 1e-7])
    w, *gradients = s.rows(3, s.numbers, *[s.numbers] * s.whole(1, 3)).T
    return w, np.stack(gradients) * factor, mu


def counts(s: Small) -> Inputs:
    n = s.whole(1, 40)
    return n, s.whole(0, n - 1)


def network(s: Small) -> Inputs:
    n = s.whole(1, 5)
    worker = s.st.integers(0, n - 1)
    return (graphs.from_edges(n, sorted(s.draw(s.st.sets(s.st.tuples(worker, worker))))),)
