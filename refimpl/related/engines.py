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


def check(name: str, s: Setting) -> None:
    """Raises ValueError, naming the worker, if the system of that name cannot work in this setting."""
    system, f = find(name), len(s.attackers)
    try:
        system.suits(s)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for k in s.normal:
        n = int(s.graph[k].sum())
        try:
            system.require(n, f)
        except ValueError as error:
            raise ValueError(f"worker {k}, with {n - 1} neighbours: {error}") from None


def engine(
    name: str, schedule: Schedule | None = None, **options: Any
) -> Callable[[Setting], Callable[..., Result]]:
    """An engine, as in `train`, that computes rounds of a system; options are those of its round.

    The graph of round t is schedule(t), if there is one, else that of the setting.
    """
    system = find(name)
    if schedule and system.fixed:
        raise ValueError(f"{name} needs a graph that stays the same, got a schedule")

    def build(s: Setting) -> Callable[..., Result]:
        if not schedule:
            check(name, s)

        def step(state: State, batch: Array, signals: Array | None = None) -> Result:
            now = s
            if schedule:
                now = s._replace(graph=schedule(state.t + 1))
                check(name, now)
            return system.round(now, state, batch, signals, **{**system.options, **options})

        return step

    return build
