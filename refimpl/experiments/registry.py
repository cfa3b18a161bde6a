"""The tables that a configuration chooses from, and how a worker process comes by the entries of a run.

A worker process imports refimpl afresh and knows what the package ships. A user's script has run only in the
main process, which therefore sends along the entries that its runs use. They are in the tables of the worker
for the time of the run, and no longer: its next run may be another script's.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from data_loaders.partition import PARTITIONS
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
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
}
"""By the field of `Config` that names an entry, which is a named tuple; the field "rule" may name a system."""
SHIPPED = {kind: dict(table) for kind, table in TABLES.items()}  # in a worker process, where no script has run
Entries = dict[str, dict[str, Any]]  # by table and name


def entries(configs: Iterable[Config]) -> Entries:
    """The entries that the runs use; a graph given by its edges has none."""
    found: Entries = {}
    for config in configs:
        names = {kind: getattr(config, kind) for kind in TABLES if kind not in ("rule", "system")}
        names["rule" if method_of(config).rule else "system"] = config.rule
        for kind, text in names.items():
            if text and isinstance(text, str):
                name = text.partition(":")[0]
                found.setdefault(kind, {})[name] = TABLES[kind][name]
    return found


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
                AFTERWARDS.close()
                TURN.notify_all()


def put(some: Entries) -> Entries:
    """Puts entries into the tables, None removes one; returns what was there, or None where nothing was."""
    before: Entries = {kind: {name: TABLES[kind].get(name) for name in found} for kind, found in some.items()}
    for kind, found in some.items():
        for name, entry in found.items():
            if entry is None:
                del TABLES[kind][name]
            else:
                TABLES[kind][name] = entry
    return before
