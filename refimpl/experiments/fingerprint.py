"""What a run's numbers depend on, in a few digits.

A fingerprint changes with the configuration, the data, the entries of the tables that the run uses, a user's
own functions included, and the code: `run.py` and the modules that the run's method and its entries name, with
all that these import. Comments and docstrings do not count, and neither does code that only asks for runs or
shows them, as nothing that computes a run imports it.

Whoever computes a run takes its fingerprint, too, and of the code that it has in memory: files may be edited
while a command is running, and its worker processes start later than itself or on other machines.
"""

import ast
import functools
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import data_loaders
import refimpl
from refimpl.experiments.config import Config
from refimpl.experiments.contents import Seen, UnknownError, described, modules_in, sha256
from refimpl.experiments.registry import entries
from refimpl.experiments.tasks import Task, method_of

RUN = "refimpl.experiments.run"
SWITCH = "refimpl.methods"
"""It imports every engine. It counts, but is not followed: of all engines, that of the run's method does."""


class Origin(NamedTuple):
    """What computes a run: two digests of sixteen hexadecimal digits."""

    code: str  # of the package's
    entries: str  # of those that the run uses; or what in them can't be compared, in words: "a generator"

    @property
    def known(self) -> bool:
        """Whether a run with the same origin is the same run."""
        return " " not in self.entries


def fingerprint(config: Config, data: str, origin: Origin) -> str:
    """Eight hexadecimal digits for the file's name; `data` is the digest of the data."""
    return sha256([asdict(replace(config, device=0)), data, *origin])[:8]


def origin_of(config: Config) -> Origin:
    """The origin of the run if this process computes it now.

    What a task loads its data by counts by the digest of the data.
    """
    used = [entry for some in entries([config]).values() for entry in some.values()]
    facts = [entry._asdict() | {"load": None} if isinstance(entry, Task) else entry for entry in used]
    return origin(facts, (RUN, *method_of(config).modules))


def origin(value: Any, modules: Iterable[str] = ()) -> Origin:
    """The digest of the code of these modules and of the package's that a value uses, and that of the value."""
    seen: Seen = {}
    try:
        digest = sha256(described(value, seen))[:16]
    except (UnknownError, RecursionError) as error:
        digest = str(error)
    return Origin(code_digest((*modules, *sorted(modules_in(seen)))), digest)


# --- Code of the package ------------------------------------------------------------------------------------


def read_sources() -> dict[str, str]:
    """The text of every file of the package, by the name of its module."""
    found = {}
    for package in (refimpl, data_loaders):
        folder = Path(str(package.__file__)).parent
        for path in folder.rglob("*.py"):
            name = ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


SOURCES = read_sources()  # when the code is imported, not later


PARSING = threading.Lock()  # Python 3.11 fails if two threads make syntax trees


@functools.cache
def code_digest(roots: tuple[str, ...]) -> str:
    """The digest of the modules of these names and of all that they reach."""
    with PARSING:
        return sha256({name: parsed(source).bare for name, source in reached(roots).items()})[:16]


def reached(roots: Iterable[str]) -> dict[str, str]:
    """The sources of the modules that importing these ones imports, by name, with their own.

    Modules of the package only. An import counts wherever it stands in a file. Of a package, `__init__` counts
    where something is imported from it, and not where one of its modules is.
    """
    found: dict[str, str] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found and name in SOURCES:
            found[name] = SOURCES[name]
            todo += [] if name == SWITCH else parsed(found[name]).imports
    return found


class Parsed(NamedTuple):
    """What counts of a file."""

    imports: list[str]  # the names of the modules that it imports
    bare: str  # its text without comments and docstrings, in one form however it is laid out


@functools.cache
def parsed(source: str) -> Parsed:
    """What counts of a file with this text."""
    tree = Strip().visit(ast.parse(source))
    return Parsed(imported(tree), ast.unparse(tree))


def imported(tree: ast.Module) -> list[str]:
    """The names of the modules that a file imports; `from a import b` means a.b if that is one."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in SOURCES else str(node.module) for name in inside]
    return found


class Strip(ast.NodeTransformer):
    """Removes statements that are nothing but a string."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node
