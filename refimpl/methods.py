"""What a name after --rules means: a rule of the paper, a rule as its authors' code has it, or another system.

`find` is the only place that knows which of these a name is, and `Method` is all that the rest of the program
asks of it. The tables are read at each call: an entry that a user's script has added is found like any other.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from refimpl import faults, related, released
from refimpl.aggregate import RULES, Rule
from refimpl.algorithm import Setting
from refimpl.attacks import ATTACKS
from refimpl.engine import Build
from refimpl.engine import plain as plain_engine
from refimpl.fast import engine as fast_engine
from refimpl.fast import parallel
from refimpl.fast import released as fast_released
from refimpl.fast.networks import batched
from refimpl.faults import Faults
from refimpl.related import SYSTEMS, Schedule, System
from refimpl.released import DIFFERENCES
from refimpl.train import bytes_to_neighbours

Differences = Collection[str]  # names in `released.DIFFERENCES`


class Method(NamedTuple):
    """A rule or a system, together with the engine that computes it."""

    entry: Rule | System  # of its table: what it is about, its reference, what a worker must know
    rule: str  # of the setting: a name in RULES, or "" if the rounds are a system's own
    listens: bool  # does it need what the others send?
    kind: str  # methods of one kind take about as long as each other
    engine: Callable[..., Build]
    """(graph of each round, or None; what goes wrong, if it is a faulty one) -> what computes the rounds"""
    threads: Callable[[int], AbstractContextManager]
    """(number of threads) -> a context in which a run uses so many"""
    check: Callable[[Setting, Schedule | None, int], None]
    """(setting, graph of each round, number of rounds): raises ValueError if these cannot be computed"""
    bytes_per_round: Callable[[Setting, Schedule | None, int], float]
    """likewise -> bytes that a worker sends to all its neighbours, mean over workers and rounds"""
    modules: tuple[str, ...]  # with all that they import, the code that its rounds are computed by
    network: Callable[[Any], Any] = lambda model: model
    """(the task's network) -> the network that is trained"""


def names() -> list[str]:
    """All names that `find` knows, the paper's rules first."""
    return [*RULES, *(name for name in SYSTEMS if name not in RULES)]


def find(name: str, differences: Differences = (), plain: bool = False, faulty: bool = False) -> Method:
    """The method of that name with these differences of the released code; plain: as the specification has it.

    faulty: in a network that fails. Raises ValueError if there is none.
    """
    if name not in names():
        raise ValueError(f"unknown rule {name!r}, choose from {', '.join(names())}")
    if faulty and (differences or name not in RULES):
        what = "the released code" if differences else f"system {name}"
        raise ValueError(f"{what} knows no loss, late or crash: needs a rule of the paper, and its protocol")
    if faulty:
        return with_faults(of_rule(name, (), plain), plain)
    if differences:  # without them, no run enters the module of the released code
        released.require_compatible(differences)
    in_round = tuple(difference for difference in differences if DIFFERENCES[difference].in_round)
    method = of_rule(name, in_round, plain) if name in RULES else of_system(name, in_round, plain)
    if not differences:
        return method
    network = partial(changed_network, differences=differences)
    return method._replace(network=network, modules=(*method.modules, "refimpl.released"))


def changed_network(model: Any, differences: Differences) -> Any:
    """The network with these differences of the released code applied."""
    for name in differences:
        change = DIFFERENCES[name].model
        model = change(model) if change else model
    return model


def threads_of(plain: bool) -> Callable[[int], AbstractContextManager]:
    """A function that gives a run its threads: one for plain code, and for BLAS never more than one."""
    return (lambda count: threadpool_limits(1)) if plain else parallel.threads


def schedule(text: str | related.Rounds, graph: np.ndarray, seed: int) -> Schedule | None:
    """The graph of each round, from a name in SCHEDULES or pairs of workers by round; None for ""."""
    return related.schedules.build(text, graph, seed) if text else None


# --- Rules --------------------------------------------------------------------------------------------------


def of_rule(name: str, in_round: tuple[str, ...], plain: bool) -> Method:
    """Algorithm 1 with a rule of RULES: plain or fast, with the differences that change the round, if any."""
    rule = RULES[name]
    engines: dict[tuple[bool, bool], tuple[Build, str]] = {
        (False, False): (fast_engine.engine, "refimpl.fast.engine"),
        (False, True): (plain_engine, "refimpl.engine"),
        (True, False): (partial(fast_released.engine, differences=in_round), "refimpl.fast.released"),
        (True, True): (partial(released.engine, differences=in_round), "refimpl.released"),
    }
    engine, module = engines[bool(in_round), plain]

    def check(s: Setting, schedule: Schedule | None, rounds: int) -> None:
        if schedule:
            raise ValueError(f"rule {name} needs a graph that stays the same, got a schedule: see --list")
        if in_round:
            related.knowledge.require_models(s.attack)

    def bytes_per_round(s: Setting, schedule: Schedule | None, rounds: int) -> float:
        return bytes_to_neighbours(s, s.model.layout.size) if rule.listens else 0.0

    return Method(
        rule,
        rule=name,
        listens=rule.listens,
        kind="a rule that scores" if rule.scores else "a rule",
        engine=lambda schedule: engine,
        threads=threads_of(plain),
        check=check,
        bytes_per_round=bytes_per_round,
        modules=(module,),
    )


def with_faults(method: Method, plain: bool) -> Method:
    """The rule where messages get lost: worker by worker, through the network of `fast` unless it is plain."""

    def engine(schedule: Schedule | None, of_run: Faults) -> Build:
        build = partial(faults.engine, faults=of_run)
        return build if plain else on_fast_network(build)

    modules = ("refimpl.faults",) if plain else ("refimpl.faults", "refimpl.fast.networks")
    return method._replace(engine=engine, modules=modules)


def on_fast_network(build: Build) -> Build:
    """The same engine with the network of `fast`, if that has one."""
    return lambda s: build(s._replace(model=batched(s.model) or s.model))


# --- Systems ------------------------------------------------------------------------------------------------


def of_system(name: str, in_round: tuple[str, ...], plain: bool) -> Method:
    """A system of SYSTEMS: worker by worker, but through the network of `fast` unless it is plain."""

    def engine(schedule: Schedule | None) -> Build:
        """The system's own engine, with the network of `fast` unless it is plain."""
        build = related.engine(name, schedule)
        return build if plain else on_fast_network(build)

    def check(s: Setting, schedule: Schedule | None, rounds: int) -> None:
        if in_round:
            raise ValueError(f"system {name} knows no {', '.join(in_round)}: needs a rule of the paper")
        if "outcome" in ATTACKS[s.attack].knows:
            raise ValueError(f"attack {s.attack} is made against a rule: needs one of the paper, got {name}")
        related.check(name, s, schedule, rounds)

    return Method(
        SYSTEMS[name],
        rule="",
        listens=True,
        kind=name,
        engine=engine,
        threads=threads_of(plain),
        check=check,
        bytes_per_round=partial(related.bytes_per_round, name),
        modules=("refimpl.related",) if plain else ("refimpl.related", "refimpl.fast.networks"),
    )
