"""When two answers to a case are the same, and in how many cases they are."""

from collections.abc import Callable
from typing import Any

import numpy as np

from refimpl.arrays import quiet
from refimpl.audit.cases import APART, FAR, Case
from refimpl.audit.report import Agreement, Count
from refimpl.audit.variant import Variant


def agree(case: Case, expected: Any, value: Any) -> bool:
    """Are two answers to a case equal within its tolerances? NaN equals NaN, no answer equals no answer."""
    if expected is None or value is None:
        return expected is value
    if isinstance(expected, dict):
        return all(agree(case, expected[name], value[name]) for name in expected if name in value)
    expected, value = np.asarray(expected), np.asarray(value)
    if expected.shape != value.shape:
        return False
    single = value.dtype == np.float32 and case.group != FAR  # no more can be asked of it, whatever went in
    rtol, atol = (max(case.rtol, 1e-4), max(case.atol, 1e-5)) if single else (case.rtol, case.atol)
    with np.errstate(all="ignore"):
        return bool(np.allclose(value, expected, rtol=rtol, atol=atol, equal_nan=True))


def agreement(name: str, judged: list[tuple[Case, Any]], same: list[bool]) -> Agreement:
    counts = groups(judged, same)
    usual = [count for group, count in counts.items() if group not in APART]
    total = Count(sum(count.agreed for count in usual), sum(count.of for count in usual))
    return Agreement(name, total, {group: count for group, count in counts.items() if group in APART})


def groups(judged: list[tuple[Case, Any]], same: list[bool]) -> dict[str, Count]:
    counts: dict[str, Count] = {}
    for (case, _), equal in zip(judged, same, strict=True):
        agreed, of = counts.get(case.group, Count(0, 0))
        counts[case.group] = Count(agreed + equal, of + 1)
    return counts


ANSWERS: dict[tuple[Callable, str], Any] = {}  # of the variants, to the cases that have a name


def answer_of(variant: Variant, case: Case) -> Any:
    """A variant's answer to a case; None if it has none."""
    key = variant.compute, case.name
    if key not in ANSWERS or not case.name:
        ANSWERS[key] = _answer(variant, case)
    return ANSWERS[key]


@quiet
def _answer(variant: Variant, case: Case) -> Any:
    wide = (v.astype(float) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v for v in case.inputs)
    try:
        answer = variant.compute(*wide)
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return {"W": answer} if isinstance(case.expected, dict) else answer
