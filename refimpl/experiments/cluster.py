"""The runs of a grid on a Dask cluster: `--cluster ADDRESS`. Needs the extra `cluster`.

A run's configuration goes to a worker that is free, and the file that the run makes comes back and is written
here, as if it had been made here. What all runs have in common, the data sets and the entries that a user has
added to the tables, goes to each worker once, also to one that joins later. The runs of a worker that dies are
given to the others, from their first round: no checkpoints are kept.
"""

import functools
import json
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from distributed import Client, KilledWorker, WorkerPlugin, as_completed, get_worker
from distributed.comm import CommClosedError
from threadpoolctl import threadpool_limits

from data_loaders import Dataset
from refimpl.experiments import grid, tasks
from refimpl.experiments.atomic import write
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import code_digest, roots_of
from refimpl.experiments.registry import Added, added, install
from refimpl.experiments.results import RunResult, as_json, from_json
from refimpl.experiments.tasks import TASKS


def connect(address: str) -> tuple[grid.RunAll, int]:
    """The function that computes a grid there, in the form of `grid.run_all`, and its number of runs at a time.

    Raises ValueError if there is no scheduler, or if it has no workers.
    """
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what matters is said below, in a line
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"--cluster needs a Dask scheduler: {error}") from None
    slots = sum(client.ncores().values())
    if not slots:
        client.close()
        raise ValueError(f"--cluster needs workers, but the scheduler at {address} has none")
    return functools.partial(run_all, client), slots


def run_all(
    client: Client, configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[RunResult]:
    """Runs them on all workers, whatever `jobs`, yielding each result as soon as its file is written here.

    Raises OSError if the scheduler is lost.
    """
    parcel = Parcel(shared_entries({config.task for config in configs}, data_dir), set(map(roots_of, configs)))
    client.register_plugin(parcel)
    try:
        runs = client.map(run_there, configs, parcel=parcel.name, threads=threads, pure=False)
        for run in as_completed(runs, loop=client.loop):
            text = run.result()
            result = from_json(json.loads(text))
            write(grid.path_of(result.config, out, data_dir), text)
            yield result
    except (CancelledError, CommClosedError, KilledWorker) as error:
        killed = isinstance(error, KilledWorker)
        what = "a run ends every worker that it is on" if killed else "no scheduler any more"
        raise OSError(f"--cluster: {what}; finished runs are kept, the same command does the rest") from None
    finally:
        if client.status == "running":
            client.unregister_worker_plugin(parcel.name)
        client.close()


def shared_entries(names: set[str], data_dir: str | None) -> Added:
    """The entries that a user has added, and the tasks with their data in the place of the way to load them."""
    entries = added()
    for name in names:
        data = TASKS[name].load(data_dir)
        entries["task"][name] = TASKS[name]._replace(load=functools.partial(at_hand, data))
    return entries


def at_hand(data: Dataset, data_dir: str | None) -> Dataset:
    """A task's `load` where the data are there already."""
    return data


# --- On a worker of the cluster -----------------------------------------------------------------------------


class Parcel(WorkerPlugin):
    """Carries to each worker what its runs have in common, and refuses one that would compute by other code."""

    def __init__(self, entries: Added, roots: Iterable[tuple[str, ...]]) -> None:
        """`roots` are the modules that compute the runs, as `fingerprint.roots_of` names them."""
        self.name, self.entries = f"refimpl-{uuid4()}", entries
        self.code = {some: code_digest(some) for some in roots}

    def setup(self, worker: Any) -> None:
        """Raises ValueError if the worker has other code."""
        if any(code_digest(roots) != digest for roots, digest in self.code.items()):
            raise ValueError(f"--cluster needs the same refimpl everywhere, but {worker.address} has another")

    def teardown(self, worker: Any) -> None:
        """Frees the data that the worker has kept."""
        tasks.forget()


def run_there(config: Config, parcel: str, threads: int) -> str:
    """The text of a run's file, as `grid.run_to_file` writes it."""
    threadpool_limits(threads)  # from now on: a worker with several threads computes several runs at once
    install(cast(Parcel, get_worker().plugins[parcel]).entries)
    return as_json(grid.run(config, None, threads))
