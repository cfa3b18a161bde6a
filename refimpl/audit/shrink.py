"""The smallest input on which a function leaves the definition, by hypothesis (in the extra `test`)."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from refimpl.audit.calls import Inputs
from refimpl.audit.small import Small

SECONDS, AT_MOST = 2.5, 5.0  # of the processor, so that a busy machine finds as much; and of the clock


class OutOfTime(KeyboardInterrupt):
    """Ends hypothesis's search, which takes any other exception for one more thing to shrink."""


def smallest(make: Callable[[Small], Inputs], differs: Callable[[Inputs], bool], poison: bool) -> Inputs | None:
    """The smallest of the inputs that `make` draws and that `differs`.

    With `poison`, NaN and infinities are among the numbers. None if hypothesis is not installed, or finds none
    in time.
    """
    try:
        from hypothesis import HealthCheck, Phase, errors, find, settings, strategies
    except ImportError:
        return None
    end, latest, best = time.process_time() + SECONDS, time.monotonic() + AT_MOST, None

    @strategies.composite
    def drawn(draw: Any) -> Inputs:
        return make(Small(draw, poison))

    def wanted(inputs: Inputs) -> bool:
        nonlocal best
        if time.process_time() > end or time.monotonic() > latest:
            raise OutOfTime
        found = differs(inputs)
        if found and (best is None or size_of(inputs) < size_of(best)):
            best = inputs
        return found

    quick = settings(
        max_examples=1000,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    with suppress(OutOfTime, errors.NoSuchExample, errors.Unsatisfiable, errors.Flaky):
        find(drawn(), wanted, settings=quick)
    return best


def size_of(inputs: Inputs) -> tuple[float, ...]:
    """How much there is to read: numbers that are not finite, all numbers, what they amount to."""
    numbers = np.concatenate([np.ravel(value).astype(float) for value in inputs])
    lost = ~np.isfinite(numbers)
    return (
        int(lost.sum()),
        len(numbers),
        float(abs(np.where(lost, 0, numbers)).sum()),
        float((numbers < 0).sum()),
    )
