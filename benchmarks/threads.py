"""Where two threads wait in a round, and what two cores could do at best.

    python benchmarks/threads.py --write    # and puts the tables into docs/engineering/PERFORMANCE.md

A line for each part of a round that threads share: its time on one thread, its time on two, for how long the
two are busy in it, and for how long they wait: until the second has begun, and for each other at the end. In
the column `apart` two processes of one thread each compute rounds at the same time, each on a core of its own.
They share no array and no interpreter lock, only memory: half of their time is what two threads could come to.
"""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import rounds
import timing

from refimpl.experiments.options import HelpFormatter, Parser, whole_number
from refimpl.fast import parallel
from refimpl.process import ended

CASES = [("har", "batch"), ("har", "local"), ("spambase", "local")]
Times = dict[str, np.ndarray]  # by part of a round: its time, busy in the caller, busy in the other thread
ROUND = "round"


def profile(task: str, risk: str, count: int, seconds: float) -> Times:
    """The milliseconds of a round on `count` threads, by part, in the mean of the rounds of so many seconds."""
    found: Times = defaultdict(lambda: np.zeros(3))
    shared, caller = parallel.parallel_for, threading.get_ident()
    inside = False

    def watched(function: Callable[[Any], None], parts: Iterable[Any]) -> None:
        nonlocal inside
        todo = list(parts)
        if inside or len(todo) < 2:
            return shared(function, todo)
        busy: dict[int, float] = defaultdict(float)

        def timed(part: Any) -> None:
            begun = time.perf_counter()
            function(part)
            busy[threading.get_ident()] += time.perf_counter() - begun

        inside, begun = True, time.perf_counter()
        shared(timed, todo)
        inside, took = False, time.perf_counter() - begun
        found[name_of(function)] += took, busy.pop(caller, 0.0), sum(busy.values())

    users = [m for m in list(sys.modules.values()) if getattr(m, "parallel_for", None) is shared]
    for module in users:
        vars(module)["parallel_for"] = watched
    try:
        running, done = rounds.refimpl_rounds(rounds.case(task, "float32", risk), np), 0
        with timing.threads(count):
            for _ in range(40):
                next(running)
            found.clear()
            begun = time.perf_counter()
            # Whole blocks of 32 rounds, as a carried product is made anew in one of them.
            while time.perf_counter() < begun + seconds or done % 32:
                next(running)
                done += 1
        found[ROUND] += time.perf_counter() - begun
    finally:
        for module in users:
            vars(module)["parallel_for"] = shared
    return {name: 1000 * took / done for name, took in found.items()}


def name_of(function: Callable) -> str:
    """The module and the function that cut the work into parts."""
    return f"{function.__module__.split('.')[-1]}.{function.__qualname__.split('.<locals>')[0].split('.')[-1]}"


def show(task: str, risk: str, seconds: float, table: timing.Table) -> None:
    """Prints the table of a case."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as one, ProcessPoolExecutor(1, spawn) as other:
        alone, both = (one.submit(profile, task, risk, count, seconds).result() for count in (1, 2))
        beside = [pool.submit(profile, task, risk, 1, 2 * seconds) for pool in (one, other)]
        apart: dict[str, Any] = {}
        for name in alone:
            apart[name] = np.mean([future.result()[name][0] for future in beside])
    table.say(f"\n{f'{task} {risk}':28}one thread    two  busy of each  wait of each  apart / 2")
    for name in sorted(alone, key=lambda name: -alone[name][0]):
        took, here, there = both[name]
        waits = "" if name == ROUND else f"{here:7.2f}{there:7.2f}{took - here:7.2f}{took - there:7.2f}"
        table.say(f"{name:28}{alone[name][0]:10.2f}{took:7.2f}{waits:28}{apart[name] / 2:11.2f}".rstrip())


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Where two threads wait in a round.", formatter_class=HelpFormatter)
    p.add_argument("--seconds", type=whole_number(1), default=4, help="of each measurement")
    p.add_argument("--write", action="store_true", help="put the tables into docs/engineering/PERFORMANCE.md")
    args = p.parse_args(argv)
    table = timing.Table()
    for task, risk in CASES:
        show(task, risk, args.seconds, table)
    if args.write:
        table.into_page("threads")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
