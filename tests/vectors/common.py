"""What the generators of all families share: how a case is declared, computed, checked and written.

A case is a function that asserts the reason for its own existence and returns (function name, inputs). Its name
is the case's id, its docstring the comment, and the expected values are what refimpl makes of the inputs.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from functions import FUNCTIONS, TOLERANCES

from refimpl import models, vectors

FILES: dict[str, dict] = {}
MARGIN = 1e-6  # by how much a decision must be clear, so that rounding in another language cannot turn it


def file(name: str, reference: str, notes: list[str]) -> None:
    """Starts a family."""
    FILES[name] = {
        "name": name,
        "version": 1,
        "reference": reference,
        "notes": notes,
        "outputs": {},
        "cases": [],
        "errors": [],
    }


def case(name: str, precise: bool = True) -> Callable:
    """Declares a case of a family. `precise=False`: it overflows in binary64 only, so do not ask longdouble."""

    def declare(make: Callable[[], tuple[str, dict]]) -> Callable:
        add(name, make.__name__.replace("_", "-"), make.__doc__ or "", *make(), precise=precise)
        return make

    return declare


def family(name: str) -> Callable:
    """Declares a tight family of cases: the function yields (id, comment, function name, inputs)."""

    def declare(make: Callable[[], Iterator[tuple[str, str, str, dict]]]) -> Callable:
        for made in make():
            add(name, *made)
        return make

    return declare


def error(name: str) -> Callable:
    """Declares an error case: the function returns (function name, inputs, facts in the message)."""

    def declare(make: Callable[[], tuple[str, dict, list[str]]]) -> Callable:
        function, inputs, facts = make()
        message = refusal(FUNCTIONS[function], inputs)
        assert all(fact in message for fact in facts), message
        entry = {"id": make.__name__.replace("_", "-"), "comment": make.__doc__, "function": function}
        entry |= {"inputs": inputs, "error": {"kind": "invalid argument", "facts": facts}}
        FILES[name]["errors"].append(entry)
        return make

    return declare


def refusal(function: Callable, inputs: dict) -> str:
    """The message with which the function refuses its inputs; "" if it accepts them."""
    try:
        function(**inputs)
    except ValueError as raised:
        return str(raised)
    return ""


def add(name: str, id_: str, comment: str, function: str, inputs: dict, precise: bool = True) -> None:
    """Computes the expected values, proves the tolerances wide enough, and appends the case to its file."""
    expected = FUNCTIONS[function](**inputs)
    tolerances = {key: TOLERANCES.get(f"{function}.{key}", TOLERANCES[function]) for key in expected}
    tolerances |= {key: "exact" for key in expected if kind(expected[key]) != "f"}
    if precise:
        for key, value in FUNCTIONS[function](**longer(inputs)).items():
            if isinstance(value, list):  # names and shapes
                continue
            assert_close(expected[key], value, tolerances[key], f"{name}/{id_}: {key}")
    in_order(FILES[name]["outputs"].setdefault(function, []), list(expected))
    entry = {"id": id_, "comment": " ".join(comment.split()), "function": function}
    assert id_ not in [other["id"] for other in FILES[name]["cases"]], id_
    FILES[name]["cases"].append(entry | {"inputs": inputs, "expected": expected, "tolerances": tolerances})


def in_order(outputs: list[str], names: list[str]) -> None:
    """Adds to a function's list of outputs those that are new. Every case gives them in the list's order."""
    outputs += [name for name in names if name not in outputs]
    assert names == [name for name in outputs if name in names], (outputs, names)


def kind(value: Any) -> str:
    """f for floats; anything else is compared exactly."""
    return "list" if isinstance(value, list) else np.asarray(value).dtype.kind


def longer(value: Any) -> Any:
    """The same inputs with 64 bits of mantissa (on x86; elsewhere longdouble may be the same as double)."""
    if isinstance(value, np.ndarray) and value.dtype == float:
        return value.astype(np.longdouble)
    if isinstance(value, dict):
        return {key: longer(entry) for key, entry in value.items()}
    return value


def assert_close(value: Any, better: Any, tolerance: Any, where: str) -> None:
    """Rounding in binary64 uses at most a twentieth of the tolerance: another order of sums has room."""
    value, better = np.asarray(value), np.asarray(better)
    if tolerance == "exact":
        assert np.array_equal(value, better.astype(value.dtype), equal_nan=value.dtype.kind == "f"), where
        return
    finite = np.isfinite(value)
    assert np.array_equal(value[~finite], better[~finite].astype(float), equal_nan=True), where
    room = (tolerance["atol"] + tolerance["rtol"] * abs(value[finite])) / 20
    assert (abs(value[finite] - better[finite]) <= room).all(), where


def unlike(right: Any, *wrong: Any) -> None:
    """Asserts that each wrong answer differs from the right one by far more than any tolerance."""
    for answer in wrong:
        assert np.shape(right) != np.shape(answer) or not np.allclose(right, answer, 1e-3, 1e-6, equal_nan=True)


def draw(seed: int, *shape: int, digits: int = 2, scale: float = 1.0) -> np.ndarray:
    """Normal numbers with few digits, so that the files stay short and legible. No -0.0."""
    return np.random.default_rng(seed).normal(scale=scale, size=shape).round(digits) + 0.0


# --- Writing ------------------------------------------------------------------------------------------------


class Spec(NamedTuple):
    """A model as a port needs it: how to build it, and its layout."""

    description: dict

    @property
    def model(self) -> models.Model:
        given = dict(self.description)
        return {"mlp": models.mlp, "cnn": models.cnn}[given.pop("kind")](**given)

    def encoded(self) -> dict:
        try:
            layout = self.model.layout
        except ValueError:  # a case for a model that cannot be
            return self.description
        fields = [
            {"name": f.name, "offset": f.offset, "shape": list(f.shape), "fan_in": f.fan_in}
            for f in layout.fields
        ]
        return self.description | {"size": layout.size, "layout": fields}


def encode(value: Any) -> Any:
    """A value in the form of a vector file, specs included."""
    if isinstance(value, Spec):
        return value.encoded()
    if isinstance(value, dict):
        return {key: encode(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [encode(entry) for entry in value]
    return vectors.encode(value)


def text(value: Any, indent: str = "") -> str:
    """JSON with one line per array; Python writes the shortest decimals that round-trip."""
    flat = json.dumps(value)
    if len(indent + flat) <= 110 or not isinstance(value, dict | list) or (value and "data" in value):
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {text(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + text(entry, inner) for entry in value) + f"\n{indent}]"
