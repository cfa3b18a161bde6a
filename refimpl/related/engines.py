"""From a name in SYSTEMS to an engine of `train`."""

from collections.abc import Callable
from typing import Any

from refimpl.algorithm import Setting, State
from refimpl.arrays import Array
from refimpl.related.common import Result
from refimpl.related.schedules import Schedule
from refimpl.related.systems import SYSTEMS, System


def find(name: str) -> System:
    """The system of that name. Raises ValueError if there is none."""
    if name not in SYSTEMS:
        raise ValueError(f"unknown system {name!r}, choose from {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def check(name: str, s: Setting, schedule: Schedule | None = None, rounds: int = 1) -> None:
    """Raises ValueError, naming the worker, if that many rounds of the system cannot be computed."""
    system = find(name)
    if not schedule:
        return check_graph(name, system, s, rounds)
    if system.fixed:
        raise ValueError(f"{name} needs a graph that stays the same, got a schedule")
    for t in range(1, rounds + 1):
        try:
            check_graph(name, system, s._replace(graph=schedule(t)), rounds)
        except ValueError as error:
            raise ValueError(f"round {t}: {error}") from None


def check_graph(name: str, system: System, s: Setting, rounds: int) -> None:
    """Raises ValueError, naming the worker, if the system cannot work on this graph."""
    f = len(s.attackers)
    try:
        system.suits(s, rounds)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for k in s.normal:
        n = int(s.graph[k].sum())
        try:
            system.require(n, f)
        except ValueError as error:
            raise ValueError(f"{name}: worker {k}, with {n - 1} neighbours: {error}") from None


def bytes_per_round(name: str, s: Setting, schedule: Schedule | None, rounds: int) -> float:
    """What a worker sends in a round, to all its neighbours together: the mean over workers and rounds.

    With the options that the system has in SYSTEMS.
    """
    system, ts = find(name), range(1, rounds + 1)
    return sum(system.bytes(s._replace(graph=schedule(t)) if schedule else s, t) for t in ts) / rounds


def engine(
    name: str, schedule: Schedule | None = None, **options: Any
) -> Callable[[Setting], Callable[..., Result]]:
    """An engine, as in `train`, that computes rounds of a system; options are those of its round.

    The graph of round t is schedule(t), if there is one, else that of the setting.
    """
    system = find(name)

    def build(s: Setting) -> Callable[..., Result]:
        check(name, s, schedule)

        def step(state: State, batch: Array, signals: Array | None = None) -> Result:
            now = s
            if schedule:
                now = s._replace(graph=schedule(state.t + 1))
                check(name, now)
            return system.round(now, state, batch, signals, **{**system.options, **options})

        return step

    return build
