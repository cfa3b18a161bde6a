"""One input on which a function leaves the definition, with both answers and the arithmetic."""

from typing import Any

import numpy as np

from refimpl.audit import shrink
from refimpl.audit.calls import Answer, Inputs
from refimpl.audit.cases import APART, FAR, Case
from refimpl.audit.report import Difference, shown
from refimpl.audit.trial import Trial


def smallest(trial: Trial, different: list[tuple[Case, Answer]], shrinks: bool) -> Difference:
    """The smallest input on which it differs, if hypothesis finds one; else the smallest that was drawn."""
    case, answer = min(different, key=lambda pair: (pair[0].apart, size_of(pair[0].inputs)))
    title, found = case.name, None
    groups = {case.group for case, _ in different}
    plain = groups - {*APART, "ties", "vectors"}
    if shrinks and trial.kind.small and groups != {FAR}:
        clearly = trial.kind.selects and bool(plain)  # then a tie is no good example
        poison = groups <= {*APART}
        found = shrink.smallest(trial.small, lambda inputs: trial.differs(inputs, clearly), poison)
    if found is not None:
        title, case, answer = "the smallest input found", trial.case(found), trial.caller(found)
    if trial.kind.difference:
        return trial.kind.difference(case, answer)
    inputs = {name: shown(v) for name, v in zip(trial.arguments, case.inputs, strict=True)}
    why = arithmetic(trial, case, answer.value) if size_of(case.inputs) < 40 and case.group != FAR else ""
    return Difference(title, inputs, shown(case.expected), answer.problem or shown(answer.value), why)


def size_of(inputs: Inputs) -> int:
    """How many numbers there are to read."""
    return sum(value.size for value in inputs if isinstance(value, np.ndarray))


def arithmetic(trial: Trial, case: Case, value: Any) -> str:
    """How the definition comes to its answer, in the first coordinate that differs."""
    if not trial.kind.why:
        return ""
    text = trial.kind.why(*case.inputs)
    if not text.startswith("first coordinate") or np.shape(value) != np.shape(case.expected):
        return text
    close = np.isclose(value, case.expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
    j = int(np.argmin(close))
    cut = [v[:, j : j + 1] if np.ndim(v) == 2 else v for v in case.inputs]
    return trial.kind.why(*cut).replace("first coordinate", f"coordinate {j}", 1)
