"""The tables that a configuration chooses from, and how worker processes come by a user's own entries.

A worker process imports refimpl afresh and knows what the package ships. A user's script has run only in the
main process, which therefore sends along what it has added.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from data_loaders.partition import PARTITIONS
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.config import Config
from refimpl.experiments.tasks import FEATURES, TASKS, method_of
from refimpl.graphs import GRAPHS
from refimpl.optim import OPTIMIZERS
from refimpl.related import SYSTEMS
from refimpl.related.schedules import SCHEDULES

PACKAGES = ("refimpl", "data_loaders")
TABLES: dict[str, dict[str, Any]] = {
    "rule": RULES,
    "system": SYSTEMS,
    "attack": ATTACKS,
    "graph": GRAPHS,
    "graph_schedule": SCHEDULES,
    "partition": PARTITIONS,
    "features": FEATURES,
    "optimizer": OPTIMIZERS,
    "task": TASKS,
}
"""By the field of `Config` that names an entry, which is a named tuple; the field "rule" may name a system."""


def entries(config: Config) -> list[Any]:
    """The entries that a run uses; a graph given by its edges has none. Raises ValueError if one is unknown."""
    names = {field: getattr(config, field) for field in TABLES if field not in ("rule", "system")}
    names = {field: name.partition(":")[0] for field, name in names.items() if name and isinstance(name, str)}
    if unknown := [f"{field} {name}" for field, name in names.items() if name not in TABLES[field]]:
        raise ValueError(f"{config.name} needs entries of the tables here, got {', '.join(unknown)}")
    return [method_of(config).entry, *(TABLES[field][name] for field, name in names.items())]


def ours(function: Callable) -> bool:
    """Whether it is a function of the package, perhaps with some of its arguments bound."""
    function = function.func if isinstance(function, functools.partial) else function
    return getattr(function, "__module__", "").partition(".")[0] in PACKAGES


SHIPPED = {kind: dict(table) for kind, table in TABLES.items()}
Added = dict[str, dict[str, Any]]  # entries by table and name


def added() -> Added:
    """The entries that a user has added or changed, or that use a function from outside of the package."""
    return {
        kind: {name: entry for name, entry in table.items() if foreign(entry, SHIPPED[kind].get(name))}
        for kind, table in TABLES.items()
    }


def foreign(entry: Any, shipped: Any) -> bool:
    """Whether an entry is not the one that the package ships, or has a function from outside of it."""
    return entry is not shipped or not all(ours(field) for field in entry if callable(field))


def install(entries: Added) -> None:
    """Puts entries into the tables of this process."""
    for kind, found in entries.items():
        TABLES[kind].update(found)


# --- Signatures ---------------------------------------------------------------------------------------------


def check(config: Config) -> None:
    """Raises ValueError if an entry of the run has a function that can't be called as its table calls it."""
    for entry in entries(config):
        for field, arguments in called_with(type(entry)).items():
            if (function := getattr(entry, field)) and not takes(function, arguments):
                got, kind = inspect.signature(function), type(entry).__name__
                needs = f"{kind}.{field} needs a function of {arguments} arguments"
                raise ValueError(f"{needs}, got {getattr(function, '__name__', function)}{got}")


@functools.cache
def called_with(table: type) -> dict[str, int]:
    """The number of arguments of each function in an entry of this type, as its annotations have it."""
    found = {}
    for field, hint in get_type_hints(table).items():
        for signature in (hint, *get_args(hint)):  # Callable[[A, B], C], or that or None
            match get_args(signature):
                case [list(arguments), _]:
                    found[field] = len(arguments)
    return found


def takes(function: Callable, count: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some functions in C do not tell
        return True
    return True
