"""Parts of a computation, the threads that they run on, and what these take over from the caller."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from refimpl.fast.parallel import device_factor, parallel_for, threads, tiles


@given(st.lists(st.integers(0, 5), max_size=4).map(tuple), st.integers(0, 30))
def test_tiles_cover_every_entry_once(shape, most):
    count = np.zeros(shape, int)
    for box in tiles(shape, most):
        assert len(box) == len(shape)
        assert count[box].size <= max(1, most)
        count[box] += 1
    assert (count == 1).all()


def test_a_device_gets_more_at_a_time(xp):
    assert device_factor(np) == 1
    assert device_factor(xp) == 128


def test_an_error_on_a_thread_is_raised_and_threads_may_ask_for_threads():
    seen = []

    def part(i):
        parallel_for(lambda j: seen.append((i, j)), range(3))
        if i == 7:
            raise ArithmeticError("seven")

    with threads(3), pytest.raises(ArithmeticError, match="seven"):
        parallel_for(part, range(9))
    assert {(i, j) for i in range(8) for j in range(3)} <= set(seen)


def on_three_threads(function):
    """What function() returns on each of three threads that work at the same time."""
    together, found = threading.Barrier(3, timeout=60), {}

    def part(i):
        together.wait()
        found[threading.current_thread()] = function()

    with threads(3):
        parallel_for(part, range(3))
    return list(found.values())


@pytest.mark.parametrize("overflow", ["ignore", "raise"])
def test_helpers_ignore_what_the_caller_ignores_and_nothing_else(overflow):
    with np.errstate(over=overflow):
        assert on_three_threads(np.geterr) == [np.geterr()] * 3
        assert np.geterr()["over"] == overflow


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_within_and_as_many_as_before_after():
    with threadpool_limits(2):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has no threads, or does not say so")
        with threads(3):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
