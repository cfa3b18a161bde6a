"""What a run's numbers depend on, in a few digits.

A fingerprint changes with the configuration, the data, the entries of the tables that the run uses, a user's
own functions included, and the code: `run.py` and the modules that the run's method names, with all that these
import. Comments and docstrings do not count, and neither does code that only asks for runs or shows them, as
nothing that computes a run imports it.
"""

import ast
import functools
import hashlib
import inspect
import json
import marshal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import data_loaders
import refimpl
from refimpl.experiments.config import Config
from refimpl.experiments.registry import entries, ours
from refimpl.experiments.tasks import method_of

FOLDERS = {package.__name__: Path(str(package.__file__)).parent for package in (refimpl, data_loaders)}
RUN = "refimpl.experiments.run"
SWITCH = "refimpl.methods"
"""It imports every engine. It counts, but is not followed: of all engines, that of the run's method does."""


def fingerprint(config: Config, data: str) -> str:
    """Eight hexadecimal digits for the file's name; `data` is the digest of the data."""
    used = [described(entry) for entry in entries(config)]
    return sha256([asdict(replace(config, device=0)), data, code_of(config), used])[:8]


def sha256(facts: Any) -> str:
    """The checksum of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


# --- Code of the package ------------------------------------------------------------------------------------


def code_of(config: Config) -> str:
    """The digest of the package's code that computes the run: sixteen hexadecimal digits."""
    return code_digest(roots_of(config))


def roots_of(config: Config) -> tuple[str, ...]:
    """The modules that compute the run, all others being imported by them.

    Entries may use functions of the package that no engine imports. What a task loads its data by counts by the
    digest of the data.
    """
    own = {function.__module__ for function in functions_in(tuple(entries(config))) if ours(function)}
    elsewhere = sorted(name for name in own if not name.startswith("refimpl.experiments."))
    return (RUN, *method_of(config).modules, *elsewhere)


def functions_in(value: Any) -> Iterator[Callable]:
    """All functions in a tuple, and in tuples in it; of one with bound arguments, that which it is made of."""
    if isinstance(value, tuple):
        for field in value:
            yield from functions_in(field)
    elif isinstance(value, functools.partial):
        yield from functions_in(value.func)
    elif callable(value):
        yield value


@functools.cache
def code_digest(roots: tuple[str, ...]) -> str:
    """The digest of the modules of these names and of all that they reach."""
    return sha256({name: bare(source) for name, source in reached(roots).items()})[:16]


def reached(roots: Iterable[str]) -> dict[str, str]:
    """The sources of the modules that importing these ones imports, by name, with their own.

    Modules of the package only. An import counts wherever it stands in a file. Of a package, `__init__` counts
    where something is imported from it, and not where one of its modules is.
    """
    found: dict[str, str] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found and (path := file_of(name)):
            found[name] = path.read_text(encoding="utf-8")
            todo += [] if name == SWITCH else imported(found[name])
    return found


@functools.cache
def imported(source: str) -> list[str]:
    """The names of the modules that a file imports; `from a import b` means a.b if there is such a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if file_of(name) else str(node.module) for name in inside]
    return found


def file_of(module: str) -> Path | None:
    """The file of a module of the package; None if there is none."""
    package, *names = module.split(".")
    if package not in FOLDERS:
        return None
    place = FOLDERS[package].joinpath(*names)
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in files if path.is_file()), None)


class Strip(ast.NodeTransformer):
    """Removes statements that are nothing but a string."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


@functools.cache
def bare(source: str) -> str:
    """The source without comments and docstrings, in one form however it is laid out."""
    return ast.unparse(Strip().visit(ast.parse(source)))


# --- Entries of the tables ----------------------------------------------------------------------------------


def described(value: Any) -> Any:
    """An entry of a table, or what is in it: plain values as they are, functions by their code.

    The code of a user's function is the whole script that it comes from, without what the script imports. A
    function of the package's own is described by its name, as its code is in `code_of`.
    """
    if isinstance(value, tuple):
        return [described(field) for field in value]
    if isinstance(value, functools.partial):
        return described((value.func, value.args, tuple(sorted(value.keywords.items()))))
    if not callable(value):
        return repr(value)
    code = getattr(value, "__code__", None)
    if ours(value):
        return f"{value.__module__}.{value.__qualname__} {code and code.co_names}"
    try:
        return bare(inspect.getsource(inspect.getmodule(value) or value))
    except (OSError, TypeError, SyntaxError):  # typed into an interpreter
        return marshal.dumps(code).hex() if code else repr(value)
