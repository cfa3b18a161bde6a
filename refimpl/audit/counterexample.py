"""One small input on which a function leaves the definition, with both answers and the arithmetic."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from refimpl.audit import arithmetic, rounds
from refimpl.audit.caller import Answer, Caller
from refimpl.audit.cases import APART, FAR, HUGE, Case, Inputs, agree, cast, tolerances
from refimpl.audit.report import Counterexample, format_value

SECONDS = 5.0  # for making an input smaller
SIMPLE = {"f": (0, 1, 2, 3, -1, 4, 5, -2, 0.5), "i": range(10), "b": ()}  # by dtype, the simplest first
AXES = {  # what the axes of an argument count: an index is left out of all arguments that have the axis
    **dict.fromkeys(("risks", "weights", "y"), "n"),
    **dict.fromkeys(("W", "honest", "signals"), "nd"),
    **dict.fromkeys(("w", "g", "x"), "d"),
    "z": "nc",
    "gradients": "Td",
    "graph": "nn",
}


def counterexample(called: Caller, different: list[tuple[Case, Answer]], shrinks: bool) -> Counterexample:
    """The smallest of the cases in which the function differs, made smaller if `shrinks`."""
    different = sorted(different, key=lambda pair: (pair[0].apart, count(pair[0].inputs)))
    case, answer = different[0]
    if called.kind.steps:
        return rounds.counterexample(case, answer.value, answer.problem)
    groups = {case.group for case, _ in different}
    clearly = called.kind.selects and bool(groups - {*APART, "ties", "vectors"})  # a tie is no good example
    starts = [cast(case.inputs, float) for case, _ in different if case.group != FAR]
    found = smallest(called, starts, clearly) if shrinks else None
    if found is not None:
        case = plain_case(called, found)._replace(name="the smallest input found")
        answer = called(found)
    why = explained(called, case, answer.value) if count(case.inputs) < 40 and case.group != FAR else ""
    return shown(called, case, answer)._replace(why=why)


def shown(called: Caller, case: Case, answer: Answer) -> Counterexample:
    """A case with what was expected and what came, as text."""
    inputs = {name: format_value(v) for name, v in zip(called.arguments, case.inputs, strict=True)}
    text = lambda value: "an error" if value is None else format_value(value)
    return Counterexample(case.name, inputs, text(case.expected), answer.problem or text(answer.value))


def count(inputs: Inputs) -> int:
    """How many numbers the arrays hold."""
    return sum(value.size for value in inputs if isinstance(value, np.ndarray))


def plain_case(called: Caller, inputs: Inputs) -> Case:
    """The case of any inputs. Raises ValueError or IndexError if the definition refuses them."""
    rtol, atol = tolerances("")
    return Case("", "", inputs, called.kind.answer(inputs), rtol, max(atol, called.kind.atol))


def leaves(called: Caller, inputs: Inputs, clearly: bool, liked: bool) -> bool:
    """Whether the function leaves the definition there.

    `clearly`: and no tie decides which model is chosen. `liked`: and inputs are likeable, the answer finite.
    """
    if not possible(called.arguments, inputs) or (liked and not likeable(called.arguments, inputs)):
        return False
    try:
        case = plain_case(called, inputs)
        turned = plain_case(called, (inputs[0][::-1], *inputs[1:])) if clearly else case
    except (ValueError, IndexError):
        return False
    if not np.array_equal(case.expected, turned.expected, equal_nan=True):
        return False
    answer = called(cast(inputs, np.float32) if called.narrow else inputs)
    if answer.late or (liked and (answer.value is None or not np.isfinite(answer.value).all())):
        return False
    return not agree(case, case.expected, answer.value)


def explained(called: Caller, case: Case, value: Any) -> str:
    """How the definition comes to its answer, in the first coordinate that differs."""
    explain = getattr(arithmetic, called.kind.define.__name__, lambda *inputs: "")
    text = explain(*case.inputs)
    if not text.startswith("first coordinate") or np.shape(value) != np.shape(case.expected):
        return text
    close = np.isclose(value, case.expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
    j = int(np.argmin(close))
    cut = [v[:, j : j + 1] if np.ndim(v) == 2 else v for v in case.inputs]
    return explain(*cut).replace("first coordinate", f"coordinate {j}", 1)


# --- Making inputs smaller ----------------------------------------------------------------------------------


def smallest(called: Caller, starts: list[Inputs], clearly: bool) -> Inputs | None:
    """The first inputs on which the function differs, made simpler step by step; None without any, or time.

    Those that a reader likes are looked for first.
    """
    end = time.monotonic() + SECONDS
    for liked in (True, False):
        found, candidates = None, iter(starts)
        differs = lambda inputs, liked=liked: time.monotonic() < end and leaves(called, inputs, clearly, liked)
        while (smaller := next(filter(differs, candidates), None)) is not None:
            found, candidates = smaller, simpler(called.arguments, smaller)
        if found is not None:
            return found
    return None


def simpler(names: tuple[str, ...], inputs: Inputs) -> Iterator[Inputs]:
    """The inputs in whole numbers, without one row or column of the arrays that share it, with one simpler."""
    rounded = tuple(v.round() if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in inputs)
    if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(inputs, rounded, strict=True)):
        yield rounded
    axes = [AXES.get(name, "")[: np.ndim(value)] for name, value in zip(names, inputs, strict=True)]
    sizes: dict[str, int] = {}
    for own, value in zip(axes, inputs, strict=True):
        sizes.update(zip(own, np.shape(value), strict=False))
    for axis, size in sizes.items():
        for i in range(size):
            yield tuple(without(value, own, axis, i) for own, value in zip(axes, inputs, strict=True))
    for a, value in enumerate(inputs):
        for place in np.ndindex(np.shape(value)):
            number = np.asarray(value)[place]
            for x in itertools.takewhile(number.__ne__, SIMPLE[number.dtype.kind]):
                changed = np.array(value)
                changed[place] = x
                yield *inputs[:a], changed if place else changed.item(), *inputs[a + 1 :]


def without(value: Any, axes: str, axis: str, i: int) -> Any:
    """An argument without index i of an axis, if it has it."""
    for k, own in enumerate(axes):
        value = np.delete(value, i, axis=k) if own == axis else value
    return value


def likeable(names: tuple[str, ...], inputs: Inputs) -> bool:
    """Whether there is an attacker to bear, more than one model, and no number that is not finite or huge."""
    for name, value in zip(names, inputs, strict=True):
        few = (name == "f" and value < 1) or (name in ("W", "honest", "risks") and len(value) < 2)
        if few or not (abs(np.asarray(value, float)) < HUGE).all():
            return False
    return True


def possible(names: tuple[str, ...], inputs: Inputs) -> bool:
    """Whether no array is empty, weights sum to 1, risks are not negative, single numbers (but z) positive."""
    for name, value in zip(names, inputs, strict=True):
        if np.size(value) == 0 or (isinstance(value, float) and value <= 0 and name != "z"):
            return False
        if (name == "risks" and (value < 0).any()) or (name == "weights" and not np.isclose(value.sum(), 1)):
            return False
    return True
