"""Checks a file against schema.json: the keywords of JSON Schema that it uses, and no others.

A validator of 40 lines instead of one more package to install for running the tests.
"""

import re
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
ANNOTATIONS = {"$schema", "$defs", "title"}


def problem(value: Any, schema: dict, root: dict, where: str = "file") -> str | None:
    """Where and how the value breaks the schema; None if it does not."""
    for keyword, argument in schema.items():
        if keyword in ANNOTATIONS:
            continue
        found = KEYWORDS[keyword](value, argument, schema, root, where)
        if found:
            return found
    return None


def first(problems: Any) -> str | None:
    return next(filter(None, problems), None)


def reference(value, name, schema, root, where):
    return problem(value, root["$defs"][name.removeprefix("#/$defs/")], root, where)


def of_type(value, name, schema, root, where):
    is_flag = isinstance(value, bool) and name != "boolean"  # Python's bool is an int, JSON's is not
    return None if isinstance(value, TYPES[name]) and not is_flag else f"{where}: needs {name}"


def any_of(value, options, schema, root, where):
    problems = [problem(value, option, root, where) for option in options]
    return None if None in problems else problems[0]


def properties(value, known, schema, root, where):
    return first(problem(value[key], known[key], root, f"{where}.{key}") for key in known if key in value)


def additional(value, rule, schema, root, where):
    others = [key for key in value if key not in schema.get("properties", {})]
    if rule is False:
        return f"{where}: unknown {others[0]}" if others else None
    return first(problem(value[key], rule, root, f"{where}.{key}") for key in others)


def items(value, rule, schema, root, where):
    return first(problem(entry, rule, root, f"{where}[{i}]") for i, entry in enumerate(value))


KEYWORDS = {
    "$ref": reference,
    "type": of_type,
    "anyOf": any_of,
    "properties": properties,
    "additionalProperties": additional,
    "items": items,
    "required": lambda v, keys, s, r, where: first(f"{where}: needs {k}" if k not in v else None for k in keys),
    "enum": lambda v, options, s, r, where: None if v in options else f"{where}: needs one of {options}",
    "const": lambda v, only, s, r, where: None if v == only and v is not True else f"{where}: needs {only!r}",
    "pattern": lambda v, p, s, r, where: None if re.search(p, v) else f"{where}: needs the form {p}",
    "minLength": lambda v, n, s, r, where: None if len(v) >= n else f"{where}: is empty",
    "minItems": lambda v, n, s, r, where: None if len(v) >= n else f"{where}: needs {n} entries",
    "minProperties": lambda v, n, s, r, where: None if len(v) >= n else f"{where}: is empty",
    "minimum": lambda v, low, s, r, where: None if v >= low else f"{where}: needs at least {low}",
}
