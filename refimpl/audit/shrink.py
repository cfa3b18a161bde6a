"""The smallest input on which a function leaves the definition, by hypothesis (in the extra `test`)."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from refimpl import graphs
from refimpl.audit.cases import Inputs

SECONDS = 3.0  # of the processor, so that a busy machine finds as much


class OutOfTime(KeyboardInterrupt):
    """Ends hypothesis's search, which takes any other exception for one more thing to shrink."""


def strategy(arguments: tuple[str, ...], poison: bool) -> Any:
    """Few and small whole numbers for the arguments of a kind; with `poison`, NaN and infinities among them."""
    from hypothesis import strategies as st

    number = st.sampled_from(
        [*map(float, range(10)), -1.0, -2.0, -3.0, *([np.nan, np.inf, -np.inf] if poison else [])]
    )
    risks = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, *([np.nan, np.inf] if poison else [])])
    size = st.integers(1, 3)

    def matrix(n: int, d: int) -> Any:
        return st.lists(number, min_size=n * d, max_size=n * d).map(lambda x: np.array(x).reshape(n, d))

    def vector(n: int, entry: Any = number) -> Any:
        return st.lists(entry, min_size=n, max_size=n).map(np.array)

    build: dict[tuple[str, ...], Callable[[], Any]] = {
        ("W", "f"): lambda: st.tuples(st.integers(1, 9), size, st.integers(0, 3)).flatmap(
            lambda s: st.tuples(matrix(*s[:2]), st.just(s[2]))
        ),
        ("W",): lambda: st.tuples(st.integers(1, 6), size).flatmap(lambda s: st.tuples(matrix(*s))),
        ("W", "signals"): lambda: st.tuples(size, size).flatmap(lambda s: st.tuples(matrix(*s), matrix(*s))),
        ("risks", "own"): lambda: st.integers(1, 5).flatmap(
            lambda n: st.tuples(vector(n, risks), st.integers(0, n - 1))
        ),
        ("risks",): lambda: st.integers(1, 5).flatmap(lambda n: st.tuples(vector(n, risks))),
        ("weights", "W"): lambda: st.tuples(st.integers(1, 4), size).flatmap(
            lambda s: st.tuples(vector(s[0], st.sampled_from([0.0, 1.0])).filter(np.any), matrix(*s)).map(
                lambda made: (made[0] / made[0].sum(), made[1])
            )
        ),
        ("z", "y"): lambda: st.tuples(size, st.integers(2, 3)).flatmap(
            lambda s: st.tuples(
                matrix(*s) | matrix(*s).map(lambda z: 1000 * z),
                vector(s[0], st.integers(-1 if poison else 0, s[1] - 1)),
            )
        ),
        ("w", "g", "mu"): lambda: size.flatmap(
            lambda d: st.tuples(vector(d), vector(d), st.sampled_from([1.0, 0.5]))
        ),
        ("w", "gradients", "mu"): lambda: st.tuples(st.integers(1, 3), size).flatmap(
            lambda s: st.tuples(
                vector(s[1]), matrix(*s) | matrix(*s).map(lambda g: 1e-7 * g), st.sampled_from([1.0, 0.5])
            )
        ),
        ("n", "f"): lambda: st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
        ("graph",): lambda: st.integers(1, 5).flatmap(
            lambda n: st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))).map(
                lambda edges: (graphs.from_edges(n, sorted(edges)),)
            )
        ),
    }
    factor = st.sampled_from([1.0, 2.0, 0.5])
    models_and_factor = lambda: st.tuples(st.integers(1, 4), size).flatmap(
        lambda s: st.tuples(matrix(*s), factor)
    )
    return build.get(arguments, models_and_factor)()


def smallest(arguments: tuple[str, ...], differs: Callable[[Inputs], bool], poison: bool) -> Inputs | None:
    """The smallest input that `differs`; None if hypothesis is not installed, or finds none in time."""
    try:
        from hypothesis import HealthCheck, Phase, errors, find, settings
    except ImportError:
        return None
    end, best = time.process_time() + SECONDS, None
    quick = settings(
        max_examples=1000,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )

    def wanted(inputs: Inputs) -> bool:
        nonlocal best
        if time.process_time() > end:
            raise OutOfTime
        found = differs(inputs)
        if found and (best is None or size_of(inputs) < size_of(best)):
            best = inputs
        return found

    with suppress(OutOfTime, errors.NoSuchExample, errors.Unsatisfiable, errors.Flaky):
        find(strategy(arguments, poison), wanted, settings=quick)
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
