"""A function on trial: how it is called, what its answers mean, and when they are right."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from refimpl.audit.agreement import agree
from refimpl.audit.calls import Answer, Caller, Inputs, available
from refimpl.audit.cases import FAR, Case, tolerances
from refimpl.audit.kinds import KINDS
from refimpl.audit.small import Small
from refimpl.audit.suite import cases_of, definition

SECONDS = 4.0  # for all cases together


class Trial:
    """What is known about the function: the form of its arguments, and whether it returns models or numbers."""

    def __init__(self, function: Callable, kind: str, form: str, limit: float) -> None:
        self.kind, self.name = KINDS[kind], kind
        self.cases = list(cases_of(kind))
        self.fixed = self.kind.optional and not _takes(function, len(self.kind.arguments))
        if self.fixed:  # it has no such parameter: only the default is asked
            self.cases = [self.cut(case) for case in self.cases if case.inputs[-1] == 1]
        self.arguments = self.kind.arguments[: len(self.cases[0].inputs)]
        self.indices = False  # does it return the number of the chosen model?
        self.narrow = False  # does it answer float64 in float32?
        self.caller = Caller(function, form, self.read, limit)

    def cut(self, case: Case) -> Case:
        """The case without an argument that the function does not take."""
        return case._replace(inputs=case.inputs[:-1]) if self.fixed else case

    def read(self, returned: Any, inputs: Inputs) -> Any:
        """What was returned, as the definition has it; for the number of a model that model."""
        value = self.kind.read(returned)
        if not self.kind.selects or np.ndim(value) or value.dtype.kind not in "iu":
            return value
        self.indices, i = True, int(value)
        if not 0 <= i < len(inputs[0]):
            raise ValueError(f"returns the number {i} of {len(inputs[0])} models")
        return inputs[0][i]

    def small(self, draw: Small) -> Inputs:
        """Small inputs that it takes."""
        assert self.kind.small
        return self.kind.small(draw)[: len(self.arguments)]

    # --- Calling it -----------------------------------------------------------------------------------------

    def choose_form(self) -> str:
        """Finds out how the function takes arrays; returns why it cannot be called, or ""."""
        probe = next((case for case in self.cases if telling(case)), self.cases[0])
        problems = {}
        for form in [self.caller.form] if self.caller.form else available():
            self.caller.form = form
            answer = self.caller(probe.inputs)
            problems[form] = answer.problem or misfit(probe, answer)
            if not problems[form] or answer.late:
                self.narrow = answer.dtype == "float32"
                return problems[form]
        shapes = [problem for problem in problems.values() if problem.startswith("returns")]
        if shapes:
            return f"{shapes[0]}; it has to be {self.kind.call}: see --call for another way to call it"
        lines = [f"with {form}: {problem}" for form, problem in problems.items()]
        if len(set(problems.values())) == 1:
            lines = [next(iter(problems.values()))]
        return "\n".join([f"it cannot be called as {self.kind.call}", *lines])

    def ask(self) -> list[tuple[Case, Answer]]:
        """Its answers, until it hangs or the time is over. Cases come in an order that allows that."""
        if (
            self.narrow
        ):  # it rounds to single precision: then it is asked in it, and not about finer differences
            self.cases = [self.narrowed(case) for case in self.cases if case.group != FAR]
        answers = self.caller.all([case.inputs for case in self.cases], SECONDS)
        return list(zip(self.cases, answers, strict=False))

    # --- Judging an answer ----------------------------------------------------------------------------------

    def case(self, inputs: Inputs) -> Case:
        """Any inputs as a case. Raises ValueError if the definition refuses them."""
        return Case("", "", inputs, definition(self.kind, inputs), *tolerances(""))

    def narrowed(self, case: Case) -> Case:
        """The case in single precision."""
        inputs = tuple(single(value) for value in case.inputs)
        expected = None if case.expected is None else definition(self.kind, inputs)
        return case._replace(name=f"{case.name}, in float32", inputs=inputs, expected=expected)

    def differs(self, inputs: Inputs, clearly: bool) -> bool:
        """Does it leave the definition there; `clearly`: where no tie decides which model is chosen?"""
        try:
            case = self.case(inputs)
        except ValueError:
            return False
        if clearly and not np.array_equal(case.expected, self.case((inputs[0][::-1], *inputs[1:])).expected):
            return False
        answer = self.caller(tuple(map(single, inputs)) if self.narrow else inputs)
        return not answer.late and not agree(case, case.expected, answer.value)


def single(value: Any) -> Any:
    """An array of floats in single precision, anything else as it is."""
    floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float32) if floats else value


def telling(case: Case) -> bool:
    """An ordinary case with several models of several coordinates, for a first look."""
    sizes = [np.shape(value) for value in case.inputs if isinstance(value, np.ndarray)]
    return not case.apart and case.expected is not None and all(min(s, default=0) >= 2 for s in sizes)


def misfit(case: Case, answer: Answer) -> str:
    """Why an answer has not the form of the expected one, or ""."""
    expected, value = (v["W"] if isinstance(v, dict) else v for v in (case.expected, answer.value))
    if np.shape(value) == np.shape(expected):
        return ""
    return f"returns shape {np.shape(value)} where {np.shape(expected)} is expected"


def _takes(function: Callable, count: int) -> bool:
    """Can it be called with so many arguments? Yes, if that cannot be known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass
    return True
