"""Compares what a port computed with the test vectors: python -m refimpl.vectors check FILE.json ...

The vectors are tests/vectors/v1 of a checkout, and are installed with the package; their format is in
docs/PORTING.md. A port answers a vector file with one of the same form in which `expected` holds the port's own
numbers.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).parent / "vectors_v1"  # in a checkout a link
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Difference(NamedTuple):
    """Where an answer leaves the expected one for the first time."""

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


def number(value: Any) -> Any:
    """NaN or an infinity for its name; anything else as it is."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def close(expected: Any, answer: Any, tolerance: Any) -> bool:
    """|answer - expected| <= atol + rtol |expected|; NaN is close to NaN; equal if the tolerance is "exact"."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (expected, answer))
    if not numbers or not math.isfinite(expected) or tolerance == "exact":
        both_nan = numbers and math.isnan(expected) and math.isnan(answer)
        return both_nan or (expected == answer and isinstance(expected, bool) == isinstance(answer, bool))
    try:
        return abs(answer - expected) <= tolerance["atol"] + tolerance["rtol"] * abs(expected)
    except OverflowError:  # an integer beyond all floats
        return False


def parting(where: str, expected: Any, answer: Any, tolerance: Any) -> tuple[str, Any, Any] | None:
    """The first place at which two encoded values differ by more than the tolerance, or None."""
    if isinstance(expected, list):
        if not isinstance(answer, list) or len(answer) != len(expected):
            return where, f"a list of {len(expected)}", _brief(answer)
        parts = (parting(f"{where}[{i}]", e, answer[i], tolerance) for i, e in enumerate(expected))
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


def differences(vectors: dict, answers: dict) -> Iterator[Difference]:
    """The first difference of each case in which the answers to a vector file part from it."""
    answered = {entry["id"]: entry for entry in [*answers.get("cases", []), *answers.get("errors", [])]}
    for case in [*vectors["cases"], *vectors["errors"]]:
        found = _first(case, answered.pop(case["id"], None))
        if found:
            yield Difference(f"{vectors['name']}/{case['id']}", case["comment"], *found)
    for unknown in answered:
        yield Difference(f"{vectors['name']}/{unknown}", "the vectors have no such case", "id", "none", unknown)


def _first(case: dict, answer: dict | None) -> tuple[str, Any, Any] | None:
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
        found = parting(key, expected, outputs.get(key), case["tolerances"][key])
        if found:
            return found
    return None


class InputError(Exception):
    """A file that cannot be used; the message is one line."""


def read(path: Path, what: str) -> dict:
    """A vector file, or answers to one. Raises InputError if it is neither, or answers a case twice."""
    try:
        content = json.loads(path.read_text())
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
    """Has it an id, and are its outputs or its error, if any, objects?"""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return False
    outputs, error = entry.get("expected") or {}, entry.get("error") or {}
    return (
        isinstance(outputs, dict)
        and isinstance(error, dict)
        and all(isinstance(error.get(key, ""), str) for key in ("kind", "message"))
    )


def shipped(family: str) -> dict:
    """An installed vector file."""
    return read(FOLDER / f"{family}.json", "vectors")


def check(path: Path, folder: Path) -> bool:
    """Prints how the answers in one file compare; True if all agree."""
    answers = read(path, "answers")
    name = str(answers.get("name"))
    known = sorted(file.stem for file in folder.glob("*.json"))
    if not known:
        raise InputError(f"no vectors in {folder}: give --vectors tests/vectors/v1 of a checkout of refimpl")
    if name not in known:
        raise InputError(f"{path} names the family {name!r}, choose from {', '.join(known)}")
    vectors = read(folder / f"{name}.json", "vectors")
    if answers.get("version") != vectors["version"]:
        raise InputError(f"{path} answers version {answers.get('version')}, these are {vectors['version']}")
    found = list(differences(vectors, answers))
    total = len(vectors["cases"]) + len(vectors["errors"])
    print(f"{name}: {total - len(found)} of {total} cases agree")
    for difference in found:
        print(f"  {difference}")
    return not found


def main(arguments: list[str] | None = None) -> int:
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


if __name__ == "__main__":
    sys.exit(main())
