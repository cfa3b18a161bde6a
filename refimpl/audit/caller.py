"""How a function is called: with the arrays that it takes, on copies, under a time limit."""

import inspect
import math
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np

from refimpl.audit.cases import FAR, Case, Inputs, cast
from refimpl.audit.kinds import KINDS, Kind, cases_of

PEERS = "(clients|workers|users|nodes|models|peers)"
COUNT = re.compile(rf"[nN]|(n|num|number)(_of)?_{PEERS}|{PEERS}_count")  # what counts the models is called so
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
TIMES = 20  # all cases together may take so many times the limit of one call


class Answer(NamedTuple):
    """What came back from one call."""

    value: Any = None  # an array on the host, or a dictionary of them
    problem: str = ""  # why there is no value, in a line
    dtype: str = ""  # of what was returned
    wrote: tuple[int, ...] = ()  # which arguments are no longer what they were
    late: bool = False  # no answer within the time limit


# --- Forms of input -----------------------------------------------------------------------------------------


def _tensor(array: np.ndarray) -> Any:
    return sys.modules["torch"].tensor(array.copy())  # torch has no negative strides


def _rows(array: np.ndarray, entry: Callable[[np.ndarray], Any]) -> list:
    return [entry(row) for row in array] if array.ndim > 1 else array.tolist()


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda array: array.copy(),
    "torch": _tensor,
    "list of arrays": lambda array: _rows(array, np.copy),
    "list of tensors": lambda array: _rows(array, _tensor),
    "lists": lambda array: array.tolist(),
}


def available() -> list[str]:
    """The forms that can be tried. Torch is never imported here: whatever takes tensors has imported it."""
    return [form for form in FORMS if "torch" in sys.modules or form not in ("torch", "list of tensors")]


