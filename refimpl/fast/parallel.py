"""Parts of a computation: how large they are, on which threads they run, and memory kept between rounds.

Work is cut into parts by size, so that what a part touches stays in a CPU's cache, and never by the number of
threads: a result has the same bytes for any number of them. Each part writes to a place of its own. Test:
test_parallel.py.
"""

import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

FLOATS = 2**20  # numbers that one expression should hold at a time on a CPU: they fit in its cache


def device_factor(xp: ModuleType) -> int:
    """How many times more an expression should hold on a GPU, where each one is a kernel launch."""
    return 1 if xp is np else 128


@functools.lru_cache(maxsize=256)
def tiles(shape: tuple[int, ...], most: int) -> tuple[tuple[slice, ...], ...]:
    """Cuts an array of this shape into boxes of at most `most` entries: one slice per axis.

    A box has at least one entry, unless the array has none. They are of about the same size, so that threads
    finish at about the same time.
    """
    if not shape or math.prod(shape) <= most:
        return (tuple(slice(0, n) for n in shape),)
    n, step = max(1, shape[0]), max(1, most // max(1, math.prod(shape[1:])))
    step = math.ceil(n / math.ceil(n / step))
    rest = tiles(shape[1:], most)
    return tuple((slice(start, start + step), *part) for start in range(0, n, step) for part in rest)


# --- Threads ------------------------------------------------------------------------------------------------

_count = ContextVar("threads", default=1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Within it, `parallel_for` uses this many threads; BLAS, whose own do not pay for small products, one."""
    token = _count.set(count)
    try:
        with threadpool_limits(1):
            yield
    finally:
        _count.reset(token)


def parallel_for(function: Callable[[Any], None], parts: Iterable[Any]) -> None:
    """Calls function(part) for every part, on the threads that `threads` allows; the caller's is one of them.

    numpy lets go of the interpreter lock inside products and elementwise loops.
    """
    todo, count = list(parts), _count.get()
    helpers = min(count, len(todo)) - 1
    if helpers < 1:
        for part in todo:
            function(part)
        return
    ahead = deque(todo)

    def work() -> None:
        while True:
            try:
                part = ahead.popleft()  # each goes to one thread, also where there is no interpreter lock
            except IndexError:  # all are taken
                return
            function(part)

    # With the caller's settings: the number of threads, and what numpy does about NaN and infinities.
    waiting = [_pool(count - 1).submit(copy_context().run, work) for _ in range(helpers)]
    try:
        work()
    finally:
        begun = [helper for helper in waiting if not helper.cancel()]  # the others would find nothing to do
        wait(begun)
    for helper in begun:
        helper.result()  # raises what was raised there


@functools.lru_cache(maxsize=1)
def _pool(count: int) -> ThreadPoolExecutor:
    """A pool of so many threads, kept, as starting a thread takes longer than many a part."""
    return ThreadPoolExecutor(count, "refimpl")


# --- Memory -------------------------------------------------------------------------------------------------


@functools.cache
def keep_memory() -> None:
    """Makes the C library keep freed memory for the next array, instead of asking the system for it again.

    glibc learns this from the largest array that it has seen freed, up to 32 MB. Until then a round of HAR
    spends a third of its time on memory that the system hands out page by page.
    """
    np.empty(31 * 2**20, np.uint8)
