"""What a run's numbers depend on, in a few digits.

A fingerprint changes with the configuration, the data and the code that computes the numbers, a user's own
functions included; comments, docstrings and the files that only ask for runs or show them do not change it.
What is in `related` changes only the fingerprints of its systems, never those of the paper's rules.
"""

import ast
import functools
import hashlib
import inspect
import json
import marshal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import data_loaders
import refimpl
from refimpl.aggregate import RULES
from refimpl.experiments.tables import entries, ours
from refimpl.experiments.tasks import Config

SHOWING = "cli cluster compare endings figures files options paper pictures progress report runs summary"
FRONT_END = ("vectors.py", "audit/", *(f"experiments/{name}.py" for name in SHOWING.split()))


def fingerprint(config: Config, data: str) -> str:
    """Eight hexadecimal digits for the file's name; `data` is the digest of the data."""
    used = [described(entry) for entry in entries(config)]
    return sha256([asdict(replace(config, device=0)), data, code_of_rule(config.rule), used])[:8]


def sha256(facts: Any) -> str:
    """Of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def seal(result: dict[str, Any]) -> str:
    """The checksum of all that a repetition of the run would give again."""
    return sha256({key: value for key, value in result.items() if key not in ("seconds", "sha256")})


def code_of_rule(name: str) -> str:
    """The digest of the code that computes runs of a rule, or of a system."""
    return code_digest() if name in RULES else code_digest(related=True)


@functools.cache
def code_digest(related: bool = False) -> str:
    """Of all of refimpl and data_loaders but what FRONT_END names, and of `refimpl/related` only if asked."""
    digest = hashlib.sha256()
    for package in (refimpl, data_loaders):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder).as_posix()
            if not name.startswith(FRONT_END) and (related or not name.startswith("related/")):
                digest.update(bare(path.read_text()).encode())
    return digest.hexdigest()[:16]


class Strip(ast.NodeTransformer):
    """Removes statements that are nothing but a string."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def bare(source: str) -> str:
    """The source without comments and docstrings, in one form however it is laid out."""
    return ast.unparse(Strip().visit(ast.parse(source)))


def described(entry: Any) -> list[str]:
    """An entry of a table: its plain fields, and the code of its functions."""
    return [code_of(field) if callable(field) else repr(field) for field in entry]


def code_of(function: Callable) -> str:
    """The whole script that a user's function comes from; of one of the package's own, its name.

    The code of the latter is in `code_digest`. Modules that the script imports are not looked at.
    """
    if isinstance(function, functools.partial):
        return f"{code_of(function.func)} {function.args} {function.keywords}"
    code = getattr(function, "__code__", None)
    if ours(function):
        return f"{function.__module__}.{function.__qualname__} {code and code.co_names}"
    try:
        return bare(inspect.getsource(inspect.getmodule(function) or function))
    except (OSError, TypeError, SyntaxError):  # typed into an interpreter
        return marshal.dumps(code).hex() if code else repr(function)
