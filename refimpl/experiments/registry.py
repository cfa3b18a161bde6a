"""The tables that a configuration chooses from, and how a worker process comes by the entries of a run.

A worker process imports refimpl afresh and knows what the package ships. A user's script has run only in the
main process, which therefore sends along the entries that its runs use. They are in the tables of the worker
for the time of the run, and no longer: its next run may be another script's.
"""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args, get_type_hints

from data_loaders.partition import PARTITIONS
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS, KNOWLEDGE, Attack
from refimpl.experiments.config import Config
from refimpl.experiments.contents import UnknownError, described
from refimpl.experiments.tasks import FEATURES, TASKS, method_of
from refimpl.graphs import GRAPHS
from refimpl.optim import OPTIMIZERS
from refimpl.related import SYSTEMS
from refimpl.related.schedules import SCHEDULES

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
    "knowledge": KNOWLEDGE,
}
"""By the field of `Config` that names an entry, which is a named tuple; the field "rule" may name a system, and
what an attack knows is named by the attack's entry."""
SHIPPED = {kind: dict(table) for kind, table in TABLES.items()}  # in a worker process, where no script has run
Entries = dict[str, dict[str, Any]]  # by table and name


def names(config: Config) -> dict[str, str]:
    """The names of the entries that a run uses, by table; a graph given by its edges has none."""
    found = {kind: getattr(config, kind) for kind in TABLES if kind not in ("rule", "system", "knowledge")}
    found["rule" if method_of(config).rule else "system"] = config.rule
    return {kind: text.partition(":")[0] for kind, text in found.items() if text and isinstance(text, str)}


def entries(configs: Iterable[Config]) -> Entries:
    """The entries that the runs use. Raises ValueError if one is unknown."""
    found: Entries = {}
    for config in configs:
        for kind, name in names(config).items():
            if name not in TABLES[kind]:
                raise ValueError(f"{config.name} needs entries of the tables here, got {kind} {name}")
            found.setdefault(kind, {})[name] = TABLES[kind][name]
    known = {name for attack in found.get("attack", {}).values() for name in attack.knows if name in KNOWLEDGE}
    return found | {"knowledge": {name: KNOWLEDGE[name] for name in sorted(known)}} if known else found


# --- In the process of a run --------------------------------------------------------------------------------


def at_home(sent: Entries) -> Entries:
    """The entries, each in this process's own copy if it has the same: `fast` knows functions by identity."""
    return {
        kind: {name: own_copy(SHIPPED[kind].get(name), entry) for name, entry in some.items()}
        for kind, some in sent.items()
    }


def own_copy(own: Any, entry: Any) -> Any:
    """`own` if it is made of the same as the entry, else the entry."""
    try:
        return own if own and described(own, {}) == described(entry, {}) else entry
    except (UnknownError, RecursionError):
        return entry


TURN = threading.Condition()
UNDER_WAY: list[Entries] = []  # the entries of each run under way in this process
AFTERWARDS = contextlib.ExitStack()  # what to do once there is none


@contextlib.contextmanager
def installed(some: Entries) -> Iterator[None]:
    """Within it, these entries are in the tables of this process; afterwards the tables are as before.

    Runs in threads of one process may overlap if they were given the very same entries; others wait.
    """
    with TURN:
        TURN.wait_for(lambda: all(other is some for other in UNDER_WAY))
        if not UNDER_WAY:
            AFTERWARDS.callback(put, put(some))
        UNDER_WAY.append(some)
    try:
        yield
    finally:
        with TURN:
            UNDER_WAY.pop()
            if not UNDER_WAY:
                TURN.notify_all()
                AFTERWARDS.close()


def put(some: Entries) -> Entries:
    """Puts entries into the tables, None removes one; returns what was there, or None where nothing was."""
    before: Entries = {kind: {name: TABLES[kind].get(name) for name in found} for kind, found in some.items()}
    for kind, found in some.items():
        for name, entry in found.items():
            if entry is None:
                TABLES[kind].pop(name, None)
            else:
                TABLES[kind][name] = entry
    return before


# --- Signatures ---------------------------------------------------------------------------------------------


def strangers() -> list[Any]:
    """What the tables hold beside entries, which are named tuples: a user's function, say."""
    return [entry for table in TABLES.values() for entry in table.values() if not hasattr(entry, "_fields")]


def check(config: Config) -> None:
    """Raises ValueError if an entry of the run can't be called as its table calls it."""
    known = [TABLES[kind].get(name) for kind, name in names(config).items()]  # others are refused elsewhere
    known += [KNOWLEDGE.get(name) for name in ATTACKS[config.attack].knows] if config.attack in ATTACKS else []
    for entry in filter(None, known):
        counts = called_with(type(entry))
        if isinstance(entry, Attack):
            counts["send"] = len(entry.knows)
        for field, arguments in counts.items():
            if (function := getattr(entry, field)) and not takes(function, arguments):
                got, kind = inspect.signature(function), type(entry).__name__
                needs = f"{kind}.{field} needs a function of {arguments} arguments"
                raise ValueError(f"{needs}, got {getattr(function, '__name__', function)}{got}")


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