def in_form(form: str, value: Any) -> Any:
    """A copy of an argument; lists and named tuples are copied with all that they hold, and keep their type."""
    if isinstance(value, np.ndarray):
        return FORMS[form](value)
    if isinstance(value, list | tuple):
        parts = [in_form(form, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def on_host(value: Any) -> np.ndarray:
    """A returned value as a numpy array of numbers; raises ValueError if that cannot be."""
    if isinstance(value, list | tuple):
        value = [on_host(entry) for entry in value]
    elif hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        what = "None" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"returns {what}, not an array of numbers")
    return array


# --- The function -------------------------------------------------------------------------------------------


class Caller:
    """A function with what was found out about how to call it, and what its answers mean."""

    def __init__(self, function: Callable, kind: str, form: str = "", limit: float = 3.0) -> None:
        self.function, self.name, self.kind, self.form, self.limit = function, kind, KINDS[kind], form, limit
        self.cases = list(cases_of(kind))
        if self.kind.optional and not _takes(function, len(self.kind.arguments)):
            self.cases = by_default(self.cases)
        self.arguments = self.kind.arguments[: len(self.cases[0].inputs)]
        self.indices = False  # does it return the number of the chosen model?
        self.narrow = False  # does it answer float64 in float32?

    @property
    def seconds(self) -> float:
        """How long all cases together may take."""
        return TIMES * self.limit

    def __call__(self, inputs: Inputs) -> Answer:
        """The function's answer to one set of inputs."""
        return self.answers([inputs])[0]

    def answers(self, many: Sequence[Inputs], seconds: float = math.inf) -> list[Answer]:
        """The function's answers, in order, until it hangs or the time is over; at least one.

        They are computed in a thread of their own, which is left behind if the function hangs. (A call that
        holds the interpreter's lock for good, in somebody's C code, cannot be left.)
        """
        came: queue.Queue[Answer | None] = queue.Queue()
        answers, end = [], time.monotonic() + seconds

        def work() -> None:
            for inputs in many:
                came.put(self._call(inputs))
                if time.monotonic() > end:
                    break
            came.put(None)

        with redirect_stdout(sys.stderr):  # what the function prints is no part of a report
            threading.Thread(target=work, daemon=True).start()
            try:
                while answer := came.get(timeout=self.limit):
                    answers.append(answer)
            except queue.Empty:
                end = 0.0  # should it ever come back
                answers.append(Answer(problem=f"no answer within {self.limit:g} s", late=True))
        return answers

    def _call(self, inputs: Inputs) -> Answer:
        given, kept = ([in_form(self.form, value) for value in inputs] for _ in range(2))
        try:
            with np.errstate(all="ignore"):
                returned = self.function(*given)
            value = self.read(returned, inputs)
        except BaseException as error:  # whatever it raises, sys.exit() included, is its answer
            return Answer(problem=in_a_line(error))
        wrote = tuple(i for i, (a, b) in enumerate(zip(given, kept, strict=True)) if not same(a, b))
        return Answer(value, dtype=str(getattr(returned, "dtype", "")).removeprefix("torch."), wrote=wrote)

    def choose_form(self) -> str:
        """Finds out how the function takes arrays; returns why it cannot be called, or ""."""
        probe = next((case for case in self.cases if case.telling), self.cases[0])
        problems = {}
        for form in [self.form] if self.form else available():
            self.form = form
            answer = self(probe.inputs)
            problems[form] = answer.problem or misfit(probe, answer)
            if not problems[form] or answer.late:
                self.narrow = answer.dtype == "float32"
                return problems[form]
        mistyped = any(problem.startswith("TypeError") for problem in problems.values())
        made = inspect.isclass(self.function)
        other = suggested(self.function, self.kind.arguments)
        other = other if mistyped or made or "axis=0" in other else ""
        shapes = [problem for problem in problems.values() if problem.startswith("returns")]
        if shapes:
            call = other or "see --call for another way to call it"
            return f"{shapes[0]}; it has to be {self.kind.call}: {call}"
        lines = [f"with {form}: {problem}" for form, problem in problems.items()]
        if len(set(problems.values())) == 1:
            lines = [next(iter(problems.values()))]
        return "\n".join([f"it cannot be called as {self.kind.call}", *lines, *([other] if other else [])])

    def ask(self) -> list[tuple[Case, Answer]]:
        """The cases, in an order that may be cut short, with the answers until it hangs or the time is over."""
        if self.narrow:  # then it is asked in single precision, and not about finer differences
            self.cases = [narrowed(self.kind, case) for case in self.cases if case.group != FAR]
        answers = self.answers([case.inputs for case in self.cases], self.seconds)
        return list(zip(self.cases, answers, strict=False))

    def read(self, returned: Any, inputs: Inputs) -> Any:
        """A returned value in the form of the definition's answer; for the number of a model, that model."""
        if self.kind.steps:
            return {name: on_host(value) for name, value in self.kind.steps(returned).items()}
        value = on_host(returned)
        if not self.kind.selects or np.ndim(value) or value.dtype.kind not in "iu":
            return value
        self.indices, i = True, int(value)
        if not 0 <= i < len(inputs[0]):
            raise ValueError(f"returns the number {i} of {len(inputs[0])} models")
        return inputs[0][i]


def by_default(cases: list[Case]) -> list[Case]:
    """The cases in which the last argument has its default, without it."""
    return [case._replace(inputs=case.inputs[:-1]) for case in cases if case.inputs[-1] == 1]


def narrowed(kind: Kind, case: Case) -> Case:
    """The case in single precision."""
    inputs = cast(case.inputs, np.float32)
    expected = None if case.expected is None else kind.answer(inputs)
    return case._replace(name=f"{case.name}, in float32", inputs=inputs, expected=expected)


def misfit(case: Case, answer: Answer) -> str:
    """Why an answer does not have the form of the expected one, or ""."""
    expected, value = (v["W"] if isinstance(v, dict) else v for v in (case.expected, answer.value))
    if np.shape(value) == np.shape(expected):
        return ""
    return f"returns shape {np.shape(value)} where {np.shape(expected)} is expected"


def _takes(function: Callable, count: int) -> bool:
    """Whether the function can be called with so many arguments; True if that cannot be known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def suggested(function: Callable, arguments: tuple[str, ...]) -> str:
    """A line with a --call that fits the function's own signature; "" if that is the usual one, or not known.

    Parameters of a kind's names get these, counts of models the number of rows, an axis that of the models,
    others what is left, in order; "..." is for the user to fill in. A class is made with everything but the
    models, then called with these.
    """
    name, made = getattr(function, "__name__", ""), inspect.isclass(function)
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.kind not in VARIADIC]
    except ValueError:
        return ""
    names = [p.name for p in parameters if p.kind != inspect.Parameter.KEYWORD_ONLY]
    if not name.isidentifier() or (not made and tuple(names) == arguments):
        return ""
    left = [a for a in arguments[made:] if a not in {p.name for p in parameters}]
    filled = []
    for p in parameters:
        value = p.name if p.name in arguments[made:] else ""
        if not value and COUNT.fullmatch(p.name):
            value = f"len({arguments[0]})"
        elif p.name == "axis" and p.default != 0:
            value = "0"
        elif not value and left:
            value = left.pop(0)
        if value or p.default is p.empty:
            filled.append(f"{p.name}={value or '...'}")
    call = f"{name}({', '.join(filled)})" + (f"({arguments[0]})" if made else "")
    return f"perhaps --call 'lambda {', '.join(arguments)}: {call}'"


def in_a_line(error: BaseException) -> str:
    """The error's class and message, cut if it is long."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= 160 else f"{text[:157]}..."


def same(a: Any, b: Any) -> bool:
    """Whether two arguments are equal in every number, NaN to NaN."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or hasattr(a, "detach"):
        return np.array_equal(on_host(a), on_host(b), equal_nan=on_host(a).dtype.kind == "f")
    return a is b or a == b or (a != a and b != b)
