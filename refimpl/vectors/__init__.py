"""Compares what a port computed with the test vectors: python -m refimpl.vectors check FILE.json ...

The vectors are the files of v1/; schema.json and docs/PORTING.md describe them, tests/vectors/generate.py in a
checkout writes them. A port answers a vector file with one of the same form in which `expected` holds the
port's own numbers.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parent / "v1"
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Mismatch(NamedTuple):
    """The first place at which the answer to a case differs from the expected one."""

    case: str
    comment: str
    where: str  # the output and the index in it
    expected: Any
    answer: Any

    def __str__(self) -> str:
        return f"{self.case}: {self.comment}\n    {self.where}: expected {self.expected}, got {self.answer}"


def decode(value: Any) -> Any:
    """A value of a vector file as Python and numpy have it: arrays, and NaN and infinities from their names."""
    if isinstance(value, dict) and set(value) == {"shape", "data"}:
        return np.array([decode(entry) for entry in value["data"]]).reshape(value["shape"])
    if isinstance(value, dict):
        return {key: decode(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    return number(value)


def encode(value: Any) -> Any:
    """A value in the form of a vector file, which `decode` reads: made for JSON."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "data": encode(value.ravel().tolist())}
    if isinstance(value, dict):
        return {key: encode(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [encode(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def number(value: Any) -> Any:
    """The number that a string names, NaN or an infinity; any other value as it is."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def close(expected: Any, answer: Any, tolerance: Any) -> bool:
    """True if |answer - expected| <= atol + rtol |expected|, or both are NaN; "exact" asks for equal values."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (expected, answer))
    if not numbers or not math.isfinite(expected) or tolerance == "exact":
        both_nan = numbers and math.isnan(expected) and math.isnan(answer)
        return both_nan or (expected == answer and isinstance(expected, bool) == isinstance(answer, bool))
    try:
        return abs(answer - expected) <= tolerance["atol"] + tolerance["rtol"] * abs(expected)
    except OverflowError:  # an integer beyond all floats
        return False


def first_mismatch(where: str, expected: Any, answer: Any, tolerance: Any) -> tuple[str, Any, Any] | None:
    """The first place at which two encoded values differ by more than the tolerance, or None."""
    if isinstance(expected, list):
        if not isinstance(answer, list) or len(answer) != len(expected):
            return where, f"a list of {len(expected)}", _brief(answer)
        parts = (first_mismatch(f"{where}[{i}]", e, answer[i], tolerance) for i, e in enumerate(expected))
        return next((part for part in parts if part), None)
    if isinstance(expected, dict):  # an array
        shape = expected["shape"]
        if not isinstance(answer, dict) or answer.get("shape") != shape:
            return where, f"shape {shape}", _shape(answer)
        data = answer.get("data")
        if not isinstance(data, list) or len(data) != len(expected["data"]):
            return where, f"{len(expected['data'])} numbers in data", _brief(data)
        for i, (e, a) in enumerate(zip(expected["data"], data, strict=True)):
            if not close(number(e), number(a), tolerance):
                index = ", ".join(str(int(j)) for j in np.unravel_index(i, shape))
                return f"{where}[{index}]", e, _brief(a)
        return None
    same = close(number(expected), number(answer), tolerance)
    return None if same else (where, expected, _brief(answer))


def _shape(answer: Any) -> str:
    return f"shape {answer['shape']}" if isinstance(answer, dict) and "shape" in answer else _brief(answer)


def _brief(answer: Any) -> str:
    text = "nothing" if answer is None else str(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."


def mismatches(vectors: dict, answers: dict) -> Iterator[Mismatch]:
    """The first mismatch of each case whose answer differs from the vector file, and cases that it lacks."""
    answered = {entry["id"]: entry for entry in [*answers.get("cases", []), *answers.get("errors", [])]}
    for case in [*vectors["cases"], *vectors["errors"]]:
        found = _first_of_case(case, answered.pop(case["id"], None))
        if found:
            yield Mismatch(f"{vectors['name']}/{case['id']}", case["comment"], *found)
    for unknown in answered:
        yield Mismatch(f"{vectors['name']}/{unknown}", "the vectors have no such case", "id", "none", unknown)


def _first_of_case(case: dict, answer: dict | None) -> tuple[str, Any, Any] | None:
    if answer is None:
        return "answer", "one", "nothing"
    if "error" in case:
        kind, got = case["error"]["kind"], answer.get("error") or {}
        lacking = [fact for fact in case["error"]["facts"] if fact not in got.get("message", fact)]
        if got.get("kind") != kind:
            return "error", kind, _brief(got.get("kind"))
        return ("error message", f"one with {lacking[0]!r}", _brief(got["message"])) if lacking else None
    outputs = answer.get("expected") or {}
    for key, expected in case["expected"].items():
        found = first_mismatch(key, expected, outputs.get(key), case["tolerances"][key])
        if found:
            return found
    return None


class InputError(Exception):
    """A file that cannot be used; the message is one line."""


def read(path: Path, what: str) -> dict:
    """A vector file, or answers to one. Raises InputError if it is neither, or answers a case twice."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")  # a pipe would keep us waiting
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {what} {path}: {error}") from None
    parts: list[Any] = [None]
    if isinstance(content, dict):
        parts = [content.get(key, []) for key in ("cases", "errors")]
    if not all(isinstance(part, list) and all(map(_well_formed, part)) for part in parts):
        raise InputError(f"{path} is not of the form of a vector file: see docs/PORTING.md")
    ids = [entry["id"] for part in parts for entry in part]
    twice = [id_ for i, id_ in enumerate(ids) if id_ in ids[:i]]
    if twice:
        raise InputError(f"{path} has the id {twice[0]!r} more than once")
    return content


def _well_formed(entry: Any) -> bool:
    """True if it has an id, and its outputs and its error, if any, are objects."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return False
    outputs, error = entry.get("expected") or {}, entry.get("error") or {}
    return (
        isinstance(outputs, dict)
        and isinstance(error, dict)
        and all(isinstance(error.get(key, ""), str) for key in ("kind", "message"))
    )


def shipped(family: str) -> dict:
    """The vectors of a family, as they come with the package."""
    return read(FOLDER / f"{family}.json", "vectors")


def check(path: Path, folder: Path) -> bool:
    """Prints how the answers in one file compare; True if all agree."""
    answers = read(path, "answers")
    name = str(answers.get("name"))
    known = sorted(file.stem for file in folder.glob("*.json"))
    if not known:
        raise InputError(f"no vectors in {folder}: give --vectors refimpl/vectors/v1 of a checkout")
    if name not in known:
        raise InputError(f"{path} names the family {name!r}, choose from {', '.join(known)}")
    vectors = read(folder / f"{name}.json", "vectors")
    try:
        if answers.get("version") != vectors["version"]:
            raise InputError(f"{path} answers version {answers.get('version')}, these are {vectors['version']}")
        found = list(mismatches(vectors, answers))
    except KeyError as error:
        raise InputError(f"{folder / name}.json needs to be a vector file, but has no {error}") from None
    total = len(vectors["cases"]) + len(vectors["errors"])
    print(f"{name}: {total - len(found)} of {total} cases agree")
    for mismatch in found:
        print(f"  {mismatch}")
    return not found


def main(arguments: list[str] | None = None) -> int:
    """Exit status of the command: 0 if all answers agree, 1 if some differ, 2 if a file cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m refimpl.vectors", description=__doc__)
    parser.add_argument("command", choices=["check"])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json", help="a port's answers")
    parser.add_argument(
        "--vectors", type=Path, default=FOLDER, metavar="FOLDER", help="default: those of this version"
    )
    options = parser.parse_args(arguments)
    try:
        agree = [check(path, options.vectors) for path in options.files]
    except InputError as error:
        print(f"refimpl.vectors: {error}", file=sys.stderr)
        return 2
    return 0 if all(agree) else 1
