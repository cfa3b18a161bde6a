"""One small input on which a function leaves the definition, with both answers and the arithmetic.

It is looked for by hypothesis, which is in the extra `test`.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from refimpl.audit import rounds
from refimpl.audit.caller import Answer, Caller
from refimpl.audit.cases import APART, FAR, Case, Inputs
from refimpl.audit.report import Counterexample, format_value
from refimpl.audit.small_inputs import Small

SECONDS, AT_MOST = 2.5, 5.0  # of the processor, so that a busy machine finds as much; and of the clock


def counterexample(called: Caller, different: list[tuple[Case, Answer]], shrinks: bool) -> Counterexample:
    """The smallest input on which it differs, if hypothesis finds one; else the smallest that was drawn."""
    case, answer = min(different, key=lambda pair: (pair[0].apart, count(pair[0].inputs)))
    title, found = case.name, None
    groups = {case.group for case, _ in different}
    plain = groups - {*APART, "ties", "vectors"}
    if shrinks and called.kind.small and groups != {FAR}:
        clearly = called.kind.selects and bool(plain)  # then a tie is no good example
        poison = groups <= {*APART}
        found = search(called.small, lambda inputs: called.differs(inputs, clearly), poison)
    if found is not None:
        title, case, answer = "the smallest input found", called.case(found), called(found)
    if called.kind.steps:
        return rounds.counterexample(case, answer.value, answer.problem)
    inputs = {name: format_value(v) for name, v in zip(called.arguments, case.inputs, strict=True)}
    why = arithmetic(called, case, answer.value) if count(case.inputs) < 40 and case.group != FAR else ""
    return Counterexample(
        title, inputs, format_value(case.expected), answer.problem or format_value(answer.value), why
    )


def count(inputs: Inputs) -> int:
    """How many numbers the arrays hold."""
    return sum(value.size for value in inputs if isinstance(value, np.ndarray))


def arithmetic(called: Caller, case: Case, value: Any) -> str:
    """How the definition comes to its answer, in the first coordinate that differs."""
    if not called.kind.arithmetic:
        return ""
    text = called.kind.arithmetic(*case.inputs)
    if not text.startswith("first coordinate") or np.shape(value) != np.shape(case.expected):
        return text
    close = np.isclose(value, case.expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
    j = int(np.argmin(close))
    cut = [v[:, j : j + 1] if np.ndim(v) == 2 else v for v in case.inputs]
    return called.kind.arithmetic(*cut).replace("first coordinate", f"coordinate {j}", 1)


# --- The search ---------------------------------------------------------------------------------------------


class OutOfTime(KeyboardInterrupt):
    """Ends hypothesis's search, which takes any other exception for one more thing to shrink."""


def search(make: Callable[[Small], Inputs], differs: Callable[[Inputs], bool], poison: bool) -> Inputs | None:
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
        if found and (best is None or amount(inputs) < amount(best)):
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


def amount(inputs: Inputs) -> tuple[float, ...]:
    """How much there is to read: how many numbers are not finite, how many there are, what they amount to."""
    numbers = np.concatenate([np.ravel(value).astype(float) for value in inputs])
    lost = ~np.isfinite(numbers)
    return (
        int(lost.sum()),
        len(numbers),
        float(abs(np.where(lost, 0, numbers)).sum()),
        float((numbers < 0).sum()),
    )
