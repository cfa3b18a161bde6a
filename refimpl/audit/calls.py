"""Calls a stranger's function: with the kind of arrays that it takes, on copies, under a time limit."""

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np

Inputs = tuple[Any, ...]


class Answer(NamedTuple):
    """What came back."""

    value: Any = None  # as `Caller.read` left it: an array on the host, or a dictionary of them
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
    """The forms that can be tried. Torch is never imported here: who takes tensors has imported it."""
    return [form for form in FORMS if "torch" in sys.modules or form not in ("torch", "list of tensors")]


def in_form(form: str, value: Any) -> Any:
    """A copy of an argument; named tuples are copied with all that they hold, and stay what they are."""
    if isinstance(value, np.ndarray):
        return FORMS[form](value)
    if isinstance(value, tuple):
        parts = [in_form(form, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def on_host(value: Any) -> np.ndarray:
    """What was returned as a numpy array of numbers; raises ValueError if that cannot be."""
    if isinstance(value, list | tuple):
        value = [on_host(entry) for entry in value]
    elif hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"returns {_named(value)}, not an array of numbers")
    return array


def dtype_of(value: Any) -> str:
    """The dtype of an array or tensor, "" for anything else."""
    return str(getattr(value, "dtype", "")).removeprefix("torch.")


def _named(value: Any) -> str:
    if isinstance(value, list):
        return f"a sequence of {len(value)} that do not form an array"
    return "None" if value is None else f"a {type(value).__name__}"


# --- Calling ------------------------------------------------------------------------------------------------


class Caller:
    """The function with everything that is known about how to call it."""

    def __init__(
        self, function: Callable, form: str, read: Callable[[Any, Inputs], Any], limit: float = 3.0
    ) -> None:
        self.function, self.form, self.read, self.limit = function, form, read, limit

    def __call__(self, inputs: Inputs) -> Answer:
        """Its answer to one set of inputs."""
        return self.all([inputs])[0]

    def all(self, many: Sequence[Inputs], seconds: float = math.inf) -> list[Answer]:
        """Its answers, in order, until it hangs or the time is over; at least one.

        They are computed in a thread of their own, which is left behind if the function hangs. (A call that
        holds the interpreter's lock for good, in somebody's C code, cannot be left.)
        """
        answers: list[Answer] = []
        stop, end = threading.Event(), time.monotonic() + seconds

        def work() -> None:
            for inputs in many:
                answers.append(self._call(inputs))
                if stop.is_set() or time.monotonic() > end:
                    return

        thread = threading.Thread(target=work, daemon=True)
        with redirect_stdout(sys.stderr):  # what the function prints is no part of a report
            thread.start()
            if self._waited(thread, answers):
                return answers
        stop.set()
        return [*answers, Answer(problem=f"no answer within {self.limit:g} s", late=True)]

    def _waited(self, thread: threading.Thread, answers: list[Answer]) -> bool:
        """Waits for the thread as long as answers come; False if one of them took too long."""
        known, last = 0, time.monotonic()
        while thread.is_alive():
            thread.join(self.limit / 20)
            if len(answers) > known:
                known, last = len(answers), time.monotonic()
            elif time.monotonic() - last > self.limit and thread.is_alive():
                return False
        return True

    def _call(self, inputs: Inputs) -> Answer:
        given, kept = ([in_form(self.form, value) for value in inputs] for _ in range(2))
        try:
            with np.errstate(all="ignore"):
                returned = self.function(*given)
            value = self.read(returned, inputs)
        except BaseException as error:  # whatever it raises, sys.exit() included, is its answer
            return Answer(problem=f"{type(error).__name__}: {_line(error)}")
        wrote = tuple(i for i, (a, b) in enumerate(zip(given, kept, strict=True)) if not same(a, b))
        return Answer(value, dtype=dtype_of(returned), wrote=wrote)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else f"{text[:157]}..."


def same(a: Any, b: Any) -> bool:
    """Equal, NaN to NaN, all the way down."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or hasattr(a, "detach"):
        return np.array_equal(on_host(a), on_host(b), equal_nan=on_host(a).dtype.kind == "f")
    return a is b or a == b or (a != a and b != b)
