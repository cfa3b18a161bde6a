"""What the systems require of a run: in words, and as a check that refuses what does not meet it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from refimpl.algorithm import Setting
from refimpl.related.knowledge import require_models, require_nothing_before
from refimpl.related.mixing import metropolis_weights
from refimpl.related.schedules import Schedule
from refimpl.train import check_neighbourhoods


class Requirement(NamedTuple):
    """One thing that a system requires."""

    words: str  # "" for what --list need not say
    check: Callable[[Setting, Schedule | None, int], None]
    """(setting, schedule of graphs or None, rounds): raises ValueError if such a run does not meet it"""


MOST_ROUNDS = 10**5  # to look at beforehand, in seconds; the paper's runs have up to some 10^4


def of_every_graph(words: str, check: Callable[[Setting], None]) -> Requirement:
    """A requirement that the graph of each round has to meet."""

    def check_all(s: Setting, schedule: Schedule | None, rounds: int) -> None:
        if not schedule:
            return check(s)
        if rounds > MOST_ROUNDS:
            raise ValueError(f"needs a schedule of at most {MOST_ROUNDS} rounds to look at, got {rounds}")
        for t in range(1, rounds + 1):
            try:
                check(s._replace(graph=schedule(t)))
            except ValueError as error:
                raise ValueError(f"round {t}: {error}") from None

    return Requirement(words, check_all)


def of_every_neighbourhood(words: str, require: Callable[[int, int], None]) -> Requirement:
    """A requirement on each normal worker's neighbourhood of n models, f being the number of attackers."""
    return of_every_graph(words, lambda s: check_neighbourhoods(s, require))


def neighbours(formula: str, least: Callable[[int], int]) -> Requirement:
    """The requirement of least(f) neighbours or more; `formula` is least(f) in words."""

    def require(n: int, f: int) -> None:
        if n - 1 < least(f):
            raise ValueError(f"needs {formula} neighbours, got {n - 1}, f={f}")

    return of_every_neighbourhood(f"{formula} neighbours", require)


def require_undirected(s: Setting) -> None:
    """Raises ValueError, naming a worker, if some edge is one-way."""
    metropolis_weights(s.graph)


def require_complete(s: Setting) -> None:
    """Raises ValueError, naming a worker, unless everyone hears everyone."""
    missing = np.argwhere(~s.graph)
    if len(missing):
        k, l = missing[0]
        raise ValueError(f"everyone must hear everyone, but worker {k} does not hear worker {l}")


def require_fixed(s: Setting, schedule: Schedule | None, rounds: int) -> None:
    """Raises ValueError if there is a schedule."""
    if schedule:
        raise ValueError("needs a graph that stays the same, got a schedule")


MOST = 1e11  # numbers; on Spambase, 1202 parameters, 200 epochs of the paper's batches compute half as many


def require_feasible(s: Setting, schedule: Schedule | None, rounds: int) -> None:
    """Raises ValueError if one gradient for each worker, parameter and round are more than MOST numbers."""
    d = s.model.layout.size
    gradients = rounds * len(s.graph) * d
    if gradients * d > MOST:
        raise ValueError(
            f"{rounds} rounds compute {gradients:.2g} gradients of {d} numbers, one for each worker and "
            f"parameter: more than {MOST:.0e} numbers. bridge-t does much the same with one for each worker"
        )


# Of systems that send something else than their models, or have no place for a message per receiver.
SAME_TO_ALL = Requirement("", lambda s, schedule, rounds: require_models(s.attack))
# Of systems that mix before they step: a model that has not changed yet tells nothing.
NOTHING_BEFORE = Requirement("", lambda s, schedule, rounds: require_nothing_before(s.attack))
UNDIRECTED = of_every_graph("an undirected graph", require_undirected)
COMPLETE = of_every_graph("a complete graph", require_complete)
FIXED = Requirement("the same in every round", require_fixed)
FEASIBLE = Requirement("few parameters", require_feasible)
