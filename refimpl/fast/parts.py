"""How much to compute at a time, so that it stays in a CPU's cache, and memory that is kept between rounds."""

import functools
import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np

FLOATS = 2**20  # numbers that one expression should hold at a time on a CPU: they fit in its cache


def grain(xp: ModuleType) -> int:
    """How many times more an expression should hold on a GPU, where each one is a kernel launch."""
    return 1 if xp is np else 128


@functools.cache
def keep_memory() -> None:
    """Has the C library keep what is freed for the next array, instead of asking the system for it again.

    glibc learns this from the largest array that it has seen freed, up to 32 MB. Until then a round of HAR
    spends a third of its time on memory that the system hands out page by page.
    """
    np.empty(31 * 2**20, np.uint8)


def boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cuts an array of this shape into boxes of at most `most` entries: one slice per axis.

    A box has at least one entry, unless the array has none.
    """
    if not shape or math.prod(shape) <= most:
        yield tuple(slice(0, n) for n in shape)
        return
    step = most // max(1, math.prod(shape[1:]))
    for start in range(0, max(1, shape[0]), max(1, step)):
        for rest in boxes(shape[1:], most):
            yield slice(start, start + max(1, step)), *rest
